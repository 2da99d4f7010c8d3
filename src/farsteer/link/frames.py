"""Link messages as websocket frames: one binary frame of JSON for each message."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from farsteer.core.errors import TooLarge
from farsteer.core.wire import encode
from farsteer.link.messages import MAX_FRAME, ToHub, ToRunner
from farsteer.link.transport import LinkClosed

T = TypeVar("T")

_to_hub = msgspec.json.Decoder(ToHub)
_to_runner = msgspec.json.Decoder(ToRunner)


def encode_frame(message: ToHub | ToRunner) -> bytes:
    """Return the message as a frame. Raises TooLarge for a frame that the other end would not accept."""
    frame = encode(message)
    if len(frame) > MAX_FRAME:
        raise TooLarge("a link message is too large", limit=MAX_FRAME, size=len(frame))
    return frame


def decode_at_hub(frame: bytes | str) -> ToHub:
    return _read(frame, _to_hub)


def decode_at_runner(frame: bytes | str) -> ToRunner:
    return _read(frame, _to_runner)


def _read(frame: bytes | str, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LinkClosed(f"received an invalid link message: {error}") from error
