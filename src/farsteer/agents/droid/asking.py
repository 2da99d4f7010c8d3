"""What Droid waits for a person to answer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from farsteer.agents.droid import approvals, wire
from farsteer.agents.droid.notes import ToolUse
from farsteer.agents.droid.rpc import INVALID_PARAMS, UNKNOWN_METHOD
from farsteer.agents.droid.settings import Dial
from farsteer.agents.droid.toolbox import Toolbox
from farsteer.agents.turns import TurnOutput
from farsteer.core.approvals import Answer, Approval, ApprovalKind
from farsteer.core.errors import Conflict, ErrorCode
from farsteer.core.events import Notice
from farsteer.core.modes import PermissionMode, ToolKind, ToolPermission, tool_permission


class Asking:
    """`reply` writes to Droid without anybody waiting for it."""

    def __init__(self, turns: TurnOutput, tools: Toolbox, dial: Dial, reply: Callable[[bytes], None]) -> None:
        self._turns = turns
        self._tools = tools
        self._dial = dial
        self._reply = reply
        self._open: dict[str, str | int] = {}
        """What Droid calls each open approval."""

    @property
    def waiting(self) -> bool:
        return bool(self._open)

    def take(self, request: wire.Request) -> None:
        """Ask a person what Droid asks us. What nobody could answer is refused, which Droid takes as a no."""
        if request.id in self._open.values():
            return
        try:
            if request.method == wire.REQUEST_PERMISSION:
                approval = approvals.permission(request, self._turns.turn_id)
            elif request.method == wire.ASK_USER:
                approval = approvals.questions(request, self._turns.turn_id)
            else:
                self._refuse(request, UNKNOWN_METHOD, f"{request.method} is not supported")
                return
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._refuse(request, INVALID_PARAMS, f"not understood: {error}")
            return
        if approval.tool_call_id is not None:
            use = ToolUse(
                id=approval.tool_call_id, name=approval.tool or "tool", input=approval.arguments or {}
            )
            self._tools.announce(use)
        if self._forbidden(approval):
            self._reply(wire.response(request.id, {"selectedOption": approvals.CANCEL}))
            text = f"Refused, for this session is read-only: {approval.title}"
            self._turns.add_event(
                Notice(text=text, code="read_only", meta={"toolCallId": approval.tool_call_id})
            )
            return
        self._open[approval.id] = request.id
        self._turns.ask_approval(approval)

    def answer(self, approval: Approval, answer: Answer) -> bytes:
        """The line that answers it. Raises Conflict when Droid no longer waits, BadRequest when it is no answer."""
        request_id = self._open.get(approval.id)
        if request_id is None:
            raise Conflict("Droid no longer waits for this answer")
        line = wire.response(request_id, approvals.reply(approval, answer))
        self._turns.close_approval(approval.id)
        del self._open[approval.id]
        return line

    def resolved(self, request_id: str) -> None:
        """Droid has its answer: if it is not ours, the person need not give one any more."""
        for approval_id in [known for known, request in self._open.items() if request == request_id]:
            del self._open[approval_id]
            self._turns.withdraw_approval(approval_id)

    def clear(self) -> None:
        self._open.clear()

    def _forbidden(self, approval: Approval) -> bool:
        """Droid has no read-only mode; it asks, and nobody is to be bothered with what cannot be allowed."""
        return (
            approval.kind is ApprovalKind.PERMISSION
            and self._dial.mode is PermissionMode.READ_ONLY
            and tool_permission(self._dial.mode, approval.tool_kind or ToolKind.OTHER) is ToolPermission.DENY
        )

    def _refuse(self, request: wire.Request, code: int, why: str) -> None:
        self._reply(wire.refusal(request.id, code, why))
        text = f"A request of Droid's was refused: {request.method}: {why}"
        self._turns.add_notice(text, ErrorCode.AGENT_PROTOCOL)
