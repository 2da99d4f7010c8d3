"""The demo agent's lines as our side reads them: typed, and strict so that nothing it says is lost.

A line that has exactly the known fields takes the fast road. Anything else goes through `decode`'s second look, which
keeps an unknown kind whole and an unknown field in `meta`.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from farsteer.core.approvals import ApprovalKind, Option, Question
from farsteer.core.events import DeltaKind, FileRestore, PlanEntry, SlashCommand, ToolStatus, TurnEndReason
from farsteer.core.modes import PermissionMode, ToolKind
from farsteer.core.wire import WireStruct


class Line(WireStruct, tag_field="type", tag=str.lower, forbid_unknown_fields=True, kw_only=True):
    n: int | None = None
    """Rises by one with each line; a repeated line repeats it."""
    meta: dict[str, Any] | None = None
    """Fields we do not know. Filled by us, never sent."""


class Hello(Line):
    session: str
    version: str
    messages: int
    commands: tuple[SlashCommand, ...]
    own: bool = False
    """It has given the conversation a name of its own."""


class Failed(Line):
    reason: str
    message: str


class Reply(Line):
    id: int
    error: str | None = None


class Done(Line):
    id: int


class Restored(Line):
    id: int
    status: FileRestore
    restored: tuple[str, ...]
    skipped: tuple[str, ...]
    reason: str | None = None


class Message(Line):
    message: str
    text: str
    anchor: str | None = None
    partial: bool = False


class Thought(Line):
    message: str
    text: str
    anchor: str | None = None
    partial: bool = False


class DeltaLine(Line, tag="delta"):
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


class Tool(Line):
    call: str
    tool: str
    kind: ToolKind
    title: str
    input: dict[str, Any]
    status: ToolStatus
    path: str | None = None
    diff: Diff | None = None


class ToolOutput(Line, tag="tool_output"):
    call: str
    text: str


class ToolUpdate(Line, tag="tool_update"):
    call: str
    status: ToolStatus
    text: str | None = None


class Ask(Line):
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


class Withdraw(Line):
    ask: str


class PlanLine(Line, tag="plan"):
    entries: tuple[PlanEntry, ...]


class Usage(Line):
    input: int
    output: int
    used: int
    size: int
    model: str


class Title(Line):
    title: str


class Mode(Line):
    mode: PermissionMode


class End(Line):
    turn: str
    reason: TurnEndReason
    error: str | None = None


Known = (
    Hello | Failed | Reply | Done | Restored | Message | Thought | DeltaLine | Tool | ToolOutput | ToolUpdate | Ask
    | Withdraw | PlanLine | Usage | Title | Mode | End
)  # fmt: skip


class Unknown(NamedTuple):
    """A JSON object of a kind we have no word for."""

    kind: str
    data: dict[str, Any]
    n: int | None


class Garbage(NamedTuple):
    """A line that is no line of this protocol."""

    text: str
    n: None = None


_decoder = msgspec.json.Decoder(Known)
_KINDS: dict[str, type[Line]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (
        Hello, Failed, Reply, Done, Restored, Message, Thought, DeltaLine, Tool, ToolOutput, ToolUpdate, Ask,
        Withdraw, PlanLine, Usage, Title, Mode, End,
    )
}  # fmt: skip


def decode(line: bytes) -> Known | Unknown | Garbage:
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _second_look(line)


def _second_look(line: bytes) -> Known | Unknown | Garbage:
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
    strange = {field: raw.pop(field) for field in [*raw] if field not in known}
    try:
        return msgspec.convert({**raw, "meta": strange or None}, kind)  # pyright: ignore[reportReturnType]
    except msgspec.ValidationError:
        return garbage
