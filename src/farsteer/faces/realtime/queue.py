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
        self.on_writable: Callable[[], None] | None = None

    @property
    def behind(self) -> bool:
        return self.size > self._soft

    async def get(self) -> Packet | None:
        self._taken = 0
        if self.empty():
            self.idle = True
        return await super().get()

    def get_nowait(self) -> Packet | None:
        if self._taken >= POLLED_PACKETS:
            raise QueueEmpty
        packet = super().get_nowait()
        self._taken += 1
        was_behind = self.behind
        self.size -= _length(packet)
        if was_behind and not self.behind and self.on_writable is not None:
            # Soon, not now: the reader is in the middle of taking packets.
            asyncio.get_running_loop().call_soon(self.on_writable)
        return packet

    def put_nowait(self, item: Packet | None) -> None:
        self.idle = False
        self.size += _length(item)
        super().put_nowait(item)


def _length(packet: Packet | None) -> int:
    return len(packet.data) if packet is not None and isinstance(packet.data, str) else 0
