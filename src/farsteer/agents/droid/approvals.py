"""Droid's requests for permissions and answers as approvals, and a person's answer in the form that Droid accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from farsteer.agents.droid.protocol import Request, ToolUse, encode_error, encode_result
from farsteer.agents.droid.settings import SettingsTracker
from farsteer.agents.droid.tool_calls import ToolCalls, tool_kind, tool_title
from farsteer.agents.turns import TurnOutput
from farsteer.core import droid
from farsteer.core.approvals import (
    Answer,
    Approval,
    ApprovalKind,
    Option,
    OptionKind,
    Question,
    RequestedToolCall,
    join_titles,
    riskiest,
)
from farsteer.core.clock import now_ms
from farsteer.core.droid import CANCEL, PROCEED_ALWAYS, PROCEED_ONCE, ToolName
from farsteer.core.errors import BadRequest, Conflict, ErrorCode
from farsteer.core.events import Notice
from farsteer.core.ids import is_uuid, new_id
from farsteer.core.modes import PermissionMode, ToolKind, ToolPermission, tool_permission
from farsteer.core.wire import WireStruct
from farsteer.jsonrpc.errors import INVALID_PARAMS, METHOD_NOT_FOUND

_PLAN_TITLES = {droid.EXIT_SPEC_MODE: "Plan", "propose_mission": "Mission"}
"""Confirmation types that ask to approve a plan, with the title if Droid gives none."""
_ONCE_VALUES = (PROCEED_ONCE, droid.PROCEED_EDIT, droid.PROCEED_NEW_SESSION)


class PendingApprovals:
    """The requests of Droid's that wait for a person.

    `write` sends a line without waiting for it. `on_denial` is called when Droid is told that it may not do something.
    """

    def __init__(
        self, output: TurnOutput, tools: ToolCalls, settings: SettingsTracker, write: Callable[[bytes], None],
        on_denial: Callable[[], None],
    ) -> None:  # fmt: skip
        self._output = output
        self._tools = tools
        self._settings = settings
        self._write = write
        self._on_denial = on_denial
        self._request_ids: dict[str, str | int] = {}
        """Droid's request id of each open approval."""

    @property
    def any_open(self) -> bool:
        return bool(self._request_ids)

    def handle_request(self, request: Request) -> None:
        """Ask a person. An unknown or malformed request is answered with an error, which Droid takes as a denial."""
        if request.id in self._request_ids.values():
            return
        try:
            if request.method == droid.REQUEST_PERMISSION:
                approval = permission_approval(request, self._output.turn_id)
            elif request.method == droid.ASK_USER:
                approval = question_approval(request, self._output.turn_id)
            else:
                self._reject(request, METHOD_NOT_FOUND, f"{request.method} is not supported")
                return
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._reject(request, INVALID_PARAMS, f"not understood: {error}")
            return
        for call in approval.tool_calls or (approval,):
            if call.tool_call_id is not None:
                name, arguments = call.tool or "tool", call.arguments or {}
                self._tools.announce(ToolUse(id=call.tool_call_id, name=name, input=arguments))
        if self._is_forbidden(approval):
            self._write(encode_result(request.id, {"selectedOption": CANCEL}))
            self._on_denial()
            text = f"Denied in mode {self._settings.mode}: {approval.title}"
            self._output.add_event(
                Notice(text=text, code="denied_by_mode", meta={"toolCallId": approval.tool_call_id})
            )
            return
        self._request_ids[approval.id] = request.id
        self._output.ask_approval(approval)

    def answer(self, approval: Approval, answer: Answer) -> bytes:
        """Return the line that answers an approval, and close it.

        Raises:
            Conflict: Droid no longer waits for the answer.
            BadRequest: The answer is incomplete.
        """
        request_id = self._request_ids.get(approval.id)
        if request_id is None:
            raise Conflict("Droid no longer waits for this answer")
        line = encode_result(request_id, answer_result(approval, answer))
        self._output.close_approval(approval.id)
        del self._request_ids[approval.id]
        if not answer.outcome.allows:
            self._on_denial()
        return line

    def handle_resolved(self, request_id: str) -> None:
        """Droid has an answer. If it is not ours, withdraw the approval."""
        for approval_id in [known for known, request in self._request_ids.items() if request == request_id]:
            del self._request_ids[approval_id]
            self._output.withdraw_approval(approval_id)

    def clear(self) -> None:
        self._request_ids.clear()

    def _is_forbidden(self, approval: Approval) -> bool:
        """Whether the mode denies this without asking.

        Droid itself has no read-only mode, and while it plans it asks for commands.
        """
        mode = self._settings.mode
        if approval.kind is ApprovalKind.QUESTION or mode not in (
            PermissionMode.PLAN,
            PermissionMode.READ_ONLY,
        ):
            return False
        kinds = {call.tool_kind or ToolKind.OTHER for call in approval.tool_calls or (approval,)}
        if approval.kind is ApprovalKind.PLAN:
            kinds.discard(ToolKind.SWITCH_MODE)
        return any(tool_permission(mode, kind) is ToolPermission.DENY for kind in kinds)

    def _reject(self, request: Request, code: int, reason: str) -> None:
        self._write(encode_error(request.id, code, reason))
        text = f"Rejected a request from Droid: {request.method}: {reason}"
        self._output.add_notice(text, ErrorCode.AGENT_PROTOCOL)


# -- requests


class _Option(WireStruct):
    value: str
    label: str = ""


class _Confirmation(WireStruct):
    tool_use: ToolUse
    confirmation_type: str = ""
    details: Any = None


class _PermissionParams(WireStruct):
    tool_uses: list[Any]
    """Each a `_Confirmation`, if it is understood."""
    options: list[_Option] = []


class _Question(WireStruct):
    index: int
    question: str
    topic: str = ""
    options: list[str] = []
    multi_select: bool | None = None


class _QuestionParams(WireStruct):
    questions: list[_Question]
    tool_call_id: str | None = None


def permission_approval(request: Request, turn_id: str | None) -> Approval:
    """Return the approval for a `droid.request_permission`. Raises msgspec.ValidationError."""
    params = msgspec.json.decode(request.params, type=_PermissionParams)
    confirmations = [_confirmation(entry) for entry in params.tool_uses]
    known = [confirmation for confirmation in confirmations if confirmation is not None]
    if not known:
        raise msgspec.ValidationError("a permission for no tool")
    calls = [
        _unknown_call(entry) if confirmation is None else _requested_call(confirmation)
        for entry, confirmation in zip(params.tool_uses, confirmations, strict=True)
    ]
    plan = next((one for one in known if one.confirmation_type in _PLAN_TITLES), None)
    main = _requested_call(plan) if plan is not None else riskiest(calls)
    raised_level = max(filter(None, map(_raised_level, known)), key=_level_rank, default=None)
    names = _plan_names(plan) if plan is not None else []
    meta = {**(main.meta or {})}
    if names:
        meta["optionNames"] = names
    if raised_level is not None and any(option.value == PROCEED_ALWAYS for option in params.options):
        meta["alwaysRaisesAutonomyTo"] = raised_level
    choice = Question(id=droid.CHOICE_ANSWER, text="Which plan?", choices=tuple(names))
    is_plan = plan is not None
    return Approval(
        id=_approval_id(request), kind=ApprovalKind.PLAN if is_plan else ApprovalKind.PERMISSION,
        title=join_titles(calls), created_at=now_ms(), turn_id=turn_id, tool_call_id=main.tool_call_id, tool=main.tool,
        tool_kind=main.tool_kind, arguments=main.arguments, tool_calls=tuple(calls) if len(calls) > 1 else (),
        options=tuple(_to_option(option, raised_level, is_plan=is_plan) for option in params.options),
        questions=(choice,) if names else (), plan=_plan_text(plan) if plan is not None else None, meta=meta,
    )  # fmt: skip


def _confirmation(entry: Any) -> _Confirmation | None:
    try:
        return msgspec.convert(entry, _Confirmation)
    except msgspec.ValidationError:
        return None


def _requested_call(confirmation: _Confirmation) -> RequestedToolCall:
    use, kind = confirmation.tool_use, confirmation.confirmation_type
    is_plan = kind in _PLAN_TITLES
    return RequestedToolCall(
        title=_plan_title(confirmation) if is_plan else _permission_title(confirmation), tool_call_id=use.id,
        tool=use.name, tool_kind=ToolKind.SWITCH_MODE if is_plan else tool_kind(use.name), arguments=use.input,
        meta={"confirmationType": kind, "details": _details(confirmation)},
    )  # fmt: skip


def _unknown_call(entry: Any) -> RequestedToolCall:
    """Show what is not understood as it is: a person must not approve it unseen."""
    return RequestedToolCall(title="an action that Farsteer does not understand", arguments={"raw": entry})


def _plan_names(plan: _Confirmation) -> list[str]:
    # Newer CLIs name the plans in the tool's input only.
    listed = plan.tool_use.input.get("optionNames") or _details(plan).get("optionNames")
    return [str(name) for name in cast("list[Any]", listed)] if isinstance(listed, list) else []


def _plan_text(plan: _Confirmation) -> str | None:
    details, given = _details(plan), plan.tool_use.input
    text = details.get("plan") or details.get("proposal") or given.get("plan")
    return None if text is None else str(text)


def question_approval(request: Request, turn_id: str | None) -> Approval:
    """Return the approval for a `droid.ask_user`. Raises msgspec.ValidationError."""
    params = msgspec.json.decode(request.params, type=_QuestionParams)
    questions = [
        Question(
            id=str(question.index), text=question.question, choices=tuple(question.options),
            multiple=bool(question.multi_select), free_text=True,
        )
        for question in params.questions
    ]  # fmt: skip
    if not questions:
        raise msgspec.ValidationError("a questionnaire without a question")
    topics = {str(question.index): question.topic for question in params.questions if question.topic}
    return Approval(
        id=_approval_id(request), kind=ApprovalKind.QUESTION, title=questions[0].text, created_at=now_ms(),
        turn_id=turn_id, tool_call_id=params.tool_call_id, tool=ToolName.ASK_USER, tool_kind=ToolKind.OTHER,
        questions=tuple(questions), meta={"topics": topics} if topics else None,
    )  # fmt: skip


def _details(confirmation: _Confirmation) -> dict[str, Any]:
    details = confirmation.details
    return cast("dict[str, Any]", details) if isinstance(details, dict) else {}


def _plan_title(confirmation: _Confirmation) -> str:
    title = _details(confirmation).get("title") or confirmation.tool_use.input.get("title")
    return str(title or _PLAN_TITLES[confirmation.confirmation_type])


def _permission_title(confirmation: _Confirmation) -> str:
    details, use = _details(confirmation), confirmation.tool_use
    match confirmation.confirmation_type:
        case "sandbox_violation":
            return f"{details.get('violatingToolName') or use.name}: {details.get('reason') or 'sandbox'}"
        case "droid_shield_violation":
            return f"{details.get('command') or use.name}: {details.get('reason') or 'Droid Shield'}"
        case _:
            return tool_title(use)


def _raised_level(confirmation: _Confirmation) -> str | None:
    """Return the autonomy level to which `proceed_always` raises the whole session."""
    if confirmation.confirmation_type in ("create", "edit", "apply_patch"):
        return "low"
    level = _details(confirmation).get("impactLevel")
    return level if isinstance(level, str) else None


def _level_rank(level: str) -> int:
    """Return the place of a level among all. One that we do not know may be the highest."""
    return (
        droid.AUTONOMY_LEVELS.index(level) if level in droid.AUTONOMY_LEVELS else len(droid.AUTONOMY_LEVELS)
    )


def _to_option(option: _Option, raised_level: str | None, *, is_plan: bool) -> Option:
    value, name = option.value, option.label or option.value
    if value == PROCEED_ALWAYS:
        effect = f"raises the autonomy of the whole session to {raised_level}"
        name += f": {effect}" if raised_level else ": for the whole session"
    if value == CANCEL:
        kind = OptionKind.REJECT_ONCE
    elif value in _ONCE_VALUES:
        kind = OptionKind.ALLOW_ONCE
    else:
        # Also for unknown options, so that a plain yes never selects them.
        kind = OptionKind.ALLOW_ALWAYS
    return Option(id=value, name=name, kind=kind, mode=_mode_after(value, raised_level, is_plan=is_plan))


def _mode_after(value: str, raised_level: str | None, *, is_plan: bool) -> PermissionMode | None:
    """Return the permission mode that Droid switches to by itself after this option."""
    if value == PROCEED_ALWAYS:
        return droid.permission_mode(autonomy_level=raised_level)
    if not is_plan or value == CANCEL:
        return None
    if value.startswith(droid.PROCEED_NEW_SESSION):
        level = value.removeprefix(droid.PROCEED_NEW_SESSION).removeprefix("_")
        return droid.permission_mode(autonomy_level=level) or PermissionMode.DEFAULT
    return droid.PLAN_OPTION_MODES.get(value, PermissionMode.DEFAULT)


def _approval_id(request: Request) -> str:
    return request.id if isinstance(request.id, str) and is_uuid(request.id) else new_id()


# -- answers


def answer_result(approval: Approval, answer: Answer) -> dict[str, Any]:
    """Return the result that Droid accepts for an answer which has passed `check_answer`. Raises BadRequest."""
    if approval.kind is ApprovalKind.QUESTION:
        return _question_result(approval, answer)
    selected = answer.option_id or (PROCEED_ONCE if answer.outcome.allows else CANCEL)
    result: dict[str, Any] = {"selectedOption": selected}
    answers = answer.answers or {}
    edited_plan = "\n".join(answers.get(droid.PLAN_ANSWER, []))
    if edited_plan and answer.outcome.allows:
        result["editedSpecContent"] = edited_plan
    elif selected == droid.PROCEED_EDIT:
        raise BadRequest("the edited plan is missing: send it as answers.plan")
    chosen = ", ".join(answers.get(droid.CHOICE_ANSWER, []))
    parts = (f"Use this plan: {chosen}" if chosen else "", answer.message)
    comment = "\n".join(part for part in parts if part)
    if comment:
        result["comment"] = comment
    return result


def _question_result(approval: Approval, answer: Answer) -> dict[str, Any]:
    if not answer.outcome.allows:
        # Without the empty list Droid treats the answer as malformed and lets the model go on.
        return {"cancelled": True, "answers": []}
    given = answer.answers or {}
    answers = [
        {
            "index": int(question.id),
            "question": question.text,
            "answer": ", ".join(given.get(question.id, [])),
        }
        for question in approval.questions
    ]
    return {"cancelled": False, "answers": answers}
