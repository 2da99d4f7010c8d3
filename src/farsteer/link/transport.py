"""Transports that carry link messages: the interface, the in-memory implementation and the idle timeout."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from farsteer.link.identity import token_digest

Out = TypeVar("Out", contravariant=True)
In = TypeVar("In", covariant=True)
A = TypeVar("A")
B = TypeVar("B")


class LinkClosed(Exception):
    """The link is closed or the other end is gone."""


class Transport(Protocol[Out, In]):
    """One end of a link."""

    @property
    def token_digest(self) -> bytes:
        """`link.identity.token_digest` of the access token that the link was opened with. Both ends know it."""
        ...

    async def send(self, message: Out) -> None:
        """Send a message. Waits while the transport is full. Raises LinkClosed."""
        ...

    async def receive(self) -> In:
        """Return the next message. Raises LinkClosed."""
        ...

    async def close(self) -> None: ...


class _MemoryChannel(Generic[A]):
    """One direction of an in-memory link, with a bounded buffer."""

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
        """Return the next message. Messages that were sent before the close are still returned."""
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
    """One end of a link inside one process."""

    def __init__(self, outgoing: _MemoryChannel[A], incoming: _MemoryChannel[B]) -> None:
        self._outgoing = outgoing
        self._incoming = incoming

    @property
    def token_digest(self) -> bytes:
        """No token is needed inside one process."""
        return token_digest("")

    async def send(self, message: A) -> None:
        await self._outgoing.put(message)

    async def receive(self) -> B:
        return await self._incoming.take()

    async def close(self) -> None:
        self._outgoing.close()
        self._incoming.close()


def memory_pair(size: int = 256) -> tuple[MemoryTransport[A, B], MemoryTransport[B, A]]:
    """Return two connected ends."""
    forward: _MemoryChannel[A] = _MemoryChannel(size)
    backward: _MemoryChannel[B] = _MemoryChannel(size)
    return MemoryTransport(forward, backward), MemoryTransport(backward, forward)


class IdleTimeoutReceiver(Generic[A]):
    """Receives messages and detects a link that is idle for too long.

    `watch` runs as a task beside `receive`, so that there is one timer for the link and none for each message.
    """

    def __init__(self, transport: Transport[Any, A], idle_timeout: float) -> None:
        self._transport = transport
        self._idle_timeout = idle_timeout
        self._loop = asyncio.get_running_loop()
        self._waiting_since: float | None = None
        """When `receive` began to wait. None while a message is being handled, which does not count as idle."""

    async def receive(self) -> A:
        """Return the next message. Raises LinkClosed."""
        self._waiting_since = self._loop.time()
        try:
            return await self._transport.receive()
        finally:
            self._waiting_since = None

    async def watch(self) -> NoReturn:
        """Raise LinkClosed once `receive` has waited longer than the idle timeout."""
        while True:
            now = self._loop.time()
            since = now if self._waiting_since is None else self._waiting_since
            left = since + self._idle_timeout - now
            if left <= 0:
                raise self._idle_error()
            await asyncio.sleep(left)

    async def receive_first(self) -> A:
        """Return the first message, before `watch` runs. Raises LinkClosed."""
        try:
            async with asyncio.timeout(self._idle_timeout):
                return await self._transport.receive()
        except TimeoutError:
            raise self._idle_error() from None

    def _idle_error(self) -> LinkClosed:
        return LinkClosed(f"nothing was received for {self._idle_timeout:g} s")
