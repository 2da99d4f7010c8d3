"""Claude Code's requests for permission, its questions and plans as approvals, and the answers in its form."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from farsteer.agents.claude import tools
from farsteer.agents.claude.protocol import ControlRequest, encode_error, encode_response
from farsteer.agents.claude.questions import answered_input, question_approval
from farsteer.agents.claude.settings import UNLIMITED_MODES, SettingsTracker, native_mode
from farsteer.agents.turns import TurnOutput
from farsteer.core.approvals import Answer, Approval, ApprovalKind, Option, OptionKind, Outcome, granted_mode
from farsteer.core.clock import now_ms
from farsteer.core.errors import Conflict, ErrorCode
from farsteer.core.events import ModeUpdate, Notice
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode, ToolKind, ToolPermission, tool_permission
from farsteer.core.text import clean_line

GUARD = "farsteer-guard"
"""The name of our hook before each tool call."""

_DENIED = "The user denied this."
_READ_ONLY = "This session is in the mode {mode}: nothing may be changed and no command may run."
_TITLE_CHARS = 200
_RULE_CHARS = 100
_LASTING = frozenset({"addRules", "addDirectories", "replaceRules"})


class PermissionRequest(msgspec.Struct, frozen=True, gc=False):
    """The fields of `can_use_tool` that we use."""

    tool_name: str
    tool_use_id: str | None = None
    input: dict[str, Any] = {}
    permission_suggestions: list[dict[str, Any]] = []
    blocked_path: str | None = None
    decision_reason: str | None = None
    agent_id: str | None = None


@dataclass(slots=True)
class _Open:
    request_id: str
    result: Callable[[Answer], dict[str, Any]]


class PendingApprovals:
    """The requests that wait for a person.

    `write` sends a line without waiting for it. `plans_dir` is the directory in which Claude Code keeps its plans.
    `find_input` returns the input of a tool call as the model wrote it.
    """

    def __init__(
        self, output: TurnOutput, settings: SettingsTracker, plans_dir: str,
        find_input: Callable[[str], dict[str, Any]], write: Callable[[bytes], None],
    ) -> None:  # fmt: skip
        self._output = output
        self._settings = settings
        self._find_input = find_input
        self._plans_dir = os.path.join(os.path.realpath(plans_dir), "")
        self._write = write
        self._open: dict[str, _Open] = {}

    def handle_request(self, request: ControlRequest) -> None:
        subtype = request.request.get("subtype")
        try:
            match subtype:
                case "can_use_tool":
                    self._ask(request.request_id, msgspec.convert(request.request, PermissionRequest))
                case "hook_callback":
                    self._guard(request)
                case _:
                    raise ValueError("unknown request")
        except (msgspec.ValidationError, ValueError) as error:
            # An answer that allows nothing, so that Claude Code does not wait for one.
            self._write(encode_error(request.request_id, f"{subtype}: {error}"))
            text = f"Rejected a request from Claude Code: {subtype}: {error}"
            self._output.add_notice(text, ErrorCode.AGENT_PROTOCOL)

    def handle_cancel(self, request_id: str) -> None:
        for approval_id, pending in [*self._open.items()]:
            if pending.request_id == request_id:
                del self._open[approval_id]
                self._output.withdraw_approval(approval_id)

    def answer(self, approval: Approval, answer: Answer) -> bytes:
        """Return the line that answers. Raises Conflict if the approval is not open."""
        pending = self._open.get(approval.id)
        if pending is None:
            raise Conflict("the agent no longer waits for this answer")
        self._output.close_approval(approval.id)
        del self._open[approval.id]
        return encode_response(pending.request_id, pending.result(answer))

    def clear(self) -> None:
        self._open.clear()

    # -- the hook before each tool call

    def _guard(self, request: ControlRequest) -> None:
        hook = tools.tool_input(request.request.get("input"))
        name, given = str(hook.get("tool_name")), tools.tool_input(hook.get("tool_input"))
        output: dict[str, Any] = {}
        if self._settings.is_read_only and not self._is_harmless(name, given):
            reason = _READ_ONLY.format(mode=self._settings.mode.value)
            output = {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason,
                }
            }  # fmt: skip
            call = request.request.get("tool_use_id")
            self._denied_notice(tools.tool_title(name, given), str(call) if call else None)
        self._write(encode_response(request.request_id, output))

    def _is_harmless(self, name: str, given: dict[str, Any]) -> bool:
        kind = tools.tool_kind(name)
        if tool_permission(self._settings.mode, kind) is ToolPermission.ALLOW or kind is ToolKind.SWITCH_MODE:
            return True
        if self._settings.mode is PermissionMode.PLAN and kind is ToolKind.EDIT:
            # Claude Code writes its plan to a file of its own.
            path = tools.tool_path(given)
            return path is not None and os.path.realpath(path).startswith(self._plans_dir)
        return False

    def _denied_notice(self, title: str, call: str | None) -> None:
        self._output.add_event(
            Notice(
                text=f"Denied because this session is read-only: {title}", code="read_only",
                meta={"toolCallId": call} if call else None,
            )
        )  # fmt: skip

    # -- permissions

    def _ask(self, request_id: str, request: PermissionRequest) -> None:
        if request.tool_name == tools.ASK_QUESTION:
            approval = question_approval(request.input, request.tool_use_id, self._output.turn_id)
            self._wait(request_id, approval, lambda answer: _question_result(request, answer))
        elif request.tool_name == tools.EXIT_PLAN:
            approval = self._plan_approval(request)
            self._wait(request_id, approval, lambda answer: self._plan_result(request, approval, answer))
        else:
            self._ask_permission(request_id, request)

    def _ask_permission(self, request_id: str, request: PermissionRequest) -> None:
        kind, mode = tools.tool_kind(request.tool_name), self._settings.mode
        title = tools.tool_title(request.tool_name, request.input)
        if self._settings.is_read_only:
            self._write(encode_response(request_id, _deny(_READ_ONLY.format(mode=mode.value))))
            self._denied_notice(title, request.tool_use_id)
            return
        is_allowed = tool_permission(mode, kind) is ToolPermission.ALLOW
        # Edits inside the session's directories it allows by itself. It asks for those outside of them.
        if mode in UNLIMITED_MODES or (is_allowed and kind is ToolKind.EXECUTE):
            self._write(encode_response(request_id, _allow(request)))
            return
        suggestions = _options(request.permission_suggestions)
        options = (
            Option(id="allow", name="Allow once", kind=OptionKind.ALLOW_ONCE),
            *(option for option, _ in suggestions),
            Option(id="deny", name="Deny", kind=OptionKind.REJECT_ONCE),
        )
        meta = {
            "reason": request.decision_reason,
            "blockedPath": request.blocked_path,
            "agentId": request.agent_id,
        }
        approval = Approval(
            id=new_id(), kind=ApprovalKind.PERMISSION, title=title, created_at=now_ms(), turn_id=self._output.turn_id,
            tool_call_id=request.tool_use_id, tool=request.tool_name, tool_kind=kind, arguments=request.input,
            options=options, meta={name: value for name, value in meta.items() if value} or None,
        )  # fmt: skip
        updates = {option.id: found for option, found in suggestions}

        def result(answer: Answer) -> dict[str, Any]:
            if not answer.outcome.allows:
                return _deny(answer.message or _DENIED, stop=answer.outcome is Outcome.ABORT)
            mode = granted_mode(approval, answer)
            if mode is not None:
                self._grant(mode)
            chosen = updates.get(answer.option_id or "", [])
            if answer.mode is not None:
                chosen = [*(one for one in chosen if one.get("type") != "setMode"), _set_mode(answer.mode)]
            return _allow(request, chosen)

        self._wait(request_id, approval, result)

    def _wait(self, request_id: str, approval: Approval, result: Callable[[Answer], dict[str, Any]]) -> None:
        self._open[approval.id] = _Open(request_id, result)
        self._output.ask_approval(approval)

    def _grant(self, mode: PermissionMode) -> None:
        if mode is not self._settings.mode:
            self._settings.set_mode(mode)
            self._output.add_event(ModeUpdate(permission_mode=mode))

    # -- plans

    def _plan_approval(self, request: PermissionRequest) -> Approval:
        # Claude Code reads the plan from the file that the model wrote. Without one it leaves the model's own out.
        plan = request.input.get("plan") or self._find_input(request.tool_use_id or "").get("plan")
        return Approval(
            id=new_id(), kind=ApprovalKind.PLAN, title="Plan", created_at=now_ms(), turn_id=self._output.turn_id,
            tool_call_id=request.tool_use_id, tool=request.tool_name, tool_kind=ToolKind.SWITCH_MODE,
            arguments=request.input, plan=plan if isinstance(plan, str) else "",
            options=(
                Option(
                    id="default", name="Approve, ask before each edit", kind=OptionKind.ALLOW_ONCE,
                    mode=PermissionMode.DEFAULT,
                ),
                Option(
                    id="acceptEdits", name="Approve and accept edits", kind=OptionKind.ALLOW_ALWAYS,
                    mode=PermissionMode.ACCEPT_EDITS,
                ),
                Option(id="plan", name="Keep planning", kind=OptionKind.REJECT_ONCE),
            ),
        )  # fmt: skip

    def _plan_result(self, request: PermissionRequest, approval: Approval, answer: Answer) -> dict[str, Any]:
        if not answer.outcome.allows:
            message = answer.message or "The user wants to keep planning."
            return _deny(message, stop=answer.outcome is Outcome.ABORT)
        mode = granted_mode(approval, answer) or PermissionMode.DEFAULT
        self._grant(mode)
        return _allow(request, [_set_mode(mode)])


def _question_result(request: PermissionRequest, answer: Answer) -> dict[str, Any]:
    if not answer.outcome.allows:
        message = answer.message or "The user did not answer."
        return _deny(message, stop=answer.outcome is Outcome.ABORT)
    return {"behavior": "allow", "updatedInput": answered_input(request.input, answer)}


def _allow(request: PermissionRequest, updates: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    result: dict[str, Any] = {"behavior": "allow", "updatedInput": request.input}
    return {**result, "updatedPermissions": updates} if updates else result


def _deny(message: str, *, stop: bool = False) -> dict[str, Any]:
    return {"behavior": "deny", "message": message, "interrupt": stop}


def _set_mode(mode: PermissionMode) -> dict[str, Any]:
    return {"type": "setMode", "mode": native_mode(mode), "destination": "session"}


def _options(suggestions: list[dict[str, Any]]) -> list[tuple[Option, list[dict[str, Any]]]]:
    """Return the options that Claude Code's suggestions make possible, each with the changes it stands for."""
    rules = [one for one in suggestions if one.get("type") in _LASTING]
    found: list[tuple[Option, list[dict[str, Any]]]] = []
    if rules:
        what = clean_line(", ".join(_describe(one) for one in rules), _RULE_CHARS)
        here: list[dict[str, Any]] = [{**one, "destination": "session"} for one in rules]
        option = Option(id="session", name=f"Allow in this session: {what}", kind=OptionKind.ALLOW_ALWAYS)
        found.append((option, here))
        if any(one.get("destination") != "session" for one in rules):
            option = Option(id="always", name=f"Allow always: {what}", kind=OptionKind.ALLOW_ALWAYS)
            found.append((option, rules))
    if any(one.get("type") == "setMode" and one.get("mode") == "acceptEdits" for one in suggestions):
        option = Option(
            id="acceptEdits", name="Allow and accept edits", kind=OptionKind.ALLOW_ALWAYS,
            mode=PermissionMode.ACCEPT_EDITS,
        )  # fmt: skip
        found.append((option, [_set_mode(PermissionMode.ACCEPT_EDITS)]))
    return found


def _describe(update: dict[str, Any]) -> str:
    if update.get("type") == "addDirectories":
        return ", ".join(str(directory) for directory in _listed(update.get("directories")))
    rules = (tools.tool_input(rule) for rule in _listed(update.get("rules")))
    return ", ".join(
        f"{rule.get('toolName')}({rule['ruleContent']})"
        if rule.get("ruleContent")
        else str(rule.get("toolName"))
        for rule in rules
    )


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
