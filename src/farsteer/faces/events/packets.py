"""What may come in from a Socket.IO client: few small packets, checked before the libraries look at them.

The libraries would log, ignore or half-process the rest. Here anything a Socket.IO 4 client would not say ends the
connection.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
from socketio import packet

_CONTROL = frozenset({"1", "2probe", "3", "5", "6"})
"""Close, probe, pong, upgrade, noop."""
_MESSAGES = frozenset({"40", "41", "42", "43"})
"""Connect, disconnect, event, ack. Nothing binary."""
_SEPARATOR = b"\x1e"
_RESERVED = frozenset({"connect", "connect_error", "disconnect", "disconnecting"})
HANG_UP = b"1"


def acceptable(text: str) -> bool:
    """Is this an Engine.IO packet that a client of ours sends?"""
    return text in _CONTROL or text[:2] in _MESSAGES


def checked_payload(body: bytes) -> bytes:
    """A polled payload, or the client's hanging up if there is anything wrong in it."""
    try:
        fine = all(acceptable(part.decode()) for part in body.split(_SEPARATOR))
    except UnicodeDecodeError:
        fine = False
    return body if fine else HANG_UP


class Json:
    """What the libraries want of a JSON module."""

    @staticmethod
    def dumps(value: Any, **_: Any) -> str:
        return msgspec.json.encode(value).decode()

    @staticmethod
    def loads(text: str) -> Any:
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError("not JSON") from error


class EventPacket(packet.Packet):
    """A Socket.IO packet. One that makes no sense raises ValueError."""

    json = Json
    uses_binary_events = False

    def decode(self, encoded_packet: str) -> int:
        attachments = super().decode(encoded_packet)
        data = cast("Any", self.data)
        if attachments or self.packet_type not in (
            packet.CONNECT,
            packet.DISCONNECT,
            packet.EVENT,
            packet.ACK,
        ):
            raise ValueError("an unexpected packet")
        if self.packet_type == packet.EVENT:
            name = cast("list[Any]", data)[0] if isinstance(data, list) and data else None
            if not isinstance(name, str) or name in _RESERVED:
                raise ValueError("not an event")
        return 0
