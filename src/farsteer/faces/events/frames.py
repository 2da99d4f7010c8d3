"""Batches of events, and their encodings for websockets and for Server-Sent Events.

The feed has encoded the JSON of each event already; the encoders only add the envelope.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from farsteer.hub.feed import SyncEvent, cursor_text

T = TypeVar("T")
Encoder = Callable[[Sequence[SyncEvent]], T]

NAMESPACE = "/events"
"""The Socket.IO namespace."""
EVENT_PREFIX = f'2{NAMESPACE},["event",'
"""The start of a Socket.IO packet with the event name `event`; the JSON of the event and `]` follow."""

_TEXT_FRAME = 0x81
_MESSAGE_PREFIX = f"4{EVENT_PREFIX}".encode()


class Batch:
    """The events of one loop tick for all clients with the same filter. Each encoding is made once and shared."""

    def __init__(self, events: Sequence[SyncEvent]) -> None:
        self.events = events
        self.first_cursor = sys.maxsize
        """The cursor of the first stored event; larger than every cursor if no event is stored."""
        self.last_cursor = 0
        """The cursor of the last stored event; 0 if no event is stored."""
        for event in events:
            if event.cursor is not None:
                self.first_cursor = min(self.first_cursor, event.cursor)
                self.last_cursor = event.cursor
        self._encoded: dict[Encoder[Any], Any] = {}

    def encoded(self, encoder: Encoder[T]) -> T:
        """Return `encoder(events)`, computed at most once per encoder."""
        result = self._encoded.get(encoder)
        if result is None:
            result = self._encoded[encoder] = encoder(self.events)
        return result

    @cached_property
    def size(self) -> int:
        """The total bytes of JSON."""
        return sum(len(event.data) for event in self.events)

    @cached_property
    def stored(self) -> Batch:
        """The batch without transient events."""
        stored = [event for event in self.events if event.cursor is not None]
        return self if len(stored) == len(self.events) else Batch(stored)

    @cached_property
    def states(self) -> dict[str, SyncEvent]:
        """The transient events of which only the latest matters, by merge key.

        Deltas are not among them: the complete message follows as a stored event.
        """
        return {
            event.merge_key: event
            for event in self.events
            if event.merge_key is not None and event.cursor is None and event.type != "message-delta"
        }

    def after(self, cursor: int) -> Batch:
        """Return the batch without stored events up to `cursor`."""
        if self.first_cursor > cursor:
            return self
        return Batch([event for event in self.events if event.cursor is None or event.cursor > cursor])


def text_frame_header(payload_size: int) -> bytes:
    """Return the header of an unmasked websocket text frame."""
    if payload_size < 126:
        return bytes((_TEXT_FRAME, payload_size))
    if payload_size < 65536:
        return struct.pack("!BBH", _TEXT_FRAME, 126, payload_size)
    return struct.pack("!BBQ", _TEXT_FRAME, 127, payload_size)


def encode_websocket_frames(events: Sequence[SyncEvent]) -> bytes:
    """Encode each event as a websocket frame with a Socket.IO event, joined for one write."""
    parts: list[bytes] = []
    for event in events:
        data = event.data
        parts += (text_frame_header(len(_MESSAGE_PREFIX) + len(data) + 1), _MESSAGE_PREFIX, data, b"]")
    return b"".join(parts)


def encode_http_chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def encode_sse_chunk(events: Sequence[SyncEvent]) -> bytes:
    """Encode events as one chunk of a text/event-stream. Stored events have an id to resume from."""
    return encode_http_chunk(b"".join(_encode_sse_event(event) for event in events))


def _encode_sse_event(event: SyncEvent) -> bytes:
    if event.cursor is None:
        return b"data: %b\n\n" % _without_line_breaks(event.data)
    id = cursor_text(event.epoch, event.cursor).encode()
    return b"id: %b\ndata: %b\n\n" % (id, _without_line_breaks(event.data))


def encode_sse_event(name: str, data: bytes, id: str | None = None) -> bytes:
    """Encode one named event as a chunk."""
    start = f"event: {name}\n" if id is None else f"event: {name}\nid: {id}\n"
    return encode_http_chunk(b"%bdata: %b\n\n" % (start.encode(), data))


def _without_line_breaks(data: bytes) -> bytes:
    # A runner may send JSON with line breaks between tokens; they would end the SSE field.
    if b"\n" in data or b"\r" in data:
        return data.replace(b"\n", b" ").replace(b"\r", b" ")
    return data
