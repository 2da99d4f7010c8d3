"""`GET /api/events`: live events as a text/event-stream, for any HTTP client and for the browser's `EventSource`.

The first event is `ready`, the last `closed`. SyncEvents are unnamed; the stored ones have their cursor as id.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import Meta, Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from farsteer.core.errors import FarsteerError, Unavailable
from farsteer.core.live_events import ClosedEvent, ReadyEvent
from farsteer.core.wire import encode
from farsteer.faces.events.frames import Batch, encode_http_chunk, encode_sse_chunk, encode_sse_event
from farsteer.faces.events.options import Cursor, EventFilter, EventLimits, make_filter
from farsteer.faces.events.subscriber import Subscriber
from farsteer.faces.events.subscriptions import Subscriptions
from farsteer.hub import Caller, Hub
from farsteer.server.scopes import get_connection
from farsteer.server.uvicorn_protocols import HttpConnection

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"connection", b"close"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]
_HEARTBEAT = encode_http_chunk(b":\n\n")
_LAST_CHUNK = b"0\r\n\r\n"


class EventsQuery(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    since: Cursor | None = None
    """Ignored if there is a Last-Event-ID: a browser that reconnects repeats the URL of its first request."""
    session_id: str | None = None
    types: Annotated[str, Meta(max_length=1000)] | None = None
    """Separated by commas."""


class EventStreams:
    """All open event streams. They must be served on `HttpConnection`."""

    def __init__(self, hub: Hub, subscriptions: Subscriptions, limits: EventLimits) -> None:
        self._hub = hub
        self._subscriptions = subscriptions
        self._limits = limits
        self._streams: set[SseSubscriber] = set()
        self._heartbeat_timer: asyncio.TimerHandle | None = None

    def open(self, caller: Caller, query: EventsQuery, last_event_id: str | None) -> ASGIApp:
        """Return the response to an authenticated request.

        Raises:
            BadRequest: the query has a malformed session id or an unknown type.
            RateLimited: the namespace has too many live connections.
        """
        self._subscriptions.check_room(caller)
        types = None if query.types is None else query.types.split(",")
        event_filter = make_filter(caller.namespace, query.session_id, types)
        since = last_event_id or query.since

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            connection = get_connection(scope, HttpConnection)
            connection.start_stream()
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            stream = SseSubscriber(connection, self._subscriptions, event_filter, self._limits, self._hub)
            self._streams.add(stream)
            self._schedule_heartbeat()
            self._subscriptions.add(stream, caller, since)
            try:
                await connection.lost.wait()
            finally:
                self._streams.discard(stream)
                stream.on_disconnected()

        return respond

    def close(self) -> None:
        if self._heartbeat_timer is not None:
            self._heartbeat_timer.cancel()
            self._heartbeat_timer = None

    def _schedule_heartbeat(self) -> None:
        """One timer serves all streams, and runs only while there are any."""
        if self._heartbeat_timer is None:
            loop = asyncio.get_running_loop()
            self._heartbeat_timer = loop.call_later(self._limits.heartbeat_interval, self._send_heartbeats)

    def _send_heartbeats(self) -> None:
        self._heartbeat_timer = None
        for stream in self._streams:
            stream.send_heartbeat()
        if self._streams:
            self._schedule_heartbeat()


class SseSubscriber(Subscriber):
    def __init__(
        self,
        connection: HttpConnection,
        subscriptions: Subscriptions,
        event_filter: EventFilter,
        limits: EventLimits,
        hub: Hub,
    ) -> None:
        super().__init__(event_filter, limits, hub.metrics, hub.slow_readers)
        self._connection = connection
        self._subscriptions = subscriptions
        self._abort_timer: asyncio.TimerHandle | None = None
        connection.set_write_limit(limits.soft_limit)
        connection.on_writable = self.on_writable
        connection.on_shutdown = self._on_shutdown

    @property
    def is_behind(self) -> bool:
        return self._connection.is_behind

    @property
    def buffered_bytes(self) -> int:
        return self._connection.buffered_bytes

    def send(self, batch: Batch) -> None:
        self._connection.write(batch.encoded(encode_sse_chunk))

    def send_heartbeat(self) -> None:
        if not self.is_behind:
            self._connection.write(_HEARTBEAT)

    def send_ready(self, ready: ReadyEvent) -> None:
        self._connection.write(encode_sse_event("ready", encode(ready), ready.cursor))

    def close(self, error: FarsteerError) -> None:
        closed = encode_sse_event("closed", encode(ClosedEvent(code=error.code, message=error.message)))
        self._connection.write(closed + _LAST_CHUNK)
        self._connection.close()
        loop = asyncio.get_running_loop()
        self._abort_timer = loop.call_later(self.limits.close_timeout, self._connection.abort)

    def abort(self) -> None:
        self._subscriptions.remove(self)
        self._connection.abort()

    def on_disconnected(self) -> None:
        self._subscriptions.remove(self)
        if self._abort_timer is not None:
            self._abort_timer.cancel()

    def _on_shutdown(self) -> None:
        self._subscriptions.remove(self)
        self.close(Unavailable("the hub is stopping"))
