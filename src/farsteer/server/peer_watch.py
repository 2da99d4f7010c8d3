"""Finds out that the client of a websocket is gone without a word."""

from __future__ import annotations

import asyncio
import sys

from farsteer.server.timer import Timer
from farsteer.server.uvicorn_protocols import WebSocketConnection

_PING, _GIVE_UP = 1, 3
"""What happens after so many checks in a row without a sign of life."""


class PeerWatch:
    """Checks every `seconds` that the client of a protocol without a heartbeat is there, else aborts its connection.

    A client that sends nothing is pinged, and then has two more checks to answer. As long as it takes bytes that wait
    for it, more time is given: on a slow link its answer comes after everything that was sent before.
    """

    def __init__(self, connection: WebSocketConnection, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds
        self._timer = Timer(asyncio.get_running_loop())
        self._silent_checks = 0
        self._note()

    def close(self) -> None:
        """Idempotent."""
        self._timer.cancel()

    def _note(self) -> None:
        self._received = self._connection.received_bytes
        self._unsent = self._count_unsent()
        self._timer.start(self._seconds, self._check)

    def _check(self) -> None:
        connection = self._connection
        # The client is not to blame if the application reads nothing, unless that waits for the client to take bytes.
        is_unread = connection.read_paused and not connection.buffered_bytes
        if is_unread or connection.received_bytes != self._received:
            self._silent_checks = 0
        elif 0 < self._count_unsent() < self._unsent:
            self._silent_checks = min(self._silent_checks, _PING)
        else:
            self._silent_checks += 1
        if self._silent_checks == _GIVE_UP:
            connection.log_bad_input("answers no pings")
            connection.abort()
            return
        if self._silent_checks == _PING:
            connection.ping()
        self._note()

    def _count_unsent(self) -> int:
        return self._connection.buffered_bytes + _untaken_bytes(self._connection.transport)


def _untaken_bytes(transport: asyncio.Transport) -> int:
    """Return how many bytes the system has for the peer, which has not acknowledged them; 0 where it does not say."""
    if sys.platform != "linux":
        return 0
    import fcntl
    import termios

    count = bytearray(4)
    try:
        fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, count)
    except (AttributeError, OSError):
        return 0
    return int.from_bytes(count, sys.byteorder)
