"""Questions of Codex and of its MCP servers, and their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import msgspec

from farsteer.agents.forms import field_question, field_value, form_fields
from farsteer.core.approvals import Answer, Approval, ApprovalKind, Option, OptionKind, Outcome, Question
from farsteer.core.clock import now_ms
from farsteer.core.ids import new_id
from farsteer.core.modes import ToolKind
from farsteer.core.text import clean_line
from farsteer.core.wire import WireStruct, decode

ACCEPTED: dict[str, Any] = {"action": "accept", "content": {}, "_meta": None}
DECLINED: dict[str, Any] = {"action": "decline", "content": None, "_meta": None}
_CANCELLED: dict[str, Any] = {"action": "cancel", "content": None, "_meta": None}
_TITLE_CHARS = 200


class NotUnderstood(Exception):
    """A question of a kind that cannot be shown."""


class Form(NamedTuple):
    approval: Approval
    result: Callable[[Answer], dict[str, Any]]
    is_tool_permission: bool = False
    """An MCP tool asks to be allowed, in the form of a question without fields."""


# -- Codex's own questions


class _Choice(WireStruct):
    label: str
    description: str = ""


class _Question(WireStruct):
    id: str
    question: str
    header: str = ""
    is_other: bool = False
    is_secret: bool = False
    options: list[_Choice] | None = None


class _UserInputParams(WireStruct):
    item_id: str
    questions: list[_Question]


def user_input(params: msgspec.Raw, turn_id: str | None) -> Form:
    """Return the form of an `item/tool/requestUserInput`. Raises msgspec.DecodeError or NotUnderstood."""
    request = decode(params, _UserInputParams)
    if not request.questions:
        raise NotUnderstood("a questionnaire without a question")
    asked = [
        Question(
            id=one.id, text=one.question, choices=tuple(choice.label for choice in one.options or ()),
            free_text=one.is_other or not one.options,
        )
        for one in request.questions
    ]  # fmt: skip
    meta = {
        "headers": {one.id: one.header for one in request.questions if one.header},
        "descriptions": {
            one.id: {choice.label: choice.description for choice in one.options or () if choice.description}
            for one in request.questions
        },
        "secret": [one.id for one in request.questions if one.is_secret],
    }
    approval = Approval(
        id=new_id(), kind=ApprovalKind.QUESTION, title=clean_line(asked[0].text, _TITLE_CHARS), created_at=now_ms(),
        turn_id=turn_id, tool_call_id=request.item_id, tool="request_user_input", tool_kind=ToolKind.OTHER,
        questions=tuple(asked), meta={name: value for name, value in meta.items() if value},
    )  # fmt: skip

    def result(answer: Answer) -> dict[str, Any]:
        given = (answer.answers or {}) if answer.outcome.allows else {}
        return {"answers": {one.id: {"answers": given[one.id]} for one in asked if one.id in given}}

    return Form(approval, result)


# -- questions of MCP servers


class _ElicitationParams(WireStruct):
    server_name: str
    mode: str
    message: str = ""
    url: str | None = None
    requested_schema: dict[str, Any] | None = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


def elicitation(params: msgspec.Raw, turn_id: str | None) -> Form:
    """Return the form of an `mcpServer/elicitation/request`. Raises msgspec.DecodeError or NotUnderstood."""
    request = decode(params, _ElicitationParams)
    meta = request.meta or {}
    title = clean_line(f"{request.server_name}: {request.message}", _TITLE_CHARS)
    properties = form_fields(request.requested_schema)
    if request.mode == "url" or (request.mode in _FORMS and not properties):
        return _consent(request, title, meta, turn_id)
    if request.mode not in _FORMS:
        raise NotUnderstood(f"a question of the mode {request.mode}")
    asked = [field_question(name, schema) for name, schema in properties.items()]
    approval = Approval(
        id=new_id(), kind=ApprovalKind.QUESTION, title=title, created_at=now_ms(), turn_id=turn_id,
        tool=f"mcp__{request.server_name}", tool_kind=ToolKind.OTHER, questions=tuple(asked), meta=meta or None,
    )  # fmt: skip

    def result(answer: Answer) -> dict[str, Any]:
        if not answer.outcome.allows:
            return _CANCELLED if answer.outcome is Outcome.ABORT else DECLINED
        given = answer.answers or {}
        content = {
            name: field_value(schema, given[name]) for name, schema in properties.items() if name in given
        }
        return {"action": "accept", "content": content, "_meta": None}

    return Form(approval, result)


_FORMS = frozenset({"form", "openai/form", "openaiForm"})


def _consent(request: _ElicitationParams, title: str, meta: dict[str, Any], turn_id: str | None) -> Form:
    """A question without fields: yes or no. Codex asks in this form whether an MCP tool may run."""
    persist = meta.get("persist")
    scopes = (
        [persist]
        if isinstance(persist, str)
        else [*cast("list[Any]", persist)]
        if isinstance(persist, list)
        else []
    )
    lasting = {"session": "Allow in this conversation", "always": "Allow always"}
    options = [Option(id="accept", name="Allow", kind=OptionKind.ALLOW_ONCE)]
    options += [
        Option(id=f"accept:{scope}", name=lasting[scope], kind=OptionKind.ALLOW_ALWAYS)
        for scope in scopes
        if scope in lasting
    ]
    options += [
        Option(id="decline", name="Deny", kind=OptionKind.REJECT_ONCE),
        Option(id="cancel", name="Deny and stop", kind=OptionKind.REJECT_ONCE),
    ]
    arguments = {"url": request.url} if request.url else meta.get("tool_params")
    is_tool = meta.get("codex_approval_kind") == "mcp_tool_call"
    approval = Approval(
        id=new_id(), kind=ApprovalKind.PERMISSION, title=title, created_at=now_ms(), turn_id=turn_id,
        tool=f"mcp__{request.server_name}", tool_kind=ToolKind.OTHER,
        arguments=cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else None,
        options=tuple(options), meta=meta or None,
    )  # fmt: skip

    def result(answer: Answer) -> dict[str, Any]:
        if answer.outcome is Outcome.ABORT or answer.option_id == "cancel":
            return _CANCELLED
        if not answer.outcome.allows:
            return DECLINED
        scope = (answer.option_id or "").partition(":")[2]
        return {**ACCEPTED, "_meta": {"persist": scope} if scope else None}

    return Form(approval, result, is_tool)
