"""The server: one address for every face, and nothing reaches them that the guard refuses."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.routing import Mount, Router, WebSocketRoute
from starlette.types import ASGIApp

from farsteer.core.api import MAX_BODY
from farsteer.faces.acp.websocket import AcpEndpoint
from farsteer.faces.events.realtime import Realtime
from farsteer.faces.link import LinkEndpoint
from farsteer.faces.rest.app import not_found, routes
from farsteer.hub import Hub
from farsteer.link.messages import MAX_FRAME
from farsteer.server.guard import Guard, Hosts
from farsteer.server.server import DEFAULT_PORT, Server, listen, url_of


@dataclass(frozen=True, slots=True)
class ServerConfig:
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0: any free one."""
    allowed_hosts: tuple[str, ...] = ()
    """Names this server is reached by, besides loopback and `host`."""
    allowed_origins: tuple[str, ...] = ()
    """Pages of other origins that may call it, as https://name[:port]."""
    shutdown_seconds: int = 3
    """How long open requests may take when the server ends."""


def build_app(hub: Hub, realtime: Realtime, config: ServerConfig) -> ASGIApp:
    """Every face behind one guard."""
    router = Router(
        [
            WebSocketRoute("/link", LinkEndpoint(hub)),
            WebSocketRoute("/acp", AcpEndpoint(hub)),
            Mount("/socket.io", realtime.socketio),
            *routes(hub, realtime.sse),
        ],
        redirect_slashes=False,
        default=not_found,
    )
    hosts = Hosts(config.host, config.allowed_hosts)
    return Guard(router, hosts=hosts, origins=config.allowed_origins, max_body=MAX_BODY)


@asynccontextmanager
async def serve(hub: Hub, config: ServerConfig) -> AsyncGenerator[str]:
    """Serve the hub inside the block; gives the URL once it answers there.

    On leaving, live streams and websockets are told, open requests get `shutdown_seconds`, then all are cancelled.
    """
    with listen(config.host, config.port) as listener:
        realtime = Realtime(hub)
        await realtime.start()
        try:
            server = Server(
                build_app(hub, realtime, config),
                shutdown_seconds=config.shutdown_seconds,
                max_frame=MAX_FRAME,
            )
            await server.start(listener)
            try:
                yield url_of(listener)
            finally:
                await server.stop(listener)
        finally:
            await realtime.close()
