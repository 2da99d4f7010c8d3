"""A TCP proxy in front of a hub, whose connections a test can cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Proxy:
    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._open: set[asyncio.StreamWriter] = set()
        self.url = ""
        self.down = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.down:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
        self._open |= {writer, back}
        try:
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        finally:
            self._open -= {writer, back}

    def cut(self) -> None:
        """Abort every open connection."""
        for writer in [*self._open]:
            writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1000):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.transport.abort()


@asynccontextmanager
async def proxy(target: str) -> AsyncGenerator[Proxy]:
    forwarder = Proxy(target)
    server = await asyncio.start_server(forwarder._serve, "127.0.0.1", 0)
    forwarder.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield forwarder
        forwarder.cut()
