"""A TCP proxy with a rate for each direction and small buffers of its own, which counts bytes and can cut its links."""

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

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def limit(self, rate: float | None) -> None:
        self.up.rate = self.down.rate = rate

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
            with suppress(OSError):
                await loop.sock_connect(server, ("127.0.0.1", self.target))
                pipes = [
                    asyncio.create_task(_pipe(client, server, self.up)),
                    asyncio.create_task(_pipe(server, client, self.down)),
                ]
                try:
                    await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pipe in pipes:
                        pipe.cancel()
                    await asyncio.gather(*pipes, return_exceptions=True)


def _small(one: socket.socket) -> socket.socket:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Segments as on a network. Those of the loopback interface would be larger than the buffers.
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT)
    return one


async def _pipe(source: socket.socket, target: socket.socket, direction: Direction) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, _PIECE if direction.rate else 1024 * 1024):
        await direction.take(len(data))
        direction.passed += len(data)
        await loop.sock_sendall(target, data)


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
