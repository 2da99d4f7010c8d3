"""The few bytes of HTTP and WebSocket that benchmark clients need, at very little cost."""

from __future__ import annotations

import re
import time

HOST = "127.0.0.1"
TEXT_BYTES = 300
"""The size of a message's text."""

MARK = re.compile(rb"~(\d{8})~(\d{19})~")
"""The number of a message and its time of creation in nanoseconds, at the end of its text. A summary that quotes the
beginning of a message is therefore not counted as a delivery."""
MARK_BYTES = 30

EIO_PING = b"\x81\x012"
"""A whole WebSocket frame from the server: the Engine.IO packet `2`."""


def text(number: int, born: int | None = None) -> str:
    """Return the text of message `number`, created now or at `born`."""
    mark = f"~{number:08d}~{time.time_ns() if born is None else born:019d}~"
    return "x" * (TEXT_BYTES - len(mark)) + mark


class Pace:
    """When each message of a paced run is due. Its time of creation is the due time, so a late sender is visible."""

    def __init__(self, rate: float) -> None:
        self._interval = int(1e9 / rate)
        self._begin = time.time_ns()

    def born(self, number: int) -> int:
        return self._begin + number * self._interval

    def wait(self, number: int) -> float:
        """Return the seconds until the message is due."""
        return max(0.0, (self.born(number) - time.time_ns()) / 1e9)


def get(port: int, path: str, token: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nAuthorization: Bearer {token}\r\n"
        "Accept: text/event-stream\r\n\r\n"
    ).encode()


def upgrade(port: int) -> bytes:
    """Return the request that opens Engine.IO on a websocket without compression."""
    return (
        f"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: {HOST}:{port}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    ).encode()


def frame(payload: bytes) -> bytes:
    """Return a client's text frame. The mask is zero, so the payload stays as it is."""
    size = len(payload)
    if size < 126:
        head = bytes((0x81, 0x80 | size))
    elif size < 65536:
        head = b"\x81\xfe" + size.to_bytes(2, "big")
    else:
        head = b"\x81\xff" + size.to_bytes(8, "big")
    return head + b"\0\0\0\0" + payload
