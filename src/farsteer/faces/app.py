"""One ASGI application for all faces, and the server that runs it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.routing import Mount, Router, WebSocketRoute
from starlette.types import ASGIApp

from farsteer.core.api import MAX_BODY
from farsteer.faces.acp.websocket import AcpEndpoint
from farsteer.faces.events.app import LiveEvents
from farsteer.faces.link import LinkEndpoint
from farsteer.faces.page.app import PageApp
from farsteer.faces.rest.app import rest_app
from farsteer.hub import Hub
from farsteer.link.messages import MAX_FRAME
from farsteer.server.client_address import TrustedProxies
from farsteer.server.guard import AllowedHosts, Guard
from farsteer.server.limits import ServerLimits
from farsteer.server.server import DEFAULT_PORT, listen, listener_url, run_server


@dataclass(frozen=True, slots=True)
class ServerConfig:
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0 means any free port."""
    allowed_hosts: tuple[str, ...] = ()
    """Accepted Host headers besides loopback and `host`."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of other pages that may use the API, as https://name[:port]."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of reverse proxies, besides those in the settings of the hub."""
    shutdown_seconds: int = 3
    """How long open requests may take when the server stops."""


def build_app(hub: Hub, live_events: LiveEvents, config: ServerConfig) -> ASGIApp:
    """Return the application with every face, behind the request guard."""
    others = Router(
        [
            WebSocketRoute("/link", LinkEndpoint(hub)),
            WebSocketRoute("/acp", AcpEndpoint(hub)),
            Mount("/socket.io", live_events.socketio),
        ],
        redirect_slashes=False,
        default=PageApp(),
    )
    hosts = AllowedHosts(config.host, config.allowed_hosts)
    return Guard(
        rest_app(hub, live_events.sse, others),
        hosts=hosts,
        origins=config.allowed_origins,
        max_body=MAX_BODY,
        proxies=_trusted_proxies(hub, config),
    )


def _trusted_proxies(hub: Hub, config: ServerConfig) -> TrustedProxies:
    return TrustedProxies((*config.trusted_proxies, *hub.settings.trusted_proxies))


@asynccontextmanager
async def serve(hub: Hub, config: ServerConfig) -> AsyncGenerator[str]:
    """Serve the hub inside the block. Yields the URL once the server accepts requests.

    On leaving, live streams and websockets are closed, open requests get `shutdown_seconds`, then all are cancelled.
    """
    with listen(config.host, config.port) as listener:
        live_events = LiveEvents(hub)
        live_events.start()
        try:
            app = build_app(hub, live_events, config)
            limits = hub.settings.limits
            async with run_server(
                app,
                listener,
                shutdown_seconds=config.shutdown_seconds,
                max_frame=MAX_FRAME,
                limits=ServerLimits(
                    connections=limits.connections, address_connections=limits.address_connections
                ),
                proxies=_trusted_proxies(hub, config),
            ):
                yield listener_url(listener)
        finally:
            await live_events.close()
