"""Live events on a real server and port, with a fake hub."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.routing import Mount, Route, Router

from farsteer.faces.events.app import LiveEvents
from farsteer.faces.events.options import EventLimits
from farsteer.faces.events.socketio_compat import EngineIOServer
from farsteer.faces.rest.activity import event_endpoints
from farsteer.faces.rest.resource import Resource
from farsteer.hub import Hub
from farsteer.server.server import run_server

MAX_FRAME = 16 * 1024 * 1024


def engine(live_events: LiveEvents) -> EngineIOServer:
    return live_events.socketio.server.eio


@asynccontextmanager
async def serving(
    hub: Hub, limits: EventLimits | None = None, port: int = 0
) -> AsyncIterator[tuple[LiveEvents, str]]:
    live_events = LiveEvents(hub, limits)
    live_events.start()
    listener = socket.create_server(("127.0.0.1", port))
    # Connections inherit it: with a small buffer the server soon notices a client that stops reading.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
    app = Router(
        [
            Mount("/socket.io", live_events.socketio),
            Route("/api/events", Resource(hub, event_endpoints(live_events.sse))),
        ]
    )
    server = run_server(app, listener, shutdown_seconds=5, max_frame=MAX_FRAME)
    await server.__aenter__()
    try:
        yield live_events, f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        async with asyncio.timeout(10):
            await server.__aexit__(None, None, None)
            await live_events.close()
        listener.close()
