"""The outgoing packets of a Socket.IO client."""

from __future__ import annotations

import asyncio
from asyncio import Queue, QueueEmpty
from collections.abc import Callable
from typing import Any

from farsteer.faces.events.packets import POLLED_PACKETS


class PacketQueue(Queue[Any]):
    """Engine.IO packets for a client. None ends its reader."""

    def __init__(self, soft_limit: int) -> None:
        super().__init__()
        self._soft_limit = soft_limit
        self._taken = 0
        self.size = 0
        """The number of queued characters."""
        self.is_idle = False
        """Whether the queue is empty and its reader waits for more, having written everything it took."""
        self.is_behind = False
        """Whether more characters than the soft limit are queued."""
        self.on_writable: Callable[[], None] | None = None
        """Called when `is_behind` has become False."""
        self._last: Any = None

    def end_with(self, packet: Any) -> None:
        """Queue a last packet, which the reader gets alone, when it comes for more than is queued now."""
        if self.is_idle:
            self.put_nowait(packet)
        else:
            self._last = packet

    async def get(self) -> Any:
        self._taken = 0
        if self.empty():
            if self._last is None:
                self.is_idle = True
            else:
                self.put_nowait(self._last)
                self._last = None
        return await super().get()

    def get_nowait(self) -> Any:
        if self._taken >= POLLED_PACKETS:
            raise QueueEmpty
        packet = super().get_nowait()
        self._taken += 1
        self.size -= _length(packet)
        if self.is_behind and self.size <= self._soft_limit:
            self.is_behind = False
            if self.on_writable is not None:
                # Later, because the reader is in the middle of taking packets.
                asyncio.get_running_loop().call_soon(self.on_writable)
        return packet

    def put_nowait(self, item: Any) -> None:
        self.is_idle = False
        self.size += _length(item)
        self.is_behind = self.size > self._soft_limit
        super().put_nowait(item)


def _length(packet: Any) -> int:
    data = None if packet is None else packet.data
    return len(data) if isinstance(data, str) else 0
