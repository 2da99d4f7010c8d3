"""Approvals: permissions, questions and plans that only a person can answer. A missing answer never means yes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from farsteer.core.errors import AlreadyAnswered, BadRequest
from farsteer.core.identity import Identity
from farsteer.core.modes import PermissionMode, ToolKind, risk
from farsteer.core.text import clip
from farsteer.core.wire import WireStruct, encode, to_builtins

_SUMMARY_BYTES = 4096
_SUMMARY_CHARS = 200


class ApprovalKind(StrEnum):
    """What a person is asked for."""

    PERMISSION = "permission"
    QUESTION = "question"
    PLAN = "plan"


class OptionKind(StrEnum):
    """The kinds of permission option that ACP defines."""

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"

    @property
    def allows(self) -> bool:
        return self in (OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS)


class Option(WireStruct):
    """An answer that the agent offers."""

    id: str
    name: str
    kind: OptionKind
    mode: PermissionMode | None = None
    """The permission mode that the session has after this option is chosen. None: the mode it has."""


class Question(WireStruct):
    """A question of the agent. Without `choices`, or with `free_text`, the answer is written."""

    id: str
    text: str
    choices: tuple[str, ...] = ()
    multiple: bool = False
    free_text: bool = False


class RequestedToolCall(WireStruct):
    """One of the actions that an approval allows or denies."""

    title: str
    tool_call_id: str | None = None
    tool: str | None = None
    tool_kind: ToolKind = ToolKind.OTHER
    arguments: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None


class Approval(WireStruct):
    """What a person is asked. If it is for several tool calls, its own fields describe the riskiest one."""

    id: str
    kind: ApprovalKind
    title: str
    created_at: int
    turn_id: str | None = None
    tool_call_id: str | None = None
    tool: str | None = None
    tool_kind: ToolKind | None = None
    arguments: dict[str, Any] | None = None
    tool_calls: tuple[RequestedToolCall, ...] = ()
    """Every tool call that the answer is for, if there are several. A client must show all of them."""
    options: tuple[Option, ...] = ()
    questions: tuple[Question, ...] = ()
    plan: str | None = None
    expires_at: int | None = None
    meta: dict[str, Any] | None = None
    seq: int | None = None
    """The entry of the log that has the approval whole. Set if this is a summary of it."""


def summarize(approval: Approval, seq: int | None) -> Approval:
    """Return the approval as the session's state keeps it: of bounded size. A small one is returned whole.

    What it asks for may be large, such as a whole file. Entry `seq` of the log has that.
    """
    if len(encode(approval)) <= _SUMMARY_BYTES:
        return approval
    call = approval.tool_call_id
    return Approval(
        id=approval.id,
        kind=approval.kind,
        title=clip(approval.title, _SUMMARY_CHARS),
        created_at=approval.created_at,
        turn_id=approval.turn_id,
        tool_call_id=call if call is None or len(call) <= _SUMMARY_CHARS else None,
        tool=approval.tool and approval.tool[:_SUMMARY_CHARS],
        tool_kind=approval.tool_kind,
        expires_at=approval.expires_at,
        seq=seq,
    )


def join_titles(calls: Sequence[RequestedToolCall]) -> str:
    """Return the title of an approval for these tool calls. It names every one of them."""
    if len(calls) == 1:
        return calls[0].title
    return f"{len(calls)} actions: {'; '.join(call.title for call in calls)}"


def riskiest(calls: Sequence[RequestedToolCall]) -> RequestedToolCall:
    """Return the tool call that can do the most, the first one of several."""
    return max(calls, key=lambda call: risk(call.tool_kind))


class Outcome(StrEnum):
    """How an approval ended."""

    APPROVED = "approved"
    APPROVED_FOR_SESSION = "approved_for_session"
    DENIED = "denied"
    ABORT = "abort"
    """Denied, and the turn stops."""
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    """The turn or the agent's process ended before anyone answered."""

    @property
    def allows(self) -> bool:
        return self in (Outcome.APPROVED, Outcome.APPROVED_FOR_SESSION)


class Answer(WireStruct):
    """A person's answer. `answers` maps a question's id to the chosen texts."""

    outcome: Outcome
    option_id: str | None = None
    answers: dict[str, list[str]] | None = None
    mode: PermissionMode | None = None
    allow_tools: tuple[str, ...] = ()
    message: str | None = None
    by: str | None = None
    """The name of who answered, as other users see it: the email it claims, or the label of its token."""
    identity: Identity | None = None


def already_answered(outcome: Outcome, by: str | None, identity: Identity | None) -> AlreadyAnswered:
    """Return the error for a second answer, which says how the first one was and who gave it."""
    who = None if identity is None else to_builtins(identity)
    return AlreadyAnswered(f"already answered: {outcome.value}", outcome=outcome.value, by=by, identity=who)


def check_answer(approval: Approval, answer: Answer) -> Answer:
    """Return `answer` with the option it stands for.

    Raises BadRequest if the option does not exist, contradicts the outcome, or a question is not answered.
    """
    option = _option(approval, answer)
    if approval.kind is ApprovalKind.QUESTION and answer.outcome.allows:
        _check_questions(approval, answer)
    if option is None or answer.option_id == option.id:
        return answer
    return msgspec.structs.replace(answer, option_id=option.id)


def granted_mode(approval: Approval, answer: Answer) -> PermissionMode | None:
    """Return the permission mode that the agent may switch to after `answer`, which has passed `check_answer`.

    None: the answer says nothing about the mode.
    """
    if not answer.outcome.allows or answer.mode is not None:
        return answer.mode if answer.outcome.allows else None
    for option in approval.options:
        if option.id == answer.option_id and option.mode is not None:
            return option.mode
    return PermissionMode.DEFAULT if approval.kind is ApprovalKind.PLAN else None


def _option(approval: Approval, answer: Answer) -> Option | None:
    if answer.option_id is not None:
        for option in approval.options:
            if option.id == answer.option_id:
                if option.kind.allows != answer.outcome.allows:
                    raise BadRequest(f"option {option.id!r} contradicts the outcome {answer.outcome.value!r}")
                return option
        known = [option.id for option in approval.options]
        raise BadRequest(f"no option {answer.option_id!r} in this approval", options=known)
    wanted = {
        Outcome.APPROVED: (OptionKind.ALLOW_ONCE,),
        Outcome.APPROVED_FOR_SESSION: (OptionKind.ALLOW_ALWAYS, OptionKind.ALLOW_ONCE),
    }.get(answer.outcome, (OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS))
    for kind in wanted:
        for option in approval.options:
            if option.kind is kind:
                return option
    return None


def _check_questions(approval: Approval, answer: Answer) -> None:
    given = answer.answers or {}
    known = {question.id: question for question in approval.questions}
    for unknown in given.keys() - known.keys():
        raise BadRequest(f"no question {unknown!r} in this approval", questions=sorted(known))
    for question in approval.questions:
        chosen = given.get(question.id, [])
        if not chosen:
            raise BadRequest(f"question {question.id!r} has no answer")
        if len(chosen) > 1 and not question.multiple:
            raise BadRequest(f"question {question.id!r} takes one answer")
        if question.choices and not question.free_text:
            for text in chosen:
                if text not in question.choices:
                    raise BadRequest(
                        f"{text!r} is not a choice of {question.id!r}", choices=list(question.choices)
                    )
