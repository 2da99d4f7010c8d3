"""The live connections of clients: how many a namespace may have, and how much may wait for those that do not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from farsteer.core.errors import ErrorCode, RateLimited
from farsteer.hub.metrics import Metrics
from farsteer.hub.settings import Limits


class Sockets:
    """Counts the open live connections of each namespace: Socket.IO, server-sent events and editors.

    Counts are kept in this process. With a second hub each of them would allow as many.
    """

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.sockets
        self._open: Counter[str] = Counter()

    def count(self, namespace: str) -> int:
        return self._open[namespace]

    def check(self, namespace: str) -> None:
        """Raise RateLimited if no more connection may be opened."""
        if self._open[namespace] >= self._limit:
            raise RateLimited(
                f"this namespace has {self._limit} live connections already; close some, "
                "or raise limits.sockets in hub.toml",
                code=ErrorCode.TOO_MANY_SOCKETS,
                limit=self._limit,
            )

    def add(self, namespace: str) -> None:
        self._open[namespace] += 1

    def remove(self, namespace: str) -> None:
        self._open[namespace] -= 1
        if not self._open[namespace]:
            del self._open[namespace]

    @contextmanager
    def opened(self, namespace: str) -> Generator[None]:
        """Count a connection inside the block."""
        self.add(namespace)
        try:
            yield
        finally:
            self.remove(namespace)


class Reader(Protocol):
    @property
    def buffered_bytes(self) -> int:
        """The number of bytes that wait for it."""
        ...

    def cut_off(self) -> None:
        """Disconnect it. It can resume from its cursor."""
        ...


class SlowReaders:
    """Bounds what waits for readers that are behind, over all connections: the one with most is cut off.

    Only readers that are behind are counted, and only when something more is sent to them, so that delivery to the
    others costs nothing.
    """

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self._limit = limits.buffered_bytes
        self._metrics = metrics
        self._waiting: dict[Reader, int] = {}

    def update(self, reader: Reader) -> None:
        """Count what waits for a reader that is behind, and cut off the slowest if it is too much in all."""
        self._measure(reader)
        if self._metrics.buffered_bytes <= self._limit:
            return
        # Some have read meanwhile.
        for other in self._waiting:
            self._measure(other)
        while self._metrics.buffered_bytes > self._limit and self._waiting:
            slowest = max(self._waiting, key=self._waiting.__getitem__)
            self.remove(slowest)
            slowest.cut_off()

    def remove(self, reader: Reader) -> None:
        """The reader has caught up, or its connection has ended. Idempotent."""
        self._metrics.buffered_bytes -= self._waiting.pop(reader, 0)

    def _measure(self, reader: Reader) -> None:
        size = reader.buffered_bytes
        self._metrics.buffered_bytes += size - self._waiting.get(reader, 0)
        self._waiting[reader] = size
