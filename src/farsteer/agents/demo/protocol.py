"""The lines that the demo agent sends, and their translation to events.

A line with only known fields is decoded in one step. Any other line is decoded leniently, so that nothing is lost: an
unknown kind is kept whole, an unknown field is kept in `meta`.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from farsteer.agents.turns import TurnOutput
from farsteer.core.approvals import Approval, ApprovalKind, Option, Question
from farsteer.core.clock import now_ms
from farsteer.core.errors import ErrorCode
from farsteer.core.events import (
    CommandsUpdate,
    DeltaKind,
    DiffBlock,
    FileRestore,
    Location,
    ModeUpdate,
    Other,
    Plan,
    PlanEntry,
    SlashCommand,
    TextBlock,
    TitleUpdate,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
    UsageUpdate,
)
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode, ToolKind
from farsteer.core.wire import WireStruct


def _tag(class_name: str) -> str:
    """Return the `type` of a line: `hello` for HelloLine."""
    return class_name.removesuffix("Line").lower()


class AgentLine(WireStruct, tag_field="type", tag=_tag, forbid_unknown_fields=True, kw_only=True):
    n: int | None = None
    """The number of the line, from 1. A repeated line repeats its number."""
    meta: dict[str, Any] | None = None
    """Unknown fields. Filled by `decode_line`, never sent."""


class HelloLine(AgentLine):
    session: str
    version: str
    messages: int
    commands: tuple[SlashCommand, ...]
    own: bool = False
    """The agent chose the id of the conversation itself."""


class Failed(AgentLine):
    reason: str
    message: str


class ReplyLine(AgentLine):
    id: int
    error: str | None = None


class DoneLine(AgentLine):
    id: int


class Restored(AgentLine):
    id: int
    status: FileRestore
    restored: tuple[str, ...]
    skipped: tuple[str, ...]
    reason: str | None = None


class MessageLine(AgentLine):
    message: str
    text: str
    anchor: str | None = None
    partial: bool = False


class Thought(AgentLine):
    message: str
    text: str
    anchor: str | None = None
    partial: bool = False


class DeltaLine(AgentLine):
    kind: Literal["message", "thought"]
    message: str
    text: str

    @property
    def delta_kind(self) -> DeltaKind:
        return DeltaKind.MESSAGE if self.kind == "message" else DeltaKind.THOUGHT


class Diff(WireStruct):
    path: str
    new: str
    old: str | None = None


class ToolLine(AgentLine):
    call: str
    tool: str
    kind: ToolKind
    title: str
    input: dict[str, Any]
    status: ToolStatus
    path: str | None = None
    diff: Diff | None = None


class ToolOutput(AgentLine, tag="tool_output"):
    call: str
    text: str


class ToolUpdate(AgentLine, tag="tool_update"):
    call: str
    status: ToolStatus
    text: str | None = None
    partial: bool = False


class Ask(AgentLine):
    ask: str
    kind: ApprovalKind
    title: str
    call: str | None = None
    tool: str | None = None
    tool_kind: ToolKind | None = None
    arguments: dict[str, Any] | None = None
    options: tuple[Option, ...] = ()
    questions: tuple[Question, ...] = ()
    plan: str | None = None


class Withdraw(AgentLine):
    ask: str


class PlanLine(AgentLine):
    entries: tuple[PlanEntry, ...]


class UsageLine(AgentLine):
    input: int
    output: int
    used: int
    size: int
    model: str


class Title(AgentLine):
    title: str


class Mode(AgentLine):
    mode: PermissionMode


class End(AgentLine):
    turn: str
    reason: TurnEndReason
    error: str | None = None


Known = (
    HelloLine | Failed | ReplyLine | DoneLine | Restored | MessageLine | Thought | DeltaLine | ToolLine | ToolOutput
    | ToolUpdate | Ask | Withdraw | PlanLine | UsageLine | Title | Mode | End
)  # fmt: skip


class Unknown(NamedTuple):
    """A JSON object of an unknown kind."""

    kind: str
    data: dict[str, Any]
    n: int | None


class Garbage(NamedTuple):
    """A line that is not part of the protocol."""

    text: str
    n: None = None


_decoder = msgspec.json.Decoder(Known)
_KINDS: dict[str, type[Known]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (
        HelloLine, Failed, ReplyLine, DoneLine, Restored, MessageLine, Thought, DeltaLine, ToolLine, ToolOutput,
        ToolUpdate, Ask, Withdraw, PlanLine, UsageLine, Title, Mode, End,
    )
}  # fmt: skip


def decode_line(line: bytes) -> Known | Unknown | Garbage:
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_leniently(line)


def _decode_leniently(line: bytes) -> Known | Unknown | Garbage:
    garbage = Garbage(line[:400].decode(errors="replace"))
    try:
        raw = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return garbage
    name = raw.get("type")
    if not isinstance(name, str):
        return garbage
    kind = _KINDS.get(name)
    if kind is None:
        number = raw.get("n")
        return Unknown(name, raw, number if isinstance(number, int) else None)
    known = {"type", *kind.__struct_encode_fields__} - {"meta"}
    unknown = {field: raw.pop(field) for field in [*raw] if field not in known}
    try:
        return msgspec.convert({**raw, "meta": unknown or None}, kind)
    except msgspec.ValidationError:
        return garbage


# Translation

Translatable = (
    MessageLine
    | Thought
    | DeltaLine
    | ToolLine
    | ToolOutput
    | ToolUpdate
    | PlanLine
    | UsageLine
    | Title
    | Mode
    | Unknown
    | Garbage
)
"""Lines that become outputs. The others are handled by the launch."""


def translate(line: Translatable, output: TurnOutput) -> None:
    """Add the outputs for a line to `output`."""
    match line:
        case MessageLine():
            output.add_message(line.message, line.text, line.anchor, partial=line.partial, meta=line.meta)
        case Thought():
            output.add_thought(line.message, line.text, line.anchor, partial=line.partial, meta=line.meta)
        case DeltaLine():
            output.add_delta(line.delta_kind, line.message, line.text)
        case ToolLine():
            output.add_event(_tool_call(line))
        case ToolOutput():
            output.add_delta(DeltaKind.TOOL_OUTPUT, line.call, line.text)
        case ToolUpdate():
            content = (TextBlock(text=line.text),) if line.text is not None else ()
            output.add_event(
                ToolCallUpdate(
                    tool_call_id=line.call, status=line.status, content=content, partial=line.partial, meta=line.meta
                )
            )  # fmt: skip
        case PlanLine():
            output.add_event(Plan(entries=line.entries, meta=line.meta))
        case UsageLine():
            output.add_event(_usage(line))
        case Title():
            output.add_event(TitleUpdate(title=line.title, meta=line.meta))
        case Mode():
            output.add_event(ModeUpdate(permission_mode=line.mode, meta=line.meta))
        case Unknown():
            output.add_event(Other(native_kind=line.kind, data=line.data))
        case Garbage():
            text = f"the agent wrote a line that is not a message: {line.text}"
            output.add_notice(text, ErrorCode.AGENT_PROTOCOL)


def commands_update(line: HelloLine) -> CommandsUpdate:
    return CommandsUpdate(commands=line.commands, meta=line.meta)


def make_approval(line: Ask, turn_id: str | None) -> Approval:
    return Approval(
        id=new_id(), kind=line.kind, title=line.title, created_at=now_ms(), turn_id=turn_id,
        tool_call_id=line.call, tool=line.tool, tool_kind=line.tool_kind, arguments=line.arguments,
        options=line.options, questions=line.questions, plan=line.plan, meta=line.meta,
    )  # fmt: skip


def _tool_call(line: ToolLine) -> ToolCall:
    diff = line.diff
    return ToolCall(
        tool_call_id=line.call, title=line.title, tool_kind=line.kind, status=line.status, tool=line.tool,
        input=line.input, locations=(Location(path=line.path),) if line.path else (), meta=line.meta,
        content=(DiffBlock(path=diff.path, new_text=diff.new, old_text=diff.old),) if diff else (),
    )  # fmt: skip


def _usage(line: UsageLine) -> UsageUpdate:
    return UsageUpdate(
        input_tokens=line.input, output_tokens=line.output, context_used=line.used, context_size=line.size,
        model=line.model, meta=line.meta,
    )  # fmt: skip
