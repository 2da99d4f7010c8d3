"""What aider asks, as approvals, and the answers of the permission mode."""

from __future__ import annotations

from collections.abc import Callable

from farsteer.agents.aider.protocol import Ask, encode_line
from farsteer.agents.turns import TurnOutput
from farsteer.core.approvals import Answer, Approval, ApprovalKind, Option, OptionKind
from farsteer.core.clock import now_ms
from farsteer.core.errors import Conflict
from farsteer.core.events import Notice
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode, ToolKind, ToolPermission, tool_permission
from farsteer.core.text import clean_line

_TITLE_CHARS = 200
_OPTIONS = (
    Option(id="allow", name="Allow", kind=OptionKind.ALLOW_ONCE),
    Option(id="deny", name="Deny", kind=OptionKind.REJECT_ONCE),
)
_EVERYTHING = (PermissionMode.YOLO, PermissionMode.BYPASS)


class PendingApprovals:
    """The questions of aider's that wait for a person. `write` sends a line without waiting for it."""

    def __init__(self, output: TurnOutput, mode: PermissionMode, write: Callable[[bytes], None]) -> None:
        self.mode = mode
        self._output = output
        self._write = write
        self._open: dict[str, str] = {}
        """The worker's id of each open approval."""

    def handle_ask(self, ask: Ask) -> None:
        """Answer by the permission mode, or ask a person."""
        permission = tool_permission(self.mode, ask.kind)
        if permission is ToolPermission.ALLOW and self._leads_outside(ask):
            permission = ToolPermission.ASK
        if permission is ToolPermission.ASK:
            approval = _approval(ask, self._output.turn_id)
            self._open[approval.id] = ask.ask
            self._output.ask_approval(approval)
            return
        if permission is ToolPermission.DENY:
            text = f"Denied because this session is read-only: {clean_line(ask.title, _TITLE_CHARS)}"
            self._output.add_event(Notice(text=text, code="read_only"))
        self._write(_answer(ask.ask, allow=permission is ToolPermission.ALLOW))

    def answer(self, approval: Approval, answer: Answer) -> bytes:
        """Return the line that answers an approval, and close it. Raises Conflict if aider no longer waits for it."""
        ask = self._open.get(approval.id)
        if ask is None:
            raise Conflict("aider no longer waits for this answer")
        self._output.close_approval(approval.id)
        del self._open[approval.id]
        return _answer(ask, allow=answer.outcome.allows)

    def clear(self) -> None:
        self._open.clear()

    def _leads_outside(self, ask: Ask) -> bool:
        """Return whether it changes a file outside of the directory, and the mode does not allow everything."""
        return ask.kind is ToolKind.EDIT and not ask.inside and self.mode not in _EVERYTHING


def _approval(ask: Ask, turn_id: str | None) -> Approval:
    return Approval(
        id=new_id(), kind=ApprovalKind.PERMISSION, title=clean_line(ask.title, _TITLE_CHARS), created_at=now_ms(),
        turn_id=turn_id, tool_call_id=ask.call, tool=ask.tool, tool_kind=ask.kind, arguments=ask.arguments,
        options=_OPTIONS,
    )  # fmt: skip


def _answer(ask: str, *, allow: bool) -> bytes:
    return encode_line("answer", ask=ask, allow=allow)
