"""A road for link messages: what is beneath (memory, a websocket) is its own affair."""

from __future__ import annotations

import asyncio
from collections import deque
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
        self._size = size
        self._messages: deque[A] = deque()
        self._closed = False
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()

    async def put(self, message: A) -> None:
        while len(self._messages) >= self._size and not self._closed:
            self._emptied.clear()
            await self._emptied.wait()
        if self._closed:
            raise LinkClosed
        self._messages.append(message)
        self._filled.set()

    async def take(self) -> A:
        """What was put before the end is still there after it."""
        while not self._messages:
            if self._closed:
                raise LinkClosed
            self._filled.clear()
            await self._filled.wait()
        self._emptied.set()
        return self._messages.popleft()

    def close(self) -> None:
        self._closed = True
        self._filled.set()
        self._emptied.set()


class MemoryTransport(Generic[A, B]):
    def __init__(self, outgoing: _Lane[A], incoming: _Lane[B]) -> None:
        self._outgoing = outgoing
        self._incoming = incoming

    async def send(self, message: A) -> None:
        await self._outgoing.put(message)

    async def receive(self) -> B:
        return await self._incoming.take()

    async def close(self) -> None:
        self._outgoing.close()
        self._incoming.close()


def memory_pair(size: int = 256) -> tuple[MemoryTransport[A, B], MemoryTransport[B, A]]:
    """Two joined ends: what one sends the other receives."""
    forward: _Lane[A] = _Lane(size)
    backward: _Lane[B] = _Lane(size)
    return MemoryTransport(forward, backward), MemoryTransport(backward, forward)
