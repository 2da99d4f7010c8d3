"""Link messages as websocket frames: one binary frame of JSON for each message."""

from __future__ import annotations

import logging
from typing import TypeVar

import msgspec

from farsteer.core.errors import AgentError, ErrorCode, TooLarge
from farsteer.core.wire import encode
from farsteer.link.messages import (
    MAX_FRAME,
    Deltas,
    EncodedEntry,
    Events,
    LinkMessage,
    Reply,
    ToHub,
    ToRunner,
)
from farsteer.link.transport import LinkClosed

_logger = logging.getLogger(__name__)

T = TypeVar("T")

_to_hub = msgspec.json.Decoder(ToHub)
_to_runner = msgspec.json.Decoder(ToRunner)


def encode_frame(message: ToHub | ToRunner) -> bytes:
    """Return the message as a frame. Raises TooLarge for a frame that the other end would not accept."""
    frame = encode(message)
    if len(frame) > MAX_FRAME:
        raise TooLarge("a link message is too large", limit=MAX_FRAME, size=len(frame))
    return frame


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


def decode_at_hub(frame: bytes | str) -> ToHub:
    """Decode a message of a runner.

    A runner may be newer than the hub, or faulty. A field that cannot be decoded does not end the link: the call that
    an answer belongs to fails, a state is left out, deltas are dropped. Raises LinkClosed if that is not enough.
    """
    try:
        return _to_hub.decode(frame)
    except msgspec.ValidationError as error:
        return _without_invalid_fields(_read(frame, _essentials), error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LinkClosed(f"received an invalid link message: {error}") from error


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


def decode_at_runner(frame: bytes | str) -> ToRunner:
    return _read(frame, _to_runner)


def _read(frame: bytes | str, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LinkClosed(f"received an invalid link message: {error}") from error
