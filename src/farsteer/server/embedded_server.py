"""uvicorn's server inside a program of ours. See `uvicorn_protocols` for what may be used of uvicorn where."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import uvicorn

from farsteer.server.client_address import TrustedProxies
from farsteer.server.limits import BACKLOG, ServerLimits
from farsteer.server.uvicorn_protocols import SharedState

_DATE_SECONDS = 1.0
_CANCELLED_TASK_SECONDS = 1.0


class EmbeddedServer:
    """A uvicorn server inside a program that handles signals itself.

    `uvicorn.Server.serve` installs signal handlers and polls ten times a second; this calls the steps of it that
    are needed.
    """

    def __init__(self, config: uvicorn.Config, limits: ServerLimits, proxies: TrustedProxies) -> None:
        config.backlog = BACKLOG
        config.timeout_keep_alive = limits.keep_alive_timeout
        config.load()
        self._server = uvicorn.Server(config)
        self._server.server_state = SharedState(limits, proxies)
        self._server.lifespan = config.lifespan_class(config)
        self._stopping = asyncio.Event()
        self._clock: asyncio.Task[None] | None = None

    async def start(self, listener: socket.socket) -> None:
        await self._server.startup(sockets=[listener])
        await self._server.on_tick(0)
        self._clock = asyncio.create_task(self._update_date_header())

    async def stop(self, listener: socket.socket) -> None:
        """Stop accepting, close connections, and cancel requests that take longer than the configured time."""
        self._stopping.set()
        if self._clock is not None:
            await self._clock
        await self._server.shutdown(sockets=[listener])
        if tasks := self._server.server_state.tasks:
            await asyncio.wait(tasks, timeout=_CANCELLED_TASK_SECONDS)

    async def _update_date_header(self) -> None:
        """Every second: uvicorn computes the Date header in `on_tick`."""
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_DATE_SECONDS):
                    await self._stopping.wait()
            await self._server.on_tick(0)
