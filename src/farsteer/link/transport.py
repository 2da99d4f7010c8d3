"""Transports that carry link messages: the interface, the in-memory implementation and the idle timeout."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

from farsteer.link.identity import token_digest

if TYPE_CHECKING:
    from farsteer.link.transfers import UnfinishedTransfers

LARGEST_BATCH = 8 * 1024 * 1024
"""What is sent in one message where messages do not share a slow link."""

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

    @property
    def batch_bytes(self) -> int:
        """How much of a session may be sent in one message, so that others need not wait long."""
        ...

    @property
    def received_bytes(self) -> int:
        """How many bytes have arrived. 0 if only whole messages arrive."""
        ...

    @property
    def unread(self) -> object | None:
        """None if the other end has read everything, as far as is known; otherwise what changes when it reads."""
        ...

    async def start_transfers(self, unfinished: UnfinishedTransfers, sender: str) -> None:
        """From now on large messages may travel in parts, in both directions (protocol 3).

        `unfinished` has what earlier links of this `sender` have left, and gets what this link leaves.
        """
        ...

    def is_arriving(self, call_id: int | None, since: float) -> bool:
        """Return whether parts of the Reply to a call have arrived since then, or parts of any message (None)."""
        ...

    def send_soon(self, message: Out) -> bool:
        """Send a short message after those that were sent before, without waiting. Returns False if `send` has to."""
        ...

    async def send(self, message: Out) -> None:
        """Send a message. Waits while the transport is full. Several tasks may send: short messages overtake long ones.

        Raises LinkClosed, and TooLarge if the link cannot carry the message.
        """
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
        self._taken = 0

    @property
    def unread(self) -> int | None:
        return self._taken if len(self._messages) >= self._size else None

    async def put(self, message: A) -> None:
        while len(self._messages) >= self._size and not self._closed:
            self._emptied.clear()
            await self._emptied.wait()
        if not self.put_soon(message):
            raise LinkClosed

    def put_soon(self, message: A) -> bool:
        """Returns False if there is no room, or the channel is closed."""
        if self._closed or len(self._messages) >= self._size:
            return False
        self._messages.append(message)
        self._filled.set()
        return True

    async def take(self) -> A:
        """Return the next message. Messages that were sent before the close are still returned."""
        while not self._messages:
            if self._closed:
                raise LinkClosed
            self._filled.clear()
            await self._filled.wait()
        self._emptied.set()
        self._taken += 1
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

    @property
    def batch_bytes(self) -> int:
        return LARGEST_BATCH

    @property
    def received_bytes(self) -> int:
        return 0

    @property
    def unread(self) -> object | None:
        return self._outgoing.unread

    async def start_transfers(self, unfinished: UnfinishedTransfers, sender: str) -> None:
        """Messages are passed whole."""

    def is_arriving(self, call_id: int | None, since: float) -> bool:
        return False

    def send_soon(self, message: A) -> bool:
        return self._outgoing.put_soon(message)

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
    """Receives messages and detects a link that is idle for too long, or whose other end does not read.

    Bytes count, not messages: a message over a slow link may take as long as it needs. `watch` runs as a task beside
    `receive`, so that there is one timer for the link and none for each message.
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

    async def watch(self, extra: float = 0.0) -> NoReturn:
        """Raise LinkClosed once the other end has sent nothing, or read nothing, for the idle timeout and `extra`."""
        timeout = self._idle_timeout + extra
        received, received_at = self._transport.received_bytes, 0.0
        unread, unread_since = self._transport.unread, self._loop.time()
        while True:
            await asyncio.sleep(self._idle_timeout / 4)
            now = self._loop.time()
            if self._transport.received_bytes != received:
                received, received_at = self._transport.received_bytes, now
            elif self._waiting_since is not None and now - max(self._waiting_since, received_at) >= timeout:
                raise LinkClosed(f"nothing was received for {timeout:g} s")
            if (latest := self._transport.unread) is None or latest != unread:
                unread, unread_since = latest, now
            elif now - unread_since >= timeout:
                raise LinkClosed(f"the other end has read nothing for {timeout:g} s")

    async def watched(self, work: Coroutine[Any, Any, B], extra: float = 0.0) -> B:
        """Do something before `watch` runs. Raises LinkClosed as `watch` does."""
        tasks = [asyncio.create_task(work), asyncio.create_task(self.watch(extra))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0] not in done:
                tasks[1].result()
            return tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def receive_first(self, extra: float = 0.0) -> A:
        """Return a message of the handshake, before `watch` runs. Raises LinkClosed."""
        return await self.watched(self.receive(), extra)
