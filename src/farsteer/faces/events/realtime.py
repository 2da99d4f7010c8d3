"""The live events of a hub, as every protocol that carries them."""

from __future__ import annotations

from farsteer.faces.events.limits import Limits
from farsteer.faces.events.server import SocketServer
from farsteer.faces.events.sse import EventStream
from farsteer.faces.events.subscriptions import Subscriptions
from farsteer.hub import Hub


class Realtime:
    """`socketio` is an ASGI application for `/socket.io/`, `sse` one for `/api/events`.

    The server must run on `HttpConnection` and `WebSocketConnection`, call `start` before it serves and `close` after.
    """

    def __init__(self, hub: Hub, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self.subscriptions = Subscriptions(hub)
        self.socketio = SocketServer(hub, self.subscriptions, limits)
        self.sse = EventStream(hub, self.subscriptions, limits)

    async def start(self) -> None:
        await self.subscriptions.start()

    async def close(self) -> None:
        await self.socketio.close()
        self.sse.close()
        await self.subscriptions.close()
