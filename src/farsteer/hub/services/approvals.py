"""The approvals inbox: everything that waits for a person. The first answer wins, and the others are told."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import msgspec

from farsteer.core.api import ApprovalAnswered, ApprovalsResponse, ApprovalView
from farsteer.core.approvals import Answer, Approval, check_answer
from farsteer.core.commands import AnswerApproval
from farsteer.core.errors import AlreadyAnswered, NotFound
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.rules.view import SessionRow
from farsteer.hub.services.machines import Machines
from farsteer.hub.store.base import Resolution, Store

_REMEMBERED = 4096


class Approvals:
    def __init__(self, store: Store, machines: Machines) -> None:
        self._store = store
        self._machines = machines
        self._answering: dict[tuple[str, str], asyncio.Lock] = {}
        self._answered: OrderedDict[tuple[str, str], Resolution] = OrderedDict()
        """Answers whose event may not have reached the store yet."""

    async def inbox(self, caller: Caller) -> ApprovalsResponse:
        """Everything in the namespace that waits for a person, oldest first."""
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
            for approval in row.state.approvals
        ]
        return ApprovalsResponse(approvals=sorted(views, key=lambda view: view.approval.created_at))

    async def answer(
        self, caller: Caller, session_id: str, approval_id: str, answer: Answer
    ) -> ApprovalAnswered:
        """The first answer wins; later ones get AlreadyAnswered with details `outcome` and `by`."""
        caller.require(Scope.APPROVE)
        row = await self._store.get_session(caller.namespace, session_id)
        key = (session_id, approval_id)
        lock = self._answering.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                return await self._answer(caller, row, approval_id, answer)
        finally:
            if not lock.locked():
                self._answering.pop(key, None)

    async def _answer(
        self, caller: Caller, row: SessionRow, approval_id: str, answer: Answer
    ) -> ApprovalAnswered:
        approval = await self._open(caller, row, approval_id)
        whole = check_answer(approval, msgspec.structs.replace(answer, by=caller.name))
        command = AnswerApproval(approval_id=approval_id, answer=whole)
        await self._machines.call(caller.namespace, row.machine_id, row.id, command)
        self._remember(row.id, approval_id, Resolution(whole.outcome, whole.by))
        return ApprovalAnswered(ok=True, outcome=whole.outcome, by=whole.by)

    async def _open(self, caller: Caller, row: SessionRow, approval_id: str) -> Approval:
        """An agent may ask again under the same id: an approval that is open has not been answered."""
        key = (row.id, approval_id)
        resolved = await self._store.find_resolution(caller.namespace, row.id, approval_id)
        if resolved is not None:
            self._answered.pop(key, None)
        ended = self._answered.get(key)
        if ended is None:
            for approval in row.state.approvals:
                if approval.id == approval_id:
                    return approval
            ended = resolved
        if ended is None:
            raise NotFound("no such approval")
        raise AlreadyAnswered(
            f"already answered: {ended.outcome.value}", outcome=ended.outcome.value, by=ended.by
        )

    def _remember(self, session_id: str, approval_id: str, resolved: Resolution) -> None:
        self._answered[session_id, approval_id] = resolved
        if len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
