"""How many bytes of large messages may be under way on a link, so that a short message does not wait behind them.

The buffers of kernels and proxies hold megabytes. Bytes that are in them cannot be overtaken, and on a slow link they
take minutes. So the sender puts a mark into its stream every few kilobytes, the receiver sends each mark back, and the
sender stops when too many bytes are unconfirmed. The limit follows the time that marks take: a fast link gets
megabytes, a slow one about a third of a second.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from farsteer.link.transport import LinkClosed

_FIRST_SIZE = 32 * 1024
_MIN_SIZE = 16 * 1024
_MAX_SIZE = 4 * 1024 * 1024
_MAX_CHUNK = 64 * 1024

_SHORT_DELAY = 0.15
_LONG_DELAY = 0.35
"""Seconds that marks may wait behind other bytes. Half of the long delay is not a short one plus noise: the size would
go up and down for ever otherwise."""
_MAX_ROUND_TRIP = 0.6
"""Slower links are taken for busy ones. The first mark may have waited for something else than the link."""


class _Mark(Struct, frozen=True):
    number: int
    position: int
    sent_at: float
    is_full: bool
    """Whether the window kept the sender from sending more."""


class Window:
    """Counts the bytes of one direction. Times are in seconds of any clock."""

    def __init__(self) -> None:
        self.size = _FIRST_SIZE
        self._sent = 0
        self._read = 0
        self._marked = 0
        self._marks: deque[_Mark] = deque()
        self._last_mark = 0
        self._first_of_round = 0
        """The size changes once for each round trip: marks sent before the last change say nothing about it."""
        self._round_trip = _MAX_ROUND_TRIP

    @property
    def chunk(self) -> int:
        """How many bytes to send at a time."""
        return min(self.size // 4, _MAX_CHUNK)

    @property
    def is_full(self) -> bool:
        return self._sent - self._read >= self.size

    @property
    def is_mark_due(self) -> bool:
        return self._sent - self._marked >= self.chunk

    @property
    def unread(self) -> int | None:
        """None if the other end has sent back all marks; otherwise what changes when it sends back one."""
        return self._marks[0].number if self._marks else None

    def add(self, size: int) -> None:
        """Count bytes that are being sent."""
        self._sent += size

    def mark(self, now: float) -> int:
        """Return the number of a mark to send now."""
        self._last_mark += 1
        self._marked = self._sent
        self._marks.append(_Mark(self._last_mark, self._sent, now, 2 * (self._sent - self._read) > self.size))
        return self._last_mark

    def confirm(self, number: int, now: float) -> None:
        """The other end has read everything up to a mark. Raises LinkClosed if it is not the next one."""
        if not self._marks or self._marks[0].number != number:
            raise LinkClosed("received a mark that was not sent")
        mark = self._marks.popleft()
        self._read = mark.position
        taken = now - mark.sent_at
        self._round_trip = min(self._round_trip, taken)
        if number < self._first_of_round:
            return
        delay = taken - self._round_trip
        if delay > _LONG_DELAY and self.size > _MIN_SIZE:
            self.size = max(self.size // 2, _MIN_SIZE)
        elif delay < _SHORT_DELAY and mark.is_full and self.size < _MAX_SIZE:
            self.size = min(self.size * 2, _MAX_SIZE)
        else:
            return
        self._first_of_round = self._last_mark + 1
