"""A TCP proxy with a rate for each direction and small buffers of its own.

It counts bytes, can cut its links, and can forward nothing for a time without closing them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

_BUFFER = 8 * 1024
_PIECE = 2 * 1024
_SEGMENT = 1400
_TICK = 0.01
_BURST = 0.1
"""Seconds that a busy machine may be late without a loss of rate."""


@dataclass(slots=True)
class Direction:
    rate: float | None = None
    """Bytes per second, of all connections together. None for no limit."""
    passed: int = 0
    """How many bytes have passed."""
    _free_at: float = 0.0

    async def take(self, size: int) -> None:
        """Wait until so many bytes may pass."""
        loop = asyncio.get_running_loop()
        if self.rate is None:
            return
        self._free_at = max(self._free_at, loop.time() - _BURST) + size / self.rate
        if (wait := self._free_at - loop.time()) > _TICK:
            await asyncio.sleep(wait)


@dataclass(slots=True)
class SlowProxy:
    port: int
    target: int
    up: Direction = field(default_factory=Direction)
    """From the client to the server."""
    down: Direction = field(default_factory=Direction)
    connections: int = 0
    """How many connections there have been."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _forwarding: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._forwarding.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def limit(self, rate: float | None) -> None:
        self.up.rate = self.down.rate = rate

    def hold(self) -> None:
        """Forward nothing any more, neither bytes nor the end of a connection. New connections are accepted."""
        self._forwarding.clear()

    def release(self) -> None:
        """Forward what was held, as a network does that repeats what was lost, and go on."""
        self._forwarding.set()

    async def cut(self) -> None:
        """Break all connections. New ones are accepted."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(listener)
            self.connections += 1
            task = asyncio.create_task(self._connect(client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with client, _small(socket.socket()) as server:
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.setblocking(False)
            await self._forwarding.wait()
            with suppress(OSError):
                await loop.sock_connect(server, ("127.0.0.1", self.target))
                pipes = [
                    asyncio.create_task(self._pipe(client, server, self.up)),
                    asyncio.create_task(self._pipe(server, client, self.down)),
                ]
                try:
                    await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pipe in pipes:
                        pipe.cancel()
                    await asyncio.gather(*pipes, return_exceptions=True)

    async def _pipe(self, source: socket.socket, target: socket.socket, direction: Direction) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while data := await loop.sock_recv(source, _PIECE if direction.rate else 1024 * 1024):
                await direction.take(len(data))
                await self._forwarding.wait()
                direction.passed += len(data)
                await loop.sock_sendall(target, data)
        await self._forwarding.wait()


def _small(one: socket.socket) -> socket.socket:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Segments as on a network. Those of the loopback interface would be larger than the buffers.
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT)
    return one


@asynccontextmanager
async def slow_proxy(target: int) -> AsyncGenerator[SlowProxy]:
    """Serve a proxy to a port of this machine."""
    with _small(socket.socket()) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        proxy = SlowProxy(listener.getsockname()[1], target)
        accepting = asyncio.create_task(proxy.accept(listener))
        try:
            yield proxy
        finally:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
            await proxy.cut()
