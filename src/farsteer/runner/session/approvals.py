"""The open approvals of one session, and the outcomes of recent ones."""

from __future__ import annotations

import msgspec

from farsteer.core import events as ev
from farsteer.core.approvals import Answer, Approval, Outcome, already_answered
from farsteer.core.clock import now_ms
from farsteer.core.errors import NotFound
from farsteer.runner.session.log import SessionLog
from farsteer.runner.session.mailbox import ApprovalExpired
from farsteer.runner.session.timers import Timers

_MAX_REMEMBERED = 200


class OpenApprovals:
    def __init__(self, log: SessionLog, timers: Timers, timeout: float | None) -> None:
        self._log = log
        self._timers = timers
        self._timeout = timeout
        self._answered: dict[str, Answer] = {}

    def open(self, approval: Approval) -> None:
        """Log the approval, and start its timer if approvals of this session expire."""
        if self._timeout is not None:
            expires_at = now_ms() + int(self._timeout * 1000)
            approval = msgspec.structs.replace(approval, expires_at=expires_at)
            self._timers.start(approval.id, self._timeout, ApprovalExpired(approval.id))
        self._log.add(ev.ApprovalRequested(approval=approval))

    def is_open(self, approval_id: str) -> bool:
        return any(approval.id == approval_id for approval in self._log.state.approvals)

    def get(self, approval_id: str) -> Approval:
        """Return an open approval.

        Raises AlreadyAnswered, with the outcome and who answered, if it was closed, and NotFound if it is unknown.
        """
        for approval in self._log.state.approvals:
            if approval.id == approval_id:
                return approval
        known = self._answered.get(approval_id)
        if known is None:
            raise NotFound("no such approval in this session")
        raise already_answered(known.outcome, known.by, known.identity)

    def close(self, approval_id: str, answer: Answer) -> None:
        """Log the outcome. Idempotent."""
        if not self.is_open(approval_id):
            return
        self._timers.cancel(approval_id)
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

    def withdraw(self, approval_id: str) -> None:
        """Close an approval as cancelled: the agent no longer waits for it."""
        self.close(approval_id, Answer(outcome=Outcome.CANCELLED))

    def withdraw_all(self) -> None:
        for approval in self._log.state.approvals:
            self.withdraw(approval.id)
