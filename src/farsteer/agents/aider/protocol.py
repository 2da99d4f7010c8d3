"""The lines of the worker. Only this package speaks it, so both ends are always of the same version."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from farsteer.core.events import SlashCommand, ToolStatus, TurnEndReason
from farsteer.core.modes import ToolKind
from farsteer.core.wire import WireStruct, decode_with, encode

_SHOWN_BYTES = 300


def _tag(class_name: str) -> str:
    """Return the `type` of a line: `tool_output` for ToolOutput."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in class_name).strip("_")


class _Line(WireStruct, tag_field="type", tag=_tag, kw_only=True):
    pass


class Hello(_Line):
    """The conversation is open."""

    session: str
    version: str
    model: str
    stored: bool
    """The conversation has a turn already."""
    commands: tuple[SlashCommand, ...] = ()


class Failed(_Line):
    """The conversation cannot be opened."""

    reason: str
    message: str


class Reply(_Line):
    """The answer to a request."""

    id: int
    reason: str | None = None
    error: str | None = None


class Delta(_Line):
    kind: Literal["message", "thought"]
    message: str
    text: str


class Message(_Line):
    message: str
    text: str
    anchor: str
    partial: bool = False


class Thought(_Line):
    message: str
    text: str


class Diff(WireStruct):
    path: str
    new: str
    old: str | None = None


class Tool(_Line):
    call: str
    tool: str
    kind: ToolKind
    title: str
    status: ToolStatus
    input: dict[str, Any] = {}
    path: str | None = None
    diff: Diff | None = None
    text: str | None = None


class ToolOutput(_Line):
    call: str
    text: str


class ToolUpdate(_Line):
    call: str
    status: ToolStatus
    diff: Diff | None = None
    text: str | None = None
    partial: bool = False
    """The call gets what it has put out as its content."""


class Ask(_Line):
    """aider wants to do something, and waits for an answer."""

    ask: str
    kind: ToolKind
    tool: str
    title: str
    arguments: dict[str, Any] = {}
    call: str | None = None
    inside: bool = False
    """It concerns a file of the session's directory."""


class Notice(_Line):
    level: str
    text: str


class Usage(_Line):
    input: int
    output: int
    cache_read: int = 0
    cost: float | None = None
    model: str | None = None
    size: int | None = None
    used: int | None = None


class End(_Line):
    anchor: str
    reason: TurnEndReason
    error: str | None = None


Known = (
    Hello
    | Failed
    | Reply
    | Delta
    | Message
    | Thought
    | Tool
    | ToolOutput
    | ToolUpdate
    | Ask
    | Notice
    | Usage
    | End
)


class Unknown(NamedTuple):
    """A JSON object of an unknown kind."""

    kind: str
    data: dict[str, Any]


class Garbage(NamedTuple):
    """A line that is not part of the protocol."""

    text: str


_decoder = msgspec.json.Decoder(Known)
_any_decoder = msgspec.json.Decoder(dict[str, Any])


def decode_line(line: bytes) -> Known | Unknown | Garbage:
    try:
        return decode_with(_decoder, line)
    except msgspec.DecodeError:
        pass
    try:
        data = decode_with(_any_decoder, line)
    except msgspec.DecodeError:
        data = {}
    kind = data.get("type")
    if isinstance(kind, str) and kind not in _KINDS:
        return Unknown(kind, data)
    return Garbage(line[:_SHOWN_BYTES].decode(errors="replace"))


_KINDS = frozenset(str(kind.__struct_config__.tag) for kind in Known.__args__)


def encode_request(request_id: int, do: str, fields: dict[str, Any]) -> bytes:
    return encode_line(do, id=request_id, **fields)


def encode_line(do: str, **fields: Any) -> bytes:
    return encode({"do": do, **fields}) + b"\n"
