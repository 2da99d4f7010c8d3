"""Approvals as Droid's requests to its client, and the client's answers as decisions.

A permission or a plan becomes `droid.request_permission`, a question becomes `droid.ask_user`. A malformed answer to a
permission denies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from farsteer.core import droid
from farsteer.core.api import Approve, Deny
from farsteer.core.approvals import Approval, ApprovalKind, Option, OptionKind, Question, RequestedToolCall
from farsteer.core.droid import CANCEL, PROCEED_ALWAYS, PROCEED_ONCE, ToolName
from farsteer.core.modes import PermissionMode
from farsteer.faces.droid.params import PermissionAnswer, QuestionAnswer, QuestionnaireAnswer
from farsteer.faces.droid.protocol import Dialect, ToolUse
from farsteer.faces.droid.tools import confirmation

_AMBER, _RED = "#E3992A", "#E54048"
_CANCEL_STYLE = {"selectedColor": _RED, "selectedPrefix": "✕ "}
_PLAN_OPTIONS: list[dict[str, str]] = [
    {"label": "Proceed with implementation", "value": PROCEED_ONCE, "selectedColor": _AMBER},
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
    {"label": "No, keep iterating on spec", "value": CANCEL, **_CANCEL_STYLE},
]
_LABELS = {
    PROCEED_ONCE: "Yes, allow",
    PROCEED_ALWAYS: "Yes, and always allow for this session",
    CANCEL: "No, cancel",
}
_VALUES_BY_KIND = {
    OptionKind.ALLOW_ONCE: (PROCEED_ONCE,),
    OptionKind.ALLOW_ALWAYS: (
        PROCEED_ALWAYS,
        "proceed_always_tools",
        "proceed_always_server",
        "proceed_always_file",
    ),
    OptionKind.REJECT_ONCE: (CANCEL,),
    OptionKind.REJECT_ALWAYS: (CANCEL,),
}
_ALLOWING_VALUES = {
    *droid.PLAN_OPTION_MODES,
    PROCEED_ALWAYS,
    droid.PROCEED_EDIT,
    "proceed_always_file",
    "proceed_always_tools",
    "proceed_always_server",
}


class ApprovalRequest(msgspec.Struct, frozen=True):
    """An approval as a request to the client."""

    approval: Approval
    method: str
    params: dict[str, Any]
    tool_use: ToolUse
    offered: dict[str, Option | None]
    """Each value the client may select, with the approval's option it stands for."""

    @property
    def pending(self) -> dict[str, Any]:
        """The request as `load_session` lists it."""
        return {"requestId": self.approval.id, **self.params}


# -- requests


def build_request(approval: Approval, known: ToolUse | None, dialect: Dialect) -> ApprovalRequest:
    """Return the request for an approval. `known` is the tool use it is for, if the agent has announced one."""
    use = tool_use_for(approval, known)
    if approval.kind is ApprovalKind.QUESTION:
        params: dict[str, Any] = {"toolCallId": use.id, "questions": _questions(approval)}
        return ApprovalRequest(approval, droid.ASK_USER, params, use, {})
    meta = approval.meta or {}
    if approval.kind is ApprovalKind.PLAN:
        kind, details = droid.EXIT_SPEC_MODE, {"type": droid.EXIT_SPEC_MODE, "plan": use.input["plan"]}
        details |= {key: use.input[key] for key in ("title", "optionNames") if key in use.input}
        offered, options = _plan_options(approval, dialect)
    else:
        kind, details = confirmation(use)
        if isinstance(meta.get("details"), dict):
            # The agent is a Droid and has already described the confirmation.
            kind, details = str(meta.get("confirmationType") or kind), meta["details"]
        offered = _permission_options(approval)
        options = [_describe_option(value, option) for value, option in offered.items()]
    tool_uses = [_confirm(call, approval) for call in approval.tool_calls if call.tool_call_id != use.id]
    tool_uses.insert(0, {"toolUse": use, "confirmationType": kind, "details": details})
    params = {"toolUses": tool_uses, "options": options}
    return ApprovalRequest(approval, droid.REQUEST_PERMISSION, params, use, offered)


def _confirm(call: RequestedToolCall, approval: Approval) -> dict[str, Any]:
    """Return one more tool use of the same request."""
    use = ToolUse(
        id=call.tool_call_id or approval.id, name=call.tool or call.title, input=call.arguments or {}
    )
    kind, details = confirmation(use)
    meta = call.meta or {}
    if isinstance(meta.get("details"), dict):
        kind, details = str(meta.get("confirmationType") or kind), meta["details"]
    return {"toolUse": use, "confirmationType": kind, "details": details}


def tool_use_for(approval: Approval, known: ToolUse | None) -> ToolUse:
    """Return the tool use that needs the approval; if the agent named none, the one Droid would have used."""
    match approval.kind:
        case ApprovalKind.PLAN:
            given = dict(known.input) if known else {}
            given["plan"] = approval.plan or str(given.get("plan") or approval.title)
            if names := _plan_names(approval):
                given["optionNames"] = names
            return ToolUse(id=_tool_use_id(approval), name=ToolName.EXIT_SPEC_MODE, input=given)
        case ApprovalKind.QUESTION:
            given = {"questionnaire": _questionnaire(approval)}
            return ToolUse(id=_tool_use_id(approval), name=ToolName.ASK_USER, input=given)
        case ApprovalKind.PERMISSION:
            name = approval.tool or "tool"
            return known or ToolUse(id=_tool_use_id(approval), name=name, input=approval.arguments or {})


def _permission_options(approval: Approval) -> dict[str, Option | None]:
    """Options with an id of Droid's keep it, others get one by their kind: clients know no further values."""
    if not approval.options:
        return {PROCEED_ONCE: None, PROCEED_ALWAYS: None, CANCEL: None}
    found: dict[str, Option | None] = {}
    for option in approval.options:
        is_droids = option.id in _ALLOWING_VALUES or option.id == CANCEL
        values = (option.id,) if is_droids else _VALUES_BY_KIND[option.kind]
        free = next((value for value in values if value not in found), None)
        if free is not None:
            found[free] = option
    order = sorted(found, key=lambda value: (value == CANCEL, value != PROCEED_ONCE))
    return {value: found[value] for value in order}


def _plan_options(
    approval: Approval, dialect: Dialect
) -> tuple[dict[str, Option | None], list[dict[str, str]]]:
    """Droid's five options. Those that move to a new session are added if the client's dialect can follow there."""
    own = {option.id: option for option in approval.options}
    offered: dict[str, Option | None] = {entry["value"]: own.get(entry["value"]) for entry in _PLAN_OPTIONS}
    options = [*_PLAN_OPTIONS]
    for option in approval.options if dialect.notifications_have_session else ():
        if option.id.startswith(droid.PROCEED_NEW_SESSION):
            offered[option.id] = option
            options.insert(-1, _describe_option(option.id, option))
    return offered, options


def _describe_option(value: str, option: Option | None) -> dict[str, str]:
    label = option.name if option is not None and option.id == value else _LABELS.get(value)
    described = {"label": label or (option.name if option else value), "value": value}
    return described | _CANCEL_STYLE if value == CANCEL else {**described, "selectedColor": _AMBER}


def _plan_names(approval: Approval) -> list[str]:
    """Return the names of the plans to choose from, if there are several."""
    names = (approval.meta or {}).get("optionNames")
    if isinstance(names, list):
        return [str(name) for name in cast("list[Any]", names)]
    return [*approval.questions[0].choices] if approval.questions else []


def _tool_use_id(approval: Approval) -> str:
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
    questions = (
        "\n".join(
            [
                f"{index}. [question] {question.text}{' (multi)' if question.multiple else ''}",
                f"[topic] {_topic(approval, question)}",
                *(f"[option] {choice}" for choice in question.choices),
            ]
        )
        for index, question in enumerate(approval.questions, 1)
    )
    return "\n\n".join(questions)


def questionnaire_result(approval: Approval, answers: dict[str, list[str]]) -> str:
    """Return the text of AskUser's tool result."""
    return "\n\n".join(
        f"{index}. [question] {question.text}\n[answer] {', '.join(answers.get(question.id, []))}"
        for index, question in enumerate(approval.questions, 1)
    )


# -- answers


def decide(request: ApprovalRequest, result: msgspec.Raw) -> Approve | Deny | None:
    """Return what the client's result decides; None if it is malformed and the question stays open."""
    if request.method == droid.ASK_USER:
        return _decide_question(request.approval, result)
    try:
        answer = msgspec.json.decode(result, type=PermissionAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Deny(message="the answer was not understood")
    value, option = answer.selected_option, request.offered.get(answer.selected_option)
    is_known = (
        value in request.offered or value in _ALLOWING_VALUES or value.startswith(droid.PROCEED_NEW_SESSION)
    )
    if not is_known or value == CANCEL or (option is not None and not option.kind.allows):
        reason = answer.comment or (None if is_known else f"unknown option {value!r}")
        return Deny(message=reason, option_id=option.id if option is not None else None)
    if request.approval.kind is ApprovalKind.PLAN:
        return _approve_plan(request, answer, option)
    for_session = value == PROCEED_ALWAYS and value in request.offered
    return Approve(
        decision="approved_for_session" if for_session else "approved",
        option_id=option.id if option is not None else None,
        message=answer.comment,
    )


def _approve_plan(request: ApprovalRequest, answer: PermissionAnswer, option: Option | None) -> Approve:
    comment = answer.comment
    answers: dict[str, list[str]] = {}
    if comment in _plan_names(request.approval):
        answers[droid.CHOICE_ANSWER] = [comment]
    if answer.edited_spec_content is not None:
        answers[droid.PLAN_ANSWER] = [answer.edited_spec_content]
        comment = "\n\n".join(filter(None, (comment, f"The edited plan:\n{answer.edited_spec_content}")))
    return Approve(
        decision="approved",
        option_id=option.id if option is not None else None,
        mode=None if option is not None else droid.PLAN_OPTION_MODES.get(answer.selected_option),
        answers=answers or None,
        message=comment,
    )


def _decide_question(approval: Approval, result: msgspec.Raw) -> Approve | Deny | None:
    try:
        answer = msgspec.json.decode(result, type=QuestionnaireAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if answer.cancelled:
        return Deny(message="declined to answer")
    answers = _answers_by_question(approval.questions, answer.answers)
    if len(answers) < len(approval.questions):
        return Deny(message="not every question was answered")
    return Approve(answers=answers)


def _answers_by_question(
    questions: Sequence[Question], answers: Sequence[QuestionAnswer]
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for answer in answers:
        if 1 <= answer.index <= len(questions) and answer.answer.strip():
            question = questions[answer.index - 1]
            found[question.id] = _choices_in(question, answer.answer)
    return found


def _choices_in(question: Question, text: str) -> list[str]:
    """Return the choices that the text names, separated by commas; if it names none, the text itself."""
    if text in question.choices:
        return [text]
    by_name = {choice.casefold(): choice for choice in question.choices}
    parts = text.split(",") if question.multiple else [text]
    names = [part.strip().casefold() for part in parts]
    if all(name in by_name for name in names):
        return list(dict.fromkeys(by_name[name] for name in names))
    return [text]


def selected_value(result: msgspec.Raw, decision: Approve | Deny) -> str:
    """Return the option value that the client selected; `cancel` if its answer was a denial."""
    if isinstance(decision, Deny):
        return CANCEL
    try:
        return msgspec.json.decode(result, type=PermissionAnswer).selected_option
    except (msgspec.DecodeError, UnicodeDecodeError):
        return PROCEED_ONCE


def equivalent_value(
    request: ApprovalRequest, option_id: str | None, *, allowed: bool, for_session: bool
) -> str:
    """Return the value the client would have selected to give the answer that another client gave."""
    for value, option in request.offered.items():
        if option is not None and option.id == option_id:
            return value
    if not allowed:
        return CANCEL
    return PROCEED_ALWAYS if for_session and PROCEED_ALWAYS in request.offered else PROCEED_ONCE


def mode_after(request: ApprovalRequest, value: str) -> PermissionMode | None:
    """Return the permission mode that follows if the client selects `value`; None unless it approves a plan."""
    is_plan = request.approval.kind is ApprovalKind.PLAN
    return droid.PLAN_OPTION_MODES.get(value) if is_plan else None
