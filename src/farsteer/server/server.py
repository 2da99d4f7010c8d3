"""A uvicorn server on a listening socket."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import suppress

import uvicorn
from starlette.types import ASGIApp

from farsteer.core.errors import BadRequest, Unavailable
from farsteer.server.http_protocol import HttpConnection
from farsteer.server.websocket_protocol import WebSocketConnection

DEFAULT_PORT = 3006
_KEEP_ALIVE_SECONDS = 75


class Server(uvicorn.Server):
    """uvicorn inside a program with a life of its own: no signal handlers, and no polling for its end."""

    def __init__(self, app: ASGIApp, *, shutdown_seconds: int, max_frame: int) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=HttpConnection,
                ws=WebSocketConnection,
                ws_max_size=max_frame,
                ws_per_message_deflate=False,
                # Both protocols that use websockets have a heartbeat of their own.
                ws_ping_interval=None,
                lifespan="off",
                log_config=None,
                # Below this it logs URLs, and with them what somebody should not have put there.
                log_level="warning",
                access_log=False,
                # A header that says where a request came from is believed only from a proxy one has chosen.
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=shutdown_seconds,
            )
        )
        self._ending = asyncio.Event()
        self._clock: asyncio.Task[None] | None = None

    async def start(self, listener: socket.socket) -> None:
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup(sockets=[listener])
        await self.on_tick(0)
        self._clock = asyncio.create_task(self.main_loop())

    async def main_loop(self) -> None:
        """Keeps the Date header right."""
        while not self._ending.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._ending.wait()
            await self.on_tick(0)

    async def stop(self, listener: socket.socket) -> None:
        self._ending.set()
        if self._clock is not None:
            await self._clock
        await self.shutdown(sockets=[listener])
        if tasks := self.server_state.tasks:
            await asyncio.wait(tasks, timeout=1.0)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or an error that says what to do."""
    if not 0 <= port <= 65535:
        raise BadRequest(f"a port is between 0 and 65535, not {port}")
    try:
        # IPv4 first: "localhost" is 127.0.0.1 to most who will type it.
        found = sorted(
            socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE),
            key=lambda info: info[0] != socket.AF_INET,
        )
    except (OSError, UnicodeError) as error:
        raise Unavailable(f"cannot listen on {host!r}: {error}; try --host 127.0.0.1") from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise Unavailable(_explain(error, host, port)) from error
    return listener


def _explain(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} is in use; try --port"
        case errno.EACCES:
            return f"port {port} needs more rights than this user has; try --port {DEFAULT_PORT}"
        case errno.EADDRNOTAVAIL:
            return f"{host} is no address of this machine; try --host 127.0.0.1"
        case _:
            return f"cannot listen on {host}:{port}: {error}"


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
