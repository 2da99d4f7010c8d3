"""Opening a listening socket and serving an ASGI application on it."""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp

from farsteer.core.errors import BadRequest, Unavailable
from farsteer.server.client_address import TrustedProxies
from farsteer.server.embedded_server import EmbeddedServer
from farsteer.server.limits import BACKLOG, ServerLimits, watch_peers
from farsteer.server.uvicorn_protocols import HttpConnection, WebSocketConnection

DEFAULT_PORT = 3006


@asynccontextmanager
async def run_server(
    app: ASGIApp,
    listener: socket.socket,
    *,
    shutdown_seconds: int,
    max_frame: int,
    limits: ServerLimits | None = None,
    proxies: TrustedProxies | None = None,
) -> AsyncGenerator[None]:
    """Serve `app` on `listener` inside the block.

    On leaving, open requests get `shutdown_seconds` to finish, then they are cancelled. Connections from `proxies`
    are not limited per address, because they are of many clients.
    """
    config = uvicorn.Config(
        app,
        http=HttpConnection,
        ws=WebSocketConnection,
        ws_max_size=max_frame,
        ws_per_message_deflate=False,
        # The link and Engine.IO have heartbeats of their own.
        ws_ping_interval=None,
        lifespan="off",
        log_config=None,
        # At lower levels uvicorn logs URLs, which may contain secrets that a client put there by mistake.
        log_level="warning",
        access_log=False,
        # The request guard reads them, if a trusted proxy sent them.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=shutdown_seconds,
    )
    server = EmbeddedServer(config, limits or ServerLimits(), proxies or TrustedProxies())
    await server.start(listener)
    try:
        yield
    finally:
        await server.stop(listener)


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 means any free port.

    Raises:
        BadRequest: the port is out of range.
        Unavailable: the address cannot be listened on. The message suggests what to change.
    """
    if not 0 <= port <= 65535:
        raise BadRequest(f"a port is between 0 and 65535, not {port}")
    try:
        # IPv4 first, because most clients resolve "localhost" to 127.0.0.1.
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
        watch_peers(listener)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise Unavailable(_bind_error_message(error, host, port)) from error
    return listener


def _bind_error_message(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} is in use; try --port"
        case errno.EACCES:
            return f"no permission to listen on port {port}; try --port {DEFAULT_PORT}"
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine; try --host 127.0.0.1"
        case _:
            return f"cannot listen on {host}:{port}: {error}"


def listener_url(listener: socket.socket) -> str:
    """Return the URL under which clients reach the listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
