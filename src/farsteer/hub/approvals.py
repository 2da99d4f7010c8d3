"""Approvals."""

from __future__ import annotations

from farsteer.core.api import ApprovalAnswered, ApprovalsResponse
from farsteer.core.approvals import Answer
from farsteer.hub.caller import Caller


class Approvals:
    async def inbox(self, caller: Caller) -> ApprovalsResponse:
        """Everything in the namespace that waits for a person, oldest first."""
        raise NotImplementedError

    async def answer(
        self, caller: Caller, session_id: str, approval_id: str, answer: Answer
    ) -> ApprovalAnswered:
        """The first answer wins; later ones get AlreadyAnswered with details `outcome` and `by`."""
        raise NotImplementedError
