"""Codex's requests for decisions as approvals, and a person's answer in the form that Codex accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from farsteer.agents.codex import questions
from farsteer.agents.codex.decisions import Decision, command_decisions, file_decisions, permission_decisions
from farsteer.agents.codex.items import changes_title, command_title, unwrapped
from farsteer.agents.codex.protocol import FileChangeItem, Request, RequestId, encode_error, encode_result
from farsteer.agents.codex.settings import SettingsTracker
from farsteer.agents.turns import TurnOutput
from farsteer.agents.workspace import is_inside
from farsteer.core.approvals import Answer, Approval, ApprovalKind, Outcome
from farsteer.core.clock import now_ms
from farsteer.core.errors import Conflict, ErrorCode
from farsteer.core.events import Notice
from farsteer.core.ids import new_id
from farsteer.core.modes import ToolKind, ToolPermission, tool_permission
from farsteer.core.text import clean_line
from farsteer.core.wire import WireStruct, decode
from farsteer.jsonrpc.errors import INVALID_PARAMS, METHOD_NOT_FOUND

_TITLE_CHARS = 200


class CommandParams(WireStruct):
    thread_id: str
    item_id: str
    kind: str = "command"
    approval_id: str | None = None
    reason: str | None = None
    command: str | None = None
    cwd: str | None = None
    network_approval_context: dict[str, Any] | None = None
    additional_permissions: dict[str, Any] | None = None
    available_decisions: list[Any] | None = None


class FileChangeParams(WireStruct):
    thread_id: str
    item_id: str
    reason: str | None = None
    grant_root: str | None = None


class PermissionParams(WireStruct):
    thread_id: str
    item_id: str
    reason: str | None = None
    permissions: dict[str, Any] = {}


@dataclass(slots=True)
class _Open:
    """A request that waits for a person, and how its answer is encoded."""

    request_id: RequestId
    result: Callable[[Answer], dict[str, Any]]


class PendingApprovals:
    """The requests of Codex's that wait for a person.

    `write` sends a line without waiting for it. `find_changes` returns a file change that Codex has announced.
    """

    def __init__(
        self, output: TurnOutput, settings: SettingsTracker, roots: tuple[str, ...],
        find_changes: Callable[[str], FileChangeItem | None], write: Callable[[bytes], None],
    ) -> None:  # fmt: skip
        self._output = output
        self._settings = settings
        self._roots = roots
        self._find_changes = find_changes
        self._write = write
        self._open: dict[str, _Open] = {}

    def handle_request(self, request: Request) -> None:
        """Ask a person, or answer by the permission mode. A request that is not understood is refused with an error."""
        if any(one.request_id == request.id for one in self._open.values()):
            return
        try:
            match request.method:
                case "item/commandExecution/requestApproval":
                    self._ask_command(request, decode(request.params, CommandParams))
                case "item/fileChange/requestApproval":
                    self._ask_file_change(request, decode(request.params, FileChangeParams))
                case "item/permissions/requestApproval":
                    self._ask_permissions(request, decode(request.params, PermissionParams))
                case "item/tool/requestUserInput":
                    self._ask_question(request, questions.user_input(request.params, self._output.turn_id))
                case "mcpServer/elicitation/request":
                    self._ask_elicitation(request)
                case _:
                    self._reject(request, METHOD_NOT_FOUND, "not supported")
        except (msgspec.DecodeError, questions.NotUnderstood) as error:
            self._reject(request, INVALID_PARAMS, f"not understood: {error}")

    def answer(self, approval: Approval, answer: Answer) -> bytes:
        """Return the line that answers an approval, and close it. Raises Conflict if Codex no longer waits for it."""
        waiting = self._open.get(approval.id)
        if waiting is None:
            raise Conflict("Codex no longer waits for this answer")
        line = encode_result(waiting.request_id, waiting.result(answer))
        self._output.close_approval(approval.id)
        del self._open[approval.id]
        return line

    def handle_resolved(self, request_id: RequestId) -> None:
        """Codex no longer waits. If the answer was not ours, withdraw the approval."""
        for approval_id in [known for known, one in self._open.items() if one.request_id == request_id]:
            del self._open[approval_id]
            self._output.withdraw_approval(approval_id)

    def clear(self) -> None:
        self._open.clear()

    # -- permissions

    def _ask_command(self, request: Request, params: CommandParams) -> None:
        network = params.network_approval_context
        if network is not None:
            title = f"Network access to {network.get('host') or 'a host'} ({network.get('protocol') or 'unknown'})"
        elif params.command:
            title = command_title(params.command)
        else:
            title = params.reason or "a command"
        arguments = {
            "command": unwrapped(params.command) if params.command else None, "cwd": params.cwd,
            "network": network, "additionalPermissions": params.additional_permissions,
        }  # fmt: skip
        approval = self._permission(
            title, params.item_id, "exec_command", ToolKind.FETCH if network else ToolKind.EXECUTE,
            {name: value for name, value in arguments.items() if value is not None}, params.reason,
            command_decisions(params.available_decisions),
        )  # fmt: skip
        # In a mode that allows commands Codex runs them in its sandbox. What it asks for leads out of it.
        self._ask(request, approval, command_decisions(params.available_decisions))

    def _ask_file_change(self, request: Request, params: FileChangeParams) -> None:
        item = self._find_changes(params.item_id)
        files = item.changes if item is not None else []
        decisions = file_decisions(params.grant_root)
        arguments: dict[str, Any] = {
            "changes": [{"path": one.path, "kind": one.kind, "diff": one.diff} for one in files]
        }
        if params.grant_root:
            arguments["grantRoot"] = params.grant_root
        title = changes_title(files) if files else "Change files"
        kind = ToolKind.EDIT
        if any(one.kind.get("type") == "delete" for one in files):
            kind = ToolKind.DELETE
        approval = self._permission(
            title, params.item_id, "apply_patch", kind, arguments, params.reason, decisions
        )
        targets = [path for one in files for path in (one.path, one.kind.get("move_path")) if path]
        allowed = (
            bool(targets)
            and not params.grant_root
            and all(is_inside(str(one), self._roots) for one in targets)
        )
        self._ask(request, approval, decisions, may_allow=allowed)

    def _ask_permissions(self, request: Request, params: PermissionParams) -> None:
        decisions = permission_decisions(params.permissions)
        title = clean_line(params.reason or "More permissions", _TITLE_CHARS)
        approval = self._permission(
            title, params.item_id, "request_permissions", ToolKind.OTHER, {"permissions": params.permissions},
            params.reason, decisions,
        )  # fmt: skip
        self._ask(request, approval, decisions)

    def _permission(
        self, title: str, item_id: str, tool: str, kind: ToolKind, arguments: dict[str, Any], reason: str | None,
        decisions: list[Decision],
    ) -> Approval:  # fmt: skip
        return Approval(
            id=new_id(), kind=ApprovalKind.PERMISSION, title=title, created_at=now_ms(), turn_id=self._output.turn_id,
            tool_call_id=item_id, tool=tool, tool_kind=kind, arguments=arguments,
            options=tuple(decision.option for decision in decisions), meta={"reason": reason} if reason else None,
        )  # fmt: skip

    def _ask(
        self, request: Request, approval: Approval, decisions: list[Decision], *, may_allow: bool = False
    ) -> None:
        """Ask a person, unless the permission mode has the answer.

        Args:
            may_allow: The action stays within the directories of the session, so that the mode may allow it.
        """
        by_id = {decision.option.id: decision.result for decision in decisions}

        def result(answer: Answer) -> dict[str, Any]:
            if (
                answer.outcome is Outcome.ABORT
                and answer.option_id in (None, "decline")
                and "cancel" in by_id
            ):
                return by_id["cancel"]
            if answer.option_id in by_id:
                return by_id[answer.option_id]
            return by_id["accept" if answer.outcome is Outcome.APPROVED else "decline"]

        permission = tool_permission(self._settings.mode, approval.tool_kind or ToolKind.OTHER)
        if self._settings.is_read_only:
            self._write(encode_result(request.id, by_id["decline"]))
            text = f"Denied because this session is read-only: {approval.title}"
            self._output.add_event(
                Notice(text=text, code="read_only", meta={"toolCallId": approval.tool_call_id})
            )
        elif permission is ToolPermission.ALLOW and (may_allow or self._settings.allows_everything):
            self._write(encode_result(request.id, by_id["accept"]))
        else:
            self._open[approval.id] = _Open(request.id, result)
            self._output.ask_approval(approval)

    # -- questions

    def _ask_elicitation(self, request: Request) -> None:
        form = questions.elicitation(request.params, self._output.turn_id)
        if form.is_tool_permission:
            if self._settings.is_read_only:
                self._write(encode_result(request.id, questions.DECLINED))
                text = f"Denied because this session is read-only: {form.approval.title}"
                self._output.add_event(Notice(text=text, code="read_only"))
                return
            if self._settings.allows_everything:
                self._write(encode_result(request.id, questions.ACCEPTED))
                return
        self._ask_question(request, form)

    def _ask_question(self, request: Request, form: questions.Form) -> None:
        self._open[form.approval.id] = _Open(request.id, form.result)
        self._output.ask_approval(form.approval)

    def _reject(self, request: Request, code: int, reason: str) -> None:
        self._write(encode_error(request.id, code, f"{request.method}: {reason}"))
        text = f"Rejected a request from Codex: {request.method}: {reason}"
        self._output.add_notice(text, ErrorCode.AGENT_PROTOCOL)
