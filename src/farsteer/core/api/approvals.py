"""Bodies about approvals."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from farsteer.core.api.base import RequestBody, ResponseBody
from farsteer.core.approvals import Answer, Approval, Outcome
from farsteer.core.identity import Identity
from farsteer.core.modes import PermissionMode


class ApprovalView(ResponseBody):
    """An open approval, and the session it belongs to."""

    session_id: str
    session_title: str | None
    agent: str
    approval: Approval


class ApprovalsResponse(ResponseBody):
    approvals: list[ApprovalView]


class Approve(RequestBody):
    """Approves a permission or a plan, or answers questions."""

    decision: Literal["approved", "approved_for_session"] | None = None
    mode: PermissionMode | None = None
    allow_tools: Annotated[list[str], Meta(max_length=100)] = []
    answers: dict[str, list[str]] | None = None
    option_id: str | None = None
    message: Annotated[str, Meta(max_length=10_000)] | None = None

    def answer(self, by: str) -> Answer:
        return Answer(
            outcome=Outcome(self.decision or Outcome.APPROVED), option_id=self.option_id, answers=self.answers,
            mode=self.mode, allow_tools=tuple(self.allow_tools), message=self.message, by=by,
        )  # fmt: skip


class Deny(RequestBody):
    """Denies a permission or a plan, or declines to answer questions."""

    decision: Literal["denied", "abort"] | None = None
    option_id: str | None = None
    message: Annotated[str, Meta(max_length=10_000)] | None = None

    def answer(self, by: str) -> Answer:
        outcome = Outcome(self.decision or Outcome.DENIED)
        return Answer(outcome=outcome, option_id=self.option_id, message=self.message, by=by)


class ApprovalAnswered(ResponseBody):
    ok: bool
    outcome: Outcome
    by: str | None
    identity: Identity | None = None
