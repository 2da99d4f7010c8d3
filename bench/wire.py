"""The few bytes of HTTP and WebSocket that the clients of a benchmark need, so that they cost next to nothing."""

from __future__ import annotations

import re
import time

HOST = "127.0.0.1"
TEXT_BYTES = 300
"""The size of a message's text."""

MARK = re.compile(rb"~(\d{8})~(\d{19})~")
"""A message's number and the wall clock's nanoseconds at its birth, at the end of its text: a summary that quotes the
beginning of a message is no second delivery of it."""
MARK_BYTES = 30

EIO_PING = b"\x81\x012"
"""A whole WebSocket frame from the server: the Engine.IO packet `2`."""


def text(number: int, born: int | None = None) -> str:
    """The text of message `number`, born now or at `born`."""
    mark = f"~{number:08d}~{time.time_ns() if born is None else born:019d}~"
    return "x" * (TEXT_BYTES - len(mark)) + mark


class Pace:
    """When each message of a paced run is due. It is born when it is due: a sender that is late hides nothing."""

    def __init__(self, rate: float) -> None:
        self._interval = int(1e9 / rate)
        self._begin = time.time_ns()

    def born(self, number: int) -> int:
        return self._begin + number * self._interval

    def wait(self, number: int) -> float:
        """Seconds until it is due."""
        return max(0.0, (self.born(number) - time.time_ns()) / 1e9)


def get(port: int, path: str, token: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nAuthorization: Bearer {token}\r\n"
        "Accept: text/event-stream\r\n\r\n"
    ).encode()


def upgrade(port: int) -> bytes:
    """Open Engine.IO straight on a websocket; no extension is offered, so nothing is compressed."""
    return (
        f"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: {HOST}:{port}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    ).encode()


def frame(payload: bytes) -> bytes:
    """A client's text frame. Its mask is zero, which leaves the payload as it is."""
    size = len(payload)
    if size < 126:
        head = bytes((0x81, 0x80 | size))
    elif size < 65536:
        head = b"\x81\xfe" + size.to_bytes(2, "big")
    else:
        head = b"\x81\xff" + size.to_bytes(8, "big")
    return head + b"\0\0\0\0" + payload
