"""Link messages as websocket frames: one binary frame of JSON for each message."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import TypeVar, get_args

import msgspec

from farsteer.core.errors import AgentError, ErrorCode, TooLarge
from farsteer.core.json_limits import JsonLimits, check_limits, scan
from farsteer.core.wire import decode_with, encode
from farsteer.link.messages import (
    MAX_FRAME,
    Deltas,
    EncodedEntry,
    Events,
    LinkMessage,
    Reply,
    ToHub,
    ToRunner,
    UnknownCall,
    UnknownMessage,
)
from farsteer.link.transport import LinkClosed

_logger = logging.getLogger(__name__)

T = TypeVar("T")

# More than what clients and agents may send, because runner and hub wrap and collect that. An honest runner is never
# refused: it would send the same again over the next link. The entries of a log are checked one by one when they are
# stored.
_LIMITS = JsonLimits(depth=128, values=250_000)
_DELTA_LIMITS = JsonLimits(depth=128, values=60_000)
_MAX_ENTRIES = 10_000
_ENTRY_LIMITS = JsonLimits(depth=sys.maxsize, values=4 * _MAX_ENTRIES, counted_depth=3)
"""Four values for each entry: itself, its number, kind and body. What is in the body is not decoded."""
_LONG_FRAME_BYTES = 60_000
"""Shorter frames cannot have more values than allowed."""

_to_hub = msgspec.json.Decoder(ToHub)
_to_runner = msgspec.json.Decoder(ToRunner)
_HUB_KINDS = frozenset(kind.__struct_config__.tag for kind in get_args(ToHub))
_RUNNER_KINDS = frozenset(kind.__struct_config__.tag for kind in get_args(ToRunner))
_MAX_KIND = 100


def encode_frame(message: ToHub | ToRunner) -> bytes:
    """Return the message as a frame. Raises TooLarge for a frame that the other end would not accept."""
    frame = encode(message)
    if len(frame) > MAX_FRAME:
        raise TooLarge("a link message is too large", limit=MAX_FRAME, size=len(frame))
    return frame


class _StateOfEvents(msgspec.Struct, frozen=True):
    state: msgspec.Raw = msgspec.Raw()


_state_decoder = msgspec.json.Decoder(_StateOfEvents)


def check_at_hub(frame: bytes) -> Iterator[None]:
    """Look through a long frame in short steps, before `decode_at_hub`. Raises LinkClosed if it has too many values."""
    if len(frame) <= _LONG_FRAME_BYTES:
        return
    try:
        if frame.startswith(b'{"t":"events"'):
            if frame.count(b"[") > _MAX_ENTRIES:  # each entry is an array
                yield from scan(frame, _ENTRY_LIMITS)
            state = bytes(decode_with(_state_decoder, frame).state)
            yield
            yield from scan(state, _LIMITS)
        elif frame.startswith(b'{"t":"deltas"'):
            yield from scan(frame, _DELTA_LIMITS)
        elif frame.startswith(b'{"t":'):
            yield from scan(frame, _LIMITS)
        else:
            raise LinkClosed("received a long link message that does not begin with its type")
    except msgspec.DecodeError as error:
        raise _invalid(error) from error


class _Reply(LinkMessage, tag="reply"):
    id: int
    error: object = None


class _Error(msgspec.Struct, frozen=True):
    message: str


class _Events(LinkMessage, tag="events"):
    session: str
    entries: list[EncodedEntry] = msgspec.field(name="items")


class _Deltas(LinkMessage, tag="deltas"):
    session: str


_Essentials = _Reply | _Events | _Deltas
_essentials: msgspec.json.Decoder[_Essentials] = msgspec.json.Decoder(_Essentials)
"""Decodes what must be known of a message to go on if its other fields are not as expected."""


def decode_at_hub(frame: bytes) -> ToHub:
    """Decode a message of a runner.

    A runner may be newer than the hub, or faulty. A field that cannot be decoded does not end the link: the call that
    an answer belongs to fails, a state is left out, deltas are dropped. Raises LinkClosed if that is not enough.
    """
    try:
        message = decode_with(_to_hub, frame)
        if frame.count(b"[") + frame.count(b"{") > _LIMITS.depth:
            _check_depth(frame, message)
    except msgspec.ValidationError as error:
        kind = _kind_of(frame)
        if kind not in _HUB_KINDS:
            return UnknownMessage(kind)
        return _without_invalid_fields(_read(frame, _essentials), error)
    except msgspec.DecodeError as error:
        raise _invalid(error) from error
    return message


def _check_depth(frame: bytes, message: ToHub) -> None:
    """Raises JsonTooComplex for what would break those who read it later."""
    if not isinstance(message, Events):
        check_limits(frame, _LIMITS)
    elif message.state is not None:
        # A queue and commands are long, and flat by their types.
        check_limits(encode(msgspec.structs.replace(message.state, queue=(), commands=())), _LIMITS)


def _without_invalid_fields(known: _Essentials, fault: msgspec.ValidationError) -> ToHub:
    if isinstance(known, _Reply):
        try:
            message = msgspec.convert(known.error, _Error).message
        except msgspec.ValidationError:
            message = f"the machine's answer is not valid: {fault}"
        return Reply(id=known.id, error=AgentError(message, code=ErrorCode.AGENT_PROTOCOL).record())
    if isinstance(known, _Events):
        _logger.warning("session %s: its state cannot be decoded: %s", known.session, fault)
        return Events(session=known.session, entries=known.entries)
    return Deltas(session=known.session, deltas=[])


class _Kind(msgspec.Struct, frozen=True):
    t: str


class _Call(LinkMessage, tag="call"):
    id: int


_kind_decoder = msgspec.json.Decoder(_Kind)
_call_decoder = msgspec.json.Decoder(_Call)


def _kind_of(frame: bytes | str) -> str:
    """Raises LinkClosed if the frame is not a link message of any version."""
    return _read(frame, _kind_decoder).t[:_MAX_KIND]


def decode_at_runner(frame: bytes | str) -> ToRunner:
    """Decode a message of a hub.

    A hub may be newer than the runner. A message of an unknown kind, or a call with a command that cannot be decoded,
    does not end the link. Raises LinkClosed for anything else that cannot be decoded.
    """
    try:
        return decode_with(_to_runner, frame)
    except msgspec.ValidationError as error:
        kind = _kind_of(frame)
        if kind not in _RUNNER_KINDS:
            return UnknownMessage(kind)
        if kind == "call":
            return UnknownCall(_read(frame, _call_decoder).id, str(error))
        raise _invalid(error) from error
    except msgspec.DecodeError as error:
        raise _invalid(error) from error


def _read(frame: bytes | str, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decode_with(decoder, frame)
    except msgspec.DecodeError as error:
        raise _invalid(error) from error


def _invalid(error: msgspec.DecodeError) -> LinkClosed:
    return LinkClosed(f"received an invalid link message: {error}")
