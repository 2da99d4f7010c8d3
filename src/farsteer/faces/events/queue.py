"""A client's outgoing Engine.IO packets."""

from __future__ import annotations

import asyncio
from asyncio import Queue, QueueEmpty
from collections.abc import Callable

from engineio.packet import Packet

POLLED_PACKETS = 16
"""More in one polled answer than python-engineio's client accepts would end its connection."""


class PacketQueue(Queue[Packet | None]):
    def __init__(self, soft: int) -> None:
        super().__init__()
        self._soft = soft
        self._taken = 0
        self.size = 0
        """Characters that wait."""
        self.idle = False
        """Empty, and whoever reads has come back for more."""
        self.behind = False
        self.on_idle: Callable[[], None] | None = None
        """Called when `idle` may have changed."""
        self.on_writable: Callable[[], None] | None = None

    async def get(self) -> Packet | None:
        self._taken = 0
        if self.empty():
            self._idle(True)
        return await super().get()

    def get_nowait(self) -> Packet | None:
        if self._taken >= POLLED_PACKETS:
            raise QueueEmpty
        packet = super().get_nowait()
        self._taken += 1
        self.size -= _length(packet)
        if self.behind and self.size <= self._soft:
            self.behind = False
            if self.on_writable is not None:
                # Soon, not now: the reader is in the middle of taking packets.
                asyncio.get_running_loop().call_soon(self.on_writable)
        return packet

    def put_nowait(self, item: Packet | None) -> None:
        if self.idle:
            self._idle(False)
        self.size += _length(item)
        self.behind = self.size > self._soft
        super().put_nowait(item)

    def _idle(self, idle: bool) -> None:
        self.idle = idle
        if self.on_idle is not None:
            self.on_idle()


def _length(packet: Packet | None) -> int:
    return len(packet.data) if packet is not None and isinstance(packet.data, str) else 0
