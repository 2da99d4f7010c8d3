"""A road for link messages: what is beneath (memory, a websocket) is its own affair."""

from __future__ import annotations

import asyncio
from typing import Generic, Protocol, TypeVar

Out = TypeVar("Out", contravariant=True)
In = TypeVar("In", covariant=True)
A = TypeVar("A")
B = TypeVar("B")


class LinkClosed(Exception):
    """The other end is gone."""


class Transport(Protocol[Out, In]):
    async def send(self, message: Out) -> None:
        """Hand over `message`; waits while the road is full. Raises LinkClosed."""
        ...

    async def receive(self) -> In:
        """The next message. Raises LinkClosed."""
        ...

    async def close(self) -> None: ...


class _Lane(Generic[A]):
    """One bounded direction of a memory link."""

    def __init__(self, size: int) -> None:
        self.queue: asyncio.Queue[A | None] = asyncio.Queue(size)
        self.closed = asyncio.Event()


class MemoryTransport(Generic[A, B]):
    def __init__(self, outgoing: _Lane[A], incoming: _Lane[B]) -> None:
        self._outgoing = outgoing
        self._incoming = incoming

    async def send(self, message: A) -> None:
        if self._outgoing.closed.is_set():
            raise LinkClosed
        await self._outgoing.queue.put(message)

    async def receive(self) -> B:
        message = await self._incoming.queue.get()
        if message is None:
            raise LinkClosed
        return message

    async def close(self) -> None:
        for lane in (self._outgoing, self._incoming):
            if lane.closed.is_set():
                continue
            lane.closed.set()
            while lane.queue.full():
                lane.queue.get_nowait()
            lane.queue.put_nowait(None)


def memory_pair(size: int = 256) -> tuple[MemoryTransport[A, B], MemoryTransport[B, A]]:
    """Two joined ends: what one sends the other receives."""
    forward: _Lane[A] = _Lane(size)
    backward: _Lane[B] = _Lane(size)
    return MemoryTransport(forward, backward), MemoryTransport(backward, forward)
