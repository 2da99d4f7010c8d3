"""A road for link messages: what is beneath (memory, a websocket) is its own affair."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Generic, NoReturn, Protocol, TypeVar

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


class _MemoryChannel(Generic[A]):
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
    def __init__(self, outgoing: _MemoryChannel[A], incoming: _MemoryChannel[B]) -> None:
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
    forward: _MemoryChannel[A] = _MemoryChannel(size)
    backward: _MemoryChannel[B] = _MemoryChannel(size)
    return MemoryTransport(forward, backward), MemoryTransport(backward, forward)


class IdleTimeoutReceiver(Generic[A]):
    """One end's hearing. `watch` runs beside it: one timer for the whole life of a link, none for each message."""

    def __init__(self, transport: Transport[Any, A], patience: float) -> None:
        self._transport = transport
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._since: float | None = None
        """Since when we have been waiting; while we are busy with what we heard, silence is ours."""

    async def receive(self) -> A:
        """The next message. Raises LinkClosed."""
        self._since = self._loop.time()
        try:
            return await self._transport.receive()
        finally:
            self._since = None

    async def watch(self) -> NoReturn:
        """Raises LinkClosed once `receive` has waited for too long."""
        while True:
            since = self._loop.time() if self._since is None else self._since
            left = since + self._patience - self._loop.time()
            if left <= 0:
                raise self._silent()
            await asyncio.sleep(left)

    async def first(self) -> A:
        """The message a link begins with, when nobody watches yet. Raises LinkClosed."""
        try:
            async with asyncio.timeout(self._patience):
                return await self._transport.receive()
        except TimeoutError:
            raise self._silent() from None

    def _silent(self) -> LinkClosed:
        return LinkClosed(f"silent for {self._patience:g} s")
