"""Events as bytes for each wire. Their JSON was encoded by the feed; here it only gets its envelope."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from engineio.packet import MESSAGE, Packet

from farsteer.hub.feed import SyncEvent, cursor_text

NAMESPACE = "/events"

_TEXT = 0x81
_EVENT = f'2{NAMESPACE},["event",'
_PREFIX = f"4{_EVENT}".encode()


def websocket_text(payload_size: int) -> bytes:
    """The header of an unmasked text frame."""
    if payload_size < 126:
        return bytes((_TEXT, payload_size))
    if payload_size < 65536:
        return struct.pack("!BBH", _TEXT, 126, payload_size)
    return struct.pack("!BBQ", _TEXT, 127, payload_size)


def websocket_frames(events: Sequence[SyncEvent]) -> bytes:
    """One websocket frame per event, joined for one write."""
    parts: list[bytes] = []
    for event in events:
        data = event.data
        parts += (websocket_text(len(_PREFIX) + len(data) + 1), _PREFIX, data, b"]")
    return b"".join(parts)


def engine_packets(events: Sequence[SyncEvent]) -> list[Packet]:
    """One Engine.IO packet per event, for clients that poll and sockets that are busy; each encodes itself once."""
    return [Packet(MESSAGE, f"{_EVENT}{event.data.decode()}]") for event in events]


def engine_event(name: str, data: bytes) -> Packet:
    return Packet(MESSAGE, f'2{NAMESPACE},["{name}",{data.decode()}]')


def http_chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


class SseEncoder:
    """Events of one store as chunks of a text/event-stream. Only what is stored has an id to resume from."""

    def __init__(self, epoch: str) -> None:
        self._epoch = epoch

    def __call__(self, events: Sequence[SyncEvent]) -> bytes:
        return http_chunk(b"".join(self._event(event) for event in events))

    def _event(self, event: SyncEvent) -> bytes:
        if event.cursor is None:
            return b"data: %b\n\n" % _one_line(event.data)
        return b"id: %b\ndata: %b\n\n" % (
            cursor_text(self._epoch, event.cursor).encode(),
            _one_line(event.data),
        )


def sse_named(name: str, data: bytes, id: str | None = None) -> bytes:
    start = f"event: {name}\n" if id is None else f"event: {name}\nid: {id}\n"
    return http_chunk(b"%bdata: %b\n\n" % (start.encode(), data))


def _one_line(data: bytes) -> bytes:
    # A runner may send JSON with line breaks between its tokens; they would end the SSE field.
    if b"\n" in data or b"\r" in data:
        return data.replace(b"\n", b" ").replace(b"\r", b" ")
    return data
