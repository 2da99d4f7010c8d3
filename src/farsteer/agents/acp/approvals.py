"""The agent's requests for permission and its questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from farsteer.agents.acp.protocol import (
    ElicitationParams,
    PermissionOption,
    PermissionParams,
    RequestId,
    encode_error,
    encode_result,
)
from farsteer.agents.acp.settings import SessionSettings
from farsteer.agents.acp.tool_calls import KnownCall
from farsteer.agents.acp.translator import Translator
from farsteer.agents.forms import field_question, field_value, form_fields
from farsteer.agents.turns import TurnOutput
from farsteer.agents.workspace import is_inside
from farsteer.core.approvals import Answer, Approval, ApprovalKind, Option, OptionKind, Outcome, granted_mode
from farsteer.core.clock import now_ms
from farsteer.core.errors import Conflict, ErrorCode
from farsteer.core.events import Notice, TextBlock
from farsteer.core.ids import new_id
from farsteer.core.modes import ToolKind, ToolPermission, tool_permission
from farsteer.core.text import clean_line
from farsteer.jsonrpc.errors import INVALID_PARAMS

CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}
_FORM_CANCELLED, _FORM_DECLINED = {"action": "cancel"}, {"action": "decline"}
_TITLE_CHARS = 500
_NAME_CHARS = 200
_MAX_OPEN = 256
_MAX_OPTIONS = 32
_MAX_GRANTS = 256
_KINDS = {kind.value: kind for kind in OptionKind}
_IN_ANY_PLACE = frozenset(
    {ToolKind.EXECUTE, ToolKind.THINK, ToolKind.FETCH, ToolKind.OTHER, ToolKind.SWITCH_MODE}
)
"""Kinds of tools that are not about certain files."""


@dataclass(slots=True)
class _Open:
    """Something that waits for a person: how its answer is sent, and what is sent if there is none."""

    reply: Callable[[Answer], None]
    withdraw: Callable[[], None]
    request_id: RequestId


class PendingApprovals:
    """What waits for a person.

    Args:
        roots: The directories of the session.
        write: Sends a line without waiting for it.
    """

    def __init__(
        self, output: TurnOutput, settings: SessionSettings, translator: Translator, roots: tuple[str, ...],
        write: Callable[[bytes], None],
    ) -> None:  # fmt: skip
        self._output = output
        self._settings = settings
        self._translator = translator
        self._roots = roots
        self._write = write
        self._open: dict[str, _Open] = {}
        self._granted: dict[str, KnownCall] = {}
        """Tool calls of this turn that were allowed, by a person or by the permission mode."""

    @property
    def is_read_only(self) -> bool:
        return self._settings.is_read_only

    @property
    def is_waiting(self) -> bool:
        return bool(self._open)

    # -- answers

    def answer(self, approval: Approval, answer: Answer) -> None:
        """Send an answer. Raises Conflict if the agent no longer waits for it."""
        waiting = self._open.get(approval.id)
        if waiting is None:
            raise Conflict("the agent no longer waits for this answer")
        self._output.close_approval(approval.id)
        del self._open[approval.id]
        waiting.reply(answer)
        if approval.kind is ApprovalKind.PLAN and answer.outcome.allows:
            mode = granted_mode(approval, answer)
            if mode is not None:
                self._settings.grant(mode)

    def cancel_all(self) -> None:
        """Tell the agent that nobody answers any more, because its turn is interrupted."""
        for approval_id, waiting in [*self._open.items()]:
            self._output.withdraw_approval(approval_id)
            waiting.withdraw()
        self._open.clear()

    def withdraw(self, request_id: Any) -> None:
        """The agent no longer waits for the answer to this request."""
        for approval_id in [one for one, waiting in self._open.items() if waiting.request_id == request_id]:
            self._output.withdraw_approval(approval_id)
            self._open.pop(approval_id).withdraw()

    def clear(self) -> None:
        """The turn is over, or the agent is gone."""
        self._open.clear()
        self._granted.clear()

    # -- permissions

    def ask_permission(self, request_id: RequestId, params: PermissionParams) -> None:
        """Ask a person whether a tool may be used, or answer by the permission mode."""
        call = self._translator.calls.take(params.tool_call)
        self._translator.finish_message()
        self._translator.begin_call(call)
        options = self._options(params.options)

        def send(option: Option | None) -> None:
            outcome = CANCELLED
            if option is not None:
                outcome = {"outcome": {"outcome": "selected", "optionId": option.id}}
                if option.kind.allows:
                    self._grant(call)
            self._write(encode_result(request_id, outcome))

        is_plan = call.kind is ToolKind.SWITCH_MODE
        permission = self._permission(call)
        if is_plan and not self._settings.allows_everything and self._settings.mode.value != "read-only":
            permission = ToolPermission.ASK
        chosen = _automatic_option(options, permission, lasting=self._settings.allows_everything)
        if permission is ToolPermission.DENY:
            send(chosen)
            self._tell_denied(call.title, call.id)
        elif permission is ToolPermission.ALLOW and chosen is not None:
            send(chosen)
        else:
            approval = self._permission_approval(call, options, is_plan=is_plan)
            by_id = {option.id: option for option in options}
            self._ask(request_id, approval, lambda answer: send(_answered(by_id, answer)), lambda: send(None))

    def _permission(self, call: KnownCall) -> ToolPermission:
        kind = call.risk_kind
        permission = tool_permission(self._settings.mode, kind)
        if (
            permission is not ToolPermission.ALLOW
            or self._settings.allows_everything
            or kind in _IN_ANY_PLACE
        ):
            return permission
        # The mode speaks of the session's directories only.
        inside = all(is_inside(self._absolute(path), self._roots) for path in call.paths)
        changes = kind not in (ToolKind.READ, ToolKind.SEARCH)
        if inside and (call.paths or not changes):
            return ToolPermission.ALLOW
        return ToolPermission.DENY if changes and self._settings.is_read_only else ToolPermission.ASK

    def _absolute(self, path: str) -> str:
        return path if path.startswith("/") else f"{self._roots[0]}/{path}"

    def _options(self, offered: list[PermissionOption]) -> list[Option]:
        """Return the agent's options. Of several with the same id only the first can be chosen."""
        found: dict[str, Option] = {}
        for one in offered[:_MAX_OPTIONS]:
            kind = _KINDS.get(one.kind)
            if kind is None:
                # Of an unknown kind: it counts as lasting, so that a plain yes never selects it.
                rejects = one.kind.startswith("reject")
                kind = OptionKind.REJECT_ALWAYS if rejects else OptionKind.ALLOW_ALWAYS
            mode = self._settings.meaning(one.option_id) if kind.allows else None
            name = clean_line(one.name or one.option_id, _NAME_CHARS)
            found.setdefault(one.option_id, Option(id=one.option_id, name=name, kind=kind, mode=mode))
        return [*found.values()]

    def _permission_approval(self, call: KnownCall, options: list[Option], *, is_plan: bool) -> Approval:
        plan = None
        if is_plan:
            texts = [block.text for block in call.content if isinstance(block, TextBlock)]
            told = (call.arguments or {}).get("plan")
            plan = told if isinstance(told, str) else "\n".join(texts)
        return Approval(
            id=new_id(), kind=ApprovalKind.PLAN if plan else ApprovalKind.PERMISSION,
            title=call.title or call.name or call.kind.value, created_at=now_ms(), turn_id=self._output.turn_id,
            tool_call_id=call.id, tool=call.name, tool_kind=call.risk_kind, arguments=call.described,
            options=tuple(options), plan=plan or None,
        )  # fmt: skip

    def _tell_denied(self, title: str, call_id: str | None) -> None:
        text = f"Denied because this session is read-only: {title}"
        meta = {"toolCallId": call_id} if call_id else None
        self._output.add_event(Notice(text=text, code="read_only", meta=meta))

    # -- what the agent wants us to do

    def ask_action(
        self, request_id: RequestId, kind: ToolKind, title: str, arguments: dict[str, Any],
        allow: Callable[[], None], refuse: Callable[[], None],
    ) -> None:  # fmt: skip
        """Call `allow` or `refuse` for something that the agent wants us to do, by the mode or a person's answer."""
        permission = tool_permission(self._settings.mode, kind)
        if permission is ToolPermission.ASK and self._was_granted(kind, arguments):
            permission = ToolPermission.ALLOW
        if permission is ToolPermission.ALLOW:
            allow()
        elif permission is ToolPermission.DENY:
            refuse()
            self._tell_denied(title, None)
        else:
            options = (
                Option(id="allow", name="Allow", kind=OptionKind.ALLOW_ONCE),
                Option(id="deny", name="Deny", kind=OptionKind.REJECT_ONCE),
            )
            approval = Approval(
                id=new_id(), kind=ApprovalKind.PERMISSION, title=clean_line(title, _TITLE_CHARS),
                created_at=now_ms(), turn_id=self._output.turn_id, tool_kind=kind, arguments=arguments,
                options=options,
            )  # fmt: skip
            self._ask(
                request_id, approval, lambda answer: allow() if answer.outcome.allows else refuse(), refuse
            )

    def _grant(self, call: KnownCall) -> None:
        self._granted[call.id] = call
        if len(self._granted) > _MAX_GRANTS:
            del self._granted[next(iter(self._granted))]

    def _was_granted(self, kind: ToolKind, arguments: dict[str, Any]) -> bool:
        """Whether a tool call of this turn that was allowed is the reason for this action."""
        if kind is ToolKind.EDIT:
            path = str(arguments.get("path"))
            return any(path in map(self._absolute, call.paths) for call in self._granted.values())
        command = arguments.get("command")
        for call_id, call in self._granted.items():
            told = (call.arguments or {}).get("command")
            if told is not None and told in (command, arguments.get("argv")):
                # A permission for a command is good for one run.
                del self._granted[call_id]
                return True
        return False

    # -- questions

    def ask_question(self, request_id: RequestId, params: ElicitationParams) -> None:
        """Show a form of the agent. One that cannot be shown is refused with an error."""
        fields = form_fields(params.requested_schema)
        title = clean_line(params.message, _TITLE_CHARS) or "A question"
        if params.mode == "url" and params.url:
            approval = self._consent(title, {"url": params.url}, params)
        elif params.mode == "form":
            questions = tuple(field_question(name, schema) for name, schema in fields.items())
            approval = self._consent(title, None, params)
            if questions:
                approval = Approval(
                    id=new_id(), kind=ApprovalKind.QUESTION, title=title, created_at=now_ms(),
                    turn_id=self._output.turn_id, tool_call_id=params.tool_call_id, questions=questions,
                )  # fmt: skip
        else:
            self._write(encode_error(request_id, INVALID_PARAMS, f"no questions of the mode {params.mode}"))
            self._output.add_notice(
                f"Refused a question of the unknown mode {params.mode}", ErrorCode.AGENT_PROTOCOL
            )
            return
        self._translator.finish_message()

        def reply(answer: Answer) -> None:
            result: dict[str, Any] = _FORM_CANCELLED if answer.outcome is Outcome.ABORT else _FORM_DECLINED
            if answer.outcome.allows:
                given = answer.answers or {}
                content = {name: field_value(fields[name], given[name]) for name in fields if name in given}
                result = {"action": "accept", "content": content}
            self._write(encode_result(request_id, result))

        self._ask(
            request_id, approval, reply, lambda: self._write(encode_result(request_id, _FORM_CANCELLED))
        )

    def _consent(self, title: str, arguments: dict[str, Any] | None, params: ElicitationParams) -> Approval:
        options = (
            Option(id="accept", name="Allow", kind=OptionKind.ALLOW_ONCE),
            Option(id="decline", name="Deny", kind=OptionKind.REJECT_ONCE),
        )
        return Approval(
            id=new_id(), kind=ApprovalKind.PERMISSION, title=title, created_at=now_ms(),
            turn_id=self._output.turn_id, tool_call_id=params.tool_call_id, tool_kind=ToolKind.OTHER,
            arguments=arguments, options=options,
        )  # fmt: skip

    def _ask(
        self, request_id: RequestId, approval: Approval, reply: Callable[[Answer], None],
        withdraw: Callable[[], None],
    ) -> None:  # fmt: skip
        if self._output.turn_id is None or len(self._open) >= _MAX_OPEN:
            # An approval belongs to a turn. Outside of one, or beyond a sane number, nobody is asked.
            withdraw()
            self._output.add_notice(
                f"Refused what the agent asked for: {approval.title}", ErrorCode.AGENT_PROTOCOL
            )
            return
        self._open[approval.id] = _Open(reply, withdraw, request_id)
        self._output.ask_approval(approval)


def _automatic_option(options: list[Option], permission: ToolPermission, *, lasting: bool) -> Option | None:
    """Return the option that a permission mode chooses. A lasting yes only if the mode allows everything."""
    if permission is ToolPermission.ALLOW:
        kinds = [OptionKind.ALLOW_ONCE, *([OptionKind.ALLOW_ALWAYS] if lasting else [])]
    else:
        kinds = [OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS]
    return next((option for kind in kinds for option in options if option.kind is kind), None)


def _answered(options: dict[str, Option], answer: Answer) -> Option | None:
    """Return the option that an answer stands for. None: the agent is told that the request was cancelled."""
    if answer.option_id is not None:
        return options.get(answer.option_id)
    if answer.outcome.allows:
        return None
    return _automatic_option([*options.values()], ToolPermission.DENY, lasting=False)
