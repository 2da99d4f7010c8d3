"""Which packets of Engine.IO and Socket.IO a client may send, and how their JSON is read."""

from __future__ import annotations

from typing import Any

import msgspec

from farsteer.core.wire import decode_input

POLLED_PACKETS = 16
"""python-engineio closes the connection if a polled payload contains more, in both directions."""
CLOSE_PACKET = b"1"

_CONTROL_PACKETS = frozenset({"1", "2probe", "3", "5", "6"})
"""Engine.IO close, probe, pong, upgrade, noop."""
_MESSAGE_PREFIXES = frozenset({"40", "41", "42", "43"})
"""Socket.IO connect, disconnect, event, ack. Nothing binary."""
_SEPARATOR = b"\x1e"

_decoder = msgspec.json.Decoder()


def is_valid_packet(text: str) -> bool:
    """Whether a Socket.IO 4 client may send this Engine.IO packet."""
    return text in _CONTROL_PACKETS or text[:2] in _MESSAGE_PREFIXES


def check_payload(body: bytes) -> bytes:
    """Return a polled payload unchanged, or a close packet if any of its packets is invalid."""
    packets = body.split(_SEPARATOR)
    try:
        is_valid = len(packets) <= POLLED_PACKETS and all(is_valid_packet(part.decode()) for part in packets)
    except UnicodeDecodeError:
        is_valid = False
    return body if is_valid else CLOSE_PACKET


class JsonCodec:
    """msgspec with the interface of the `json` module that the libraries use."""

    @staticmethod
    def dumps(value: Any, **_: Any) -> str:
        return msgspec.json.encode(value).decode()

    @staticmethod
    def loads(text: str) -> Any:
        try:
            return decode_input(_decoder, text.encode())
        except msgspec.DecodeError as error:
            raise ValueError("not JSON") from error
