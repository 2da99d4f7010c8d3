"""The live faces on a real server and port."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.routing import Mount, Route, Router

from farsteer.faces.events.limits import Limits
from farsteer.faces.events.realtime import Realtime
from farsteer.hub import Hub
from farsteer.server.http_protocol import HttpConnection
from farsteer.server.websocket_protocol import WebSocketConnection


@asynccontextmanager
async def serving(
    hub: Hub, limits: Limits | None = None, port: int = 0
) -> AsyncIterator[tuple[Realtime, str]]:
    realtime = Realtime(hub, limits)
    await realtime.start()
    listener = socket.create_server(("127.0.0.1", port))
    # Inherited by each connection: a client that stops reading is soon felt.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
    config = uvicorn.Config(
        Router([Mount("/socket.io", realtime.socketio), Route("/api/events", realtime.sse)]),
        http=HttpConnection,
        ws=WebSocketConnection,
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=5,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    try:
        yield realtime, f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        async with asyncio.timeout(10):
            await server.shutdown(sockets=[listener])
            await realtime.close()
        listener.close()
