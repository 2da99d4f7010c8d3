"""Approvals as Droid's requests to its client, and the client's answers as ours.

A permission and a plan become `droid.request_permission`, a question becomes `droid.ask_user`. What is no clear yes is
a no.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from farsteer.core.api import Approve, Deny
from farsteer.core.approvals import Approval, ApprovalKind, Option, OptionKind, Question
from farsteer.core.modes import PermissionMode
from farsteer.faces.droid.dialect import Dialect
from farsteer.faces.droid.notes import ToolUse
from farsteer.faces.droid.params import Answered, Replied, Selected
from farsteer.faces.droid.tools import ASK, EXIT_SPEC, confirmation
from farsteer.faces.droid.wire import ASK_USER, REQUEST_PERMISSION

ONCE = "proceed_once"
ALWAYS = "proceed_always"
CANCEL = "cancel"
_AMBER, _RED = "#E3992A", "#E54048"
_PLAN_MODES = {
    ONCE: PermissionMode.DEFAULT,
    "proceed_auto_run": PermissionMode.DEFAULT,
    "proceed_auto_run_low": PermissionMode.ACCEPT_EDITS,
    "proceed_auto_run_medium": PermissionMode.SAFE_YOLO,
    "proceed_auto_run_high": PermissionMode.YOLO,
}
_CANCEL = {"selectedColor": _RED, "selectedPrefix": "✕ "}
_PLAN_OPTIONS: list[dict[str, str]] = [
    {"label": "Proceed with implementation", "value": ONCE, "selectedColor": _AMBER},
    {
        "label": "Proceed, and allow file edits and read-only commands (Low)",
        "value": "proceed_auto_run_low",
        "selectedColor": _AMBER,
    },
    {
        "label": "Proceed, and allow reversible commands (Medium)",
        "value": "proceed_auto_run_medium",
        "selectedColor": _AMBER,
    },
    {
        "label": "Proceed, and allow all commands (High)",
        "value": "proceed_auto_run_high",
        "selectedColor": _RED,
    },
    {"label": "No, keep iterating on spec", "value": CANCEL, **_CANCEL},
]
_LABELS = {ONCE: "Yes, allow", ALWAYS: "Yes, and always allow for this session", CANCEL: "No, cancel"}
_BY_KIND = {
    OptionKind.ALLOW_ONCE: (ONCE,),
    OptionKind.ALLOW_ALWAYS: (ALWAYS, "proceed_always_tools", "proceed_always_server", "proceed_always_file"),
    OptionKind.REJECT_ONCE: (CANCEL,),
    OptionKind.REJECT_ALWAYS: (CANCEL,),
}
_WORDS = {
    *_PLAN_MODES,
    ALWAYS,
    "proceed_always_file",
    "proceed_edit",
    "proceed_always_tools",
    "proceed_always_server",
}
_NEW_SESSION = "proceed_new_session"


class Request(msgspec.Struct, frozen=True):
    """An approval as it is put to the client."""

    approval: Approval
    method: str
    params: dict[str, Any]
    use: ToolUse
    offered: dict[str, Option | None]
    """Each value the client may select, and the option of the approval it stands for."""

    @property
    def pending(self) -> dict[str, Any]:
        return {"requestId": self.approval.id, **self.params}


def tool_of(approval: Approval, known: ToolUse | None) -> ToolUse:
    """The tool that asks; where the agent named none it is the one Droid would use."""
    match approval.kind:
        case ApprovalKind.PLAN:
            given = dict(known.input) if known else {}
            given["plan"] = approval.plan or str(given.get("plan") or approval.title)
            if names := _plan_names(approval):
                given["optionNames"] = names
            return ToolUse(id=_call(approval), name=EXIT_SPEC, input=given)
        case ApprovalKind.QUESTION:
            return ToolUse(id=_call(approval), name=ASK, input={"questionnaire": _questionnaire(approval)})
        case ApprovalKind.PERMISSION:
            name = approval.tool or "tool"
            return known or ToolUse(id=_call(approval), name=name, input=approval.arguments or {})


def request(approval: Approval, known: ToolUse | None, dialect: Dialect) -> Request:
    use = tool_of(approval, known)
    if approval.kind is ApprovalKind.QUESTION:
        params: dict[str, Any] = {"toolCallId": use.id, "questions": _questions(approval)}
        return Request(approval, ASK_USER, params, use, {})
    meta = approval.meta or {}
    if approval.kind is ApprovalKind.PLAN:
        kind, details = "exit_spec_mode", {"type": "exit_spec_mode", "plan": use.input["plan"]}
        details |= {key: use.input[key] for key in ("title", "optionNames") if key in use.input}
        offered, options = _plan_choices(approval, dialect)
    else:
        kind, details = confirmation(use)
        if isinstance(meta.get("details"), dict):
            # The agent is a Droid: it has said already what a client of Droid wants to know.
            kind, details = str(meta.get("confirmationType") or kind), meta["details"]
        offered = _choices(approval)
        options = [_shown(value, option) for value, option in offered.items()]
    asked = {"toolUse": use, "confirmationType": kind, "details": details}
    return Request(approval, REQUEST_PERMISSION, {"toolUses": [asked], "options": options}, use, offered)


def decision(request: Request, answer: msgspec.Raw) -> Approve | Deny | None:
    """What the client's result means. None: it is no answer at all, and the question stays open."""
    if request.method == ASK_USER:
        return _replied(request.approval, answer)
    try:
        said = msgspec.json.decode(answer, type=Selected)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Deny(message="the answer was not understood")
    value, option = said.selected_option, request.offered.get(said.selected_option)
    known = value in request.offered or value in _WORDS or value.startswith(_NEW_SESSION)
    if not known or value == CANCEL or (option is not None and not option.kind.allows):
        why = said.comment or (None if known else f"{value!r} is no answer to this")
        return Deny(message=why, option_id=option.id if option is not None else None)
    if request.approval.kind is ApprovalKind.PLAN:
        return _plan_approved(request, said, option)
    always = value == ALWAYS and (option is not None or value in request.offered)
    return Approve(
        decision="approved_for_session" if always else "approved",
        option_id=option.id if option is not None else None,
        message=said.comment,
    )


def word(answer: msgspec.Raw, decision: Approve | Deny) -> str:
    """What the client has selected, where that is what was made of it."""
    if isinstance(decision, Deny):
        return CANCEL
    try:
        return msgspec.json.decode(answer, type=Selected).selected_option
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ONCE


def mode_after(request: Request, word: str) -> PermissionMode | None:
    """The permission mode that follows from this answer to a plan."""
    return _PLAN_MODES.get(word) if request.approval.kind is ApprovalKind.PLAN else None


def selected(request: Request, option_id: str | None, allowed: bool, *, for_session: bool) -> str:
    """What the client would have selected, where somebody else has answered."""
    for value, option in request.offered.items():
        if option is not None and option.id == option_id:
            return value
    if not allowed:
        return CANCEL
    return ALWAYS if for_session and ALWAYS in request.offered else ONCE


def answered_text(approval: Approval, answers: dict[str, list[str]]) -> str:
    """The result of a questionnaire."""
    return "\n\n".join(
        f"{index}. [question] {question.text}\n[answer] {', '.join(answers.get(question.id, []))}"
        for index, question in enumerate(approval.questions, 1)
    )


def _choices(approval: Approval) -> dict[str, Option | None]:
    """An option whose id is a word of Droid's keeps it, others get one; clients know no further words."""
    if not approval.options:
        return {ONCE: None, ALWAYS: None, CANCEL: None}
    found: dict[str, Option | None] = {}
    for option in approval.options:
        words = (option.id,) if option.id in _WORDS or option.id == CANCEL else _BY_KIND[option.kind]
        word = next((word for word in words if word not in found), None)
        if word is not None:
            found[word] = option
    return {word: found[word] for word in sorted(found, key=lambda word: (word == CANCEL, word != ONCE))}


def _shown(value: str, option: Option | None) -> dict[str, str]:
    label = option.name if option is not None and option.id == value else _LABELS.get(value)
    shown = {"label": label or (option.name if option else value), "value": value}
    return shown | _CANCEL if value == CANCEL else {**shown, "selectedColor": _AMBER}


def _plan_choices(
    approval: Approval, dialect: Dialect
) -> tuple[dict[str, Option | None], list[dict[str, str]]]:
    """The five of Droid's; the further ones of a Droid only for clients that can follow where they lead."""
    own = {option.id: option for option in approval.options}
    offered: dict[str, Option | None] = {entry["value"]: own.get(entry["value"]) for entry in _PLAN_OPTIONS}
    options = [*_PLAN_OPTIONS]
    for option in approval.options if dialect.names_session else ():
        if option.id.startswith(_NEW_SESSION):
            offered[option.id] = option
            options.insert(-1, _shown(option.id, option))
    return offered, options


def _plan_approved(request: Request, said: Selected, option: Option | None) -> Approve:
    names, comment = _plan_names(request.approval), said.comment
    answers: dict[str, list[str]] = {}
    if comment in names:
        answers["choice"] = [comment]
    if said.edited_spec_content is not None:
        answers["plan"] = [said.edited_spec_content]
        comment = "\n\n".join(filter(None, (comment, f"The edited plan:\n{said.edited_spec_content}")))
    return Approve(
        decision="approved",
        option_id=option.id if option is not None else None,
        mode=None if option is not None else _PLAN_MODES.get(said.selected_option),
        answers=answers or None,
        message=comment,
    )


def _plan_names(approval: Approval) -> list[str]:
    names = (approval.meta or {}).get("optionNames")
    if isinstance(names, list):
        return [str(name) for name in cast("list[Any]", names)]
    return [*approval.questions[0].choices] if approval.questions else []


def _call(approval: Approval) -> str:
    return approval.tool_call_id or approval.id


def _topic(approval: Approval, question: Question) -> str:
    topics = (approval.meta or {}).get("topics")
    if isinstance(topics, dict) and (topic := cast("dict[str, Any]", topics).get(question.id)):
        return str(topic)
    return question.id


def _questions(approval: Approval) -> list[dict[str, Any]]:
    return [
        {
            "index": index,
            "topic": _topic(approval, question),
            "question": question.text,
            "options": [*question.choices],
            **({"multiSelect": True} if question.multiple else {}),
        }
        for index, question in enumerate(approval.questions, 1)
    ]


def _questionnaire(approval: Approval) -> str:
    asked = (
        "\n".join(
            [
                f"{index}. [question] {question.text}{' (multi)' if question.multiple else ''}",
                f"[topic] {_topic(approval, question)}",
                *(f"[option] {choice}" for choice in question.choices),
            ]
        )
        for index, question in enumerate(approval.questions, 1)
    )
    return "\n\n".join(asked)


def _replied(approval: Approval, answer: msgspec.Raw) -> Approve | Deny | None:
    try:
        replied = msgspec.json.decode(answer, type=Replied)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if replied.cancelled:
        return Deny(message="declined to answer")
    given = _by_question(approval.questions, replied.answers)
    if len(given) < len(approval.questions):
        return Deny(message="not every question was answered")
    return Approve(answers=given)


def _by_question(questions: Sequence[Question], answers: Sequence[Answered]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for answer in answers:
        if 1 <= answer.index <= len(questions) and answer.answer.strip():
            question = questions[answer.index - 1]
            found[question.id] = _chosen(question, answer.answer)
    return found


def _chosen(question: Question, text: str) -> list[str]:
    """The choices a person named, several separated by commas; else what they wrote."""
    if text in question.choices:
        return [text]
    by_name = {choice.casefold(): choice for choice in question.choices}
    parts = (
        [part.strip().casefold() for part in text.split(",")]
        if question.multiple
        else [text.strip().casefold()]
    )
    if all(part in by_name for part in parts):
        return list(dict.fromkeys(by_name[part] for part in parts))
    return [text]
