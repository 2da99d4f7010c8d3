"""Live events over Socket.IO, with the namespace `/events`.

A client connects with `auth: {token, since?, sessionId?, types?}`. It gets `ready` once, then `event` for each
SyncEvent, and `closed` before the server closes the connection. The server never sends Socket.IO's own `disconnect`:
clients would not reconnect after it.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from socketio import exceptions as socketio_exceptions
from starlette.types import Receive, Scope, Send

from farsteer.core.errors import FarsteerError
from farsteer.core.live_events import ClosedEvent, ReadyEvent
from farsteer.core.wire import encode, to_builtins
from farsteer.faces.events.frames import NAMESPACE, Batch
from farsteer.faces.events.options import (
    EventFilter,
    EventLimits,
    make_filter,
    parse_connect_options,
    parse_token_renewal,
)
from farsteer.faces.events.socketio_compat import ClientConnection, SocketIOServer
from farsteer.faces.events.subscriber import Subscriber
from farsteer.faces.events.subscriptions import Subscriptions
from farsteer.hub import Caller, Hub
from farsteer.server.responses import error_body


class SocketIOEvents:
    """An ASGI application for `/socket.io/`."""

    def __init__(self, hub: Hub, subscriptions: Subscriptions, limits: EventLimits) -> None:
        self._subscriptions = subscriptions
        self._hub = hub
        self._limits = limits
        self._accepted: dict[str, tuple[SocketIOSubscriber, Caller, str | None]] = {}
        """Clients that were authenticated but not yet told that they are connected."""
        self._subscribers: dict[str, SocketIOSubscriber] = {}
        self.server = SocketIOServer(limits, hub.settings.limits, self._on_connected)
        self.server.on("connect", self._on_connect, namespace=NAMESPACE)
        self.server.on("auth", self._on_auth, namespace=NAMESPACE)
        self.server.on("disconnect", self._on_disconnect, namespace=NAMESPACE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.server(scope, receive, send)

    async def close(self) -> None:
        await self.server.close()

    def remove(self, sid: str) -> None:
        """Stop delivering to a client. Idempotent."""
        self._accepted.pop(sid, None)
        subscriber = self._subscribers.pop(sid, None)
        if subscriber is not None:
            self._subscriptions.remove(subscriber)

    async def _on_connect(self, sid: str, environ: MutableMapping[str, Any], data: Any) -> None:
        connection = self.server.find_connection(sid)
        assert connection is not None
        try:
            options = parse_connect_options(data)
            caller = self._subscriptions.authenticate(options.token, connection.address)
            self._subscriptions.check_room(caller)
            event_filter = make_filter(caller.namespace, options.session_id, options.types)
        except FarsteerError as error:
            raise socketio_exceptions.ConnectionRefusedError(
                error.message, {"code": error.code, **error.details}
            ) from None
        subscriber = SocketIOSubscriber(self, sid, connection, event_filter, self._limits, self._hub)
        self._accepted[sid] = (subscriber, caller, options.since)

    def _on_connected(self, sid: str) -> None:
        subscriber, caller, since = self._accepted.pop(sid)
        if subscriber.connection.socket.closed:
            self.server.discard_session(sid)
            return
        subscriber.connection.set_authenticated()
        self._subscribers[sid] = subscriber
        self._subscriptions.add(subscriber, caller, since)

    async def _on_auth(self, sid: str, *data: Any) -> dict[str, Any]:
        try:
            renewal = parse_token_renewal(data[0] if data else None)
            subscriber = self._subscribers.get(sid)
            address = "" if subscriber is None else subscriber.connection.address
            expires_at = self._subscriptions.renew(subscriber, renewal.token, address)
        except FarsteerError as error:
            return {"ok": False, "error": to_builtins(error_body(error).error)}
        return {"ok": True, "expiresAt": expires_at}

    async def _on_disconnect(self, sid: str, reason: str) -> None:
        self.remove(sid)
        connection = self.server.find_connection(sid)
        if connection is not None:
            connection.abort_after(self._limits.close_timeout)


class SocketIOSubscriber(Subscriber):
    def __init__(
        self,
        events: SocketIOEvents,
        sid: str,
        connection: ClientConnection,
        event_filter: EventFilter,
        limits: EventLimits,
        hub: Hub,
    ) -> None:
        super().__init__(event_filter, limits, hub.metrics, hub.slow_readers)
        self._events = events
        self._sid = sid
        self.connection = connection
        connection.on_writable = self.on_writable

    @property
    def is_behind(self) -> bool:
        return self.connection.is_behind

    @property
    def buffered_bytes(self) -> int:
        return self.connection.buffered_bytes

    def send(self, batch: Batch) -> None:
        self.connection.send(batch)

    def send_ready(self, ready: ReadyEvent) -> None:
        self.connection.send_event("ready", encode(ready))

    def close(self, error: FarsteerError) -> None:
        closed = ClosedEvent(code=error.code, message=error.message)
        self.connection.send_event("closed", encode(closed))
        self.connection.close_after_queue()

    def abort(self) -> None:
        self._events.remove(self._sid)
        self.connection.abort()
