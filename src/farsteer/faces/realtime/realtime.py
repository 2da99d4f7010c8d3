"""The live events of a hub, as every protocol that carries them."""

from __future__ import annotations

from starlette.routing import BaseRoute, Mount, Route

from farsteer.faces.realtime.limits import Limits
from farsteer.faces.realtime.server import SocketServer
from farsteer.faces.realtime.sse import EventStream
from farsteer.faces.realtime.subscriptions import Subscriptions
from farsteer.hub import Hub


class Realtime:
    """The server must use `HttpConnection` and `WebSocketConnection`, and call `start` before and `close` after."""

    def __init__(self, hub: Hub, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self.subscriptions = Subscriptions(hub)
        self.socketio = SocketServer(hub, self.subscriptions, limits)
        self.sse = EventStream(hub, self.subscriptions, limits)

    def routes(self) -> list[BaseRoute]:
        return [Mount("/socket.io", self.socketio), Route("/api/events", self.sse)]

    async def start(self) -> None:
        await self.subscriptions.start()

    async def close(self) -> None:
        await self.socketio.close()
        self.sse.close()
        self.subscriptions.close()
