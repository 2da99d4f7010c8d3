"""The open approvals of one session, and the outcomes of recent ones."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import msgspec

from farsteer.core import events as ev
from farsteer.core.approvals import Answer, Approval, Outcome, already_answered
from farsteer.core.clock import now_ms
from farsteer.core.errors import NotFound
from farsteer.core.session import MAX_OPEN_APPROVALS
from farsteer.runner.session.log import SessionLog
from farsteer.runner.session.mailbox import ApprovalExpired
from farsteer.runner.session.timers import Timers

_MAX_REMEMBERED = 200
_MAX_ID_CHARS = 200


class OpenApprovals:
    """The state has summaries of large approvals. They are whole here, because the agent needs that for its answer."""

    def __init__(self, log: SessionLog, timers: Timers, timeout: float | None) -> None:
        self._log = log
        self._timers = timers
        self._timeout = timeout
        self._asked: dict[str, Approval] = {}
        """What the agent asked, by the id in the log."""
        self._waiting: OrderedDict[str, Approval] = OrderedDict()
        """Approvals beyond the number that may be open. They are opened when others are closed."""
        self._answered: dict[str, Answer] = {}

    def open(self, approval: Approval) -> None:
        """Log the approval, and start its timer if approvals of this session expire."""
        id = _log_id(approval.id)
        if len(self._log.state.approvals) >= MAX_OPEN_APPROVALS:
            self._waiting[id] = approval
            return
        self._asked[id] = approval
        shown = approval if id == approval.id else msgspec.structs.replace(approval, id=id)
        if self._timeout is not None:
            expires_at = now_ms() + int(self._timeout * 1000)
            shown = msgspec.structs.replace(shown, expires_at=expires_at)
            self._timers.start(id, self._timeout, ApprovalExpired(id))
        self._log.add(ev.ApprovalRequested(approval=shown))

    def is_open(self, approval_id: str) -> bool:
        return any(approval.id == approval_id for approval in self._log.state.approvals)

    def get(self, approval_id: str) -> Approval:
        """Return an open approval, as the agent asked it.

        Raises AlreadyAnswered, with the outcome and who answered, if it was closed, and NotFound if it is unknown.
        """
        for approval in self._log.state.approvals:
            if approval.id == approval_id:
                return self._asked.get(approval_id, approval)
        known = self._answered.get(approval_id)
        if known is None:
            raise NotFound("no such approval in this session")
        raise already_answered(known.outcome, known.by, known.identity)

    def close(self, approval_id: str, answer: Answer) -> None:
        """Log the outcome. Idempotent."""
        if not self.is_open(approval_id):
            return
        self._timers.cancel(approval_id)
        self._asked.pop(approval_id, None)
        self._answered[approval_id] = Answer(outcome=answer.outcome, by=answer.by, identity=answer.identity)
        if len(self._answered) > _MAX_REMEMBERED:
            del self._answered[next(iter(self._answered))]
        self._log.add(
            ev.ApprovalResolved(
                approval_id=approval_id,
                outcome=answer.outcome,
                by=answer.by,
                identity=answer.identity,
                option_id=answer.option_id,
                answers=answer.answers,
                message=answer.message,
            )
        )
        if self._waiting:
            self.open(self._waiting.popitem(last=False)[1])

    def withdraw(self, approval_id: str) -> None:
        """Close an approval as cancelled: the agent no longer waits for it."""
        id = _log_id(approval_id)
        if self._waiting.pop(id, None) is None:
            self.close(id, Answer(outcome=Outcome.CANCELLED))

    def withdraw_all(self) -> None:
        self._waiting.clear()
        for approval in self._log.state.approvals:
            self.withdraw(approval.id)


def _log_id(agent_id: str) -> str:
    """Return the id of an approval in the log: the agent's, unless that is so long that the state would grow by it."""
    if len(agent_id) <= _MAX_ID_CHARS:
        return agent_id
    return hashlib.sha256(agent_id.encode(errors="replace")).hexdigest()
