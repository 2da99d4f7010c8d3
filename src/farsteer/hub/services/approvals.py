"""Approvals: the inbox of everything that waits for a person, and the answers. The first answer wins."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import msgspec

from farsteer.core.api import ApprovalAnswered, ApprovalsResponse, ApprovalView
from farsteer.core.approvals import Answer, Approval, already_answered, check_answer
from farsteer.core.commands import AnswerApproval
from farsteer.core.errors import NotFound
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.rules.view import SessionRow
from farsteer.hub.store.base import Resolution, Store

_MAX_ANSWERED = 4096


class Approvals:
    """Lists and answers approvals.

    The runner decides which answer is the first. The locks and the recent answers that this process keeps only let it
    refuse a later answer without asking the runner, so several hubs need no replacement for them.
    """

    def __init__(self, store: Store, links: MachineLinks) -> None:
        self._store = store
        self._links = links
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}
        self._answered: OrderedDict[tuple[str, str], Resolution] = OrderedDict()
        """Answers whose event may not be stored yet."""

    async def inbox(self, caller: Caller) -> ApprovalsResponse:
        """Return all open approvals of the namespace, oldest first."""
        caller.require(Scope.READ)
        rows = await self._store.list_sessions_with_approvals(caller.namespace)
        views = [
            ApprovalView(
                session_id=row.id,
                session_title=row.state.title,
                agent=row.state.agent,
                approval=approval,
            )
            for row in rows
            for approval in row.approvals
        ]
        return ApprovalsResponse(approvals=sorted(views, key=lambda view: view.approval.created_at))

    async def answer(
        self, caller: Caller, session_id: str, approval_id: str, answer: Answer
    ) -> ApprovalAnswered:
        """Answer an approval. Raises NotFound, and AlreadyAnswered with the details `outcome`, `by` and `identity`."""
        caller.require(Scope.APPROVE)
        row = await self._store.get_session(caller.namespace, session_id, whole_approvals=True)
        key = (session_id, approval_id)
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                return await self._answer(caller, row, approval_id, answer)
        finally:
            if not lock.locked():
                self._locks.pop(key, None)

    async def _answer(
        self, caller: Caller, row: SessionRow, approval_id: str, answer: Answer
    ) -> ApprovalAnswered:
        approval = await self._find_open(caller, row, approval_id)
        checked = check_answer(
            approval, msgspec.structs.replace(answer, by=caller.name, identity=caller.identity)
        )
        command = AnswerApproval(approval_id=approval_id, answer=checked)
        await self._links.call(caller.namespace, row.machine_id, row.id, command)
        self._add_answered(row.id, approval_id, Resolution(checked.outcome, checked.by, checked.identity))
        return ApprovalAnswered(ok=True, outcome=checked.outcome, by=checked.by, identity=checked.identity)

    async def _find_open(self, caller: Caller, row: SessionRow, approval_id: str) -> Approval:
        """Return the open approval. An agent may reuse an id, so an open approval counts even if one was resolved."""
        key = (row.id, approval_id)
        resolved = await self._store.find_resolution(caller.namespace, row.id, approval_id)
        if resolved is not None:
            self._answered.pop(key, None)
        answered = self._answered.get(key)
        if answered is None:
            for approval in row.approvals:
                if approval.id == approval_id:
                    return approval
            answered = resolved
        if answered is None:
            raise NotFound("no such approval")
        raise already_answered(answered.outcome, answered.by, answered.identity)

    def _add_answered(self, session_id: str, approval_id: str, resolved: Resolution) -> None:
        self._answered[session_id, approval_id] = resolved
        if len(self._answered) > _MAX_ANSWERED:
            self._answered.popitem(last=False)
