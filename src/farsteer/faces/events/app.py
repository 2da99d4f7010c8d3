"""The live events of a hub over every protocol that carries them."""

from __future__ import annotations

from farsteer.faces.events.options import EventLimits
from farsteer.faces.events.socketio_server import SocketIOEvents
from farsteer.faces.events.sse import EventStreams
from farsteer.faces.events.subscriptions import Subscriptions
from farsteer.hub import Hub


class LiveEvents:
    """`socketio` is an ASGI application for `/socket.io/`; `sse` makes the responses for `/api/events`.

    They must be served by `farsteer.server.server.run_server`, after `start` and before `close`.
    """

    def __init__(self, hub: Hub, limits: EventLimits | None = None) -> None:
        limits = limits or EventLimits()
        self.subscriptions = Subscriptions(hub)
        self.socketio = SocketIOEvents(hub, self.subscriptions, limits)
        self.sse = EventStreams(hub, self.subscriptions, limits)

    def start(self) -> None:
        self.subscriptions.start()

    async def close(self) -> None:
        await self.socketio.close()
        self.sse.close()
        await self.subscriptions.close()
