"""`GET /api/events`: the live events as a text/event-stream, for any HTTP client and for `EventSource`.

The first event is `ready`, the last `closed`. SyncEvents are plain messages; the stored ones have their cursor as id.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import Meta, Struct
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from farsteer.core.errors import FarsteerError, MethodNotAllowed, Unavailable
from farsteer.core.wire import encode
from farsteer.faces.events import options
from farsteer.faces.events.batch import Batch, Filter
from farsteer.faces.events.frames import SseEncoder, http_chunk, sse_named
from farsteer.faces.events.limits import Limits
from farsteer.faces.events.subscriber import Closed, Ready, Subscriber
from farsteer.faces.events.subscriptions import Subscriptions
from farsteer.faces.rest.decode import decode_query
from farsteer.hub import Caller, Hub
from farsteer.hub.metrics import Metrics
from farsteer.server.auth import bearer
from farsteer.server.connection import connection_of
from farsteer.server.http_protocol import HttpConnection
from farsteer.server.responses import error_reply

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"connection", b"close"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]
_HEARTBEAT = http_chunk(b":\n\n")
_LAST_CHUNK = b"0\r\n\r\n"


class EventsQuery(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    since: options.Cursor | None = None
    """`Last-Event-ID` wins over it: a browser that reconnects repeats the first URL."""
    session_id: str | None = None
    types: Annotated[str, Meta(max_length=1000)] | None = None
    """Separated by commas."""


class EventStream:
    """An ASGI application for one path. It must run on `HttpConnection`."""

    def __init__(self, hub: Hub, subscriptions: Subscriptions, limits: Limits) -> None:
        self._metrics = hub.metrics
        self._encoder = SseEncoder(hub.store.epoch)
        self._subscriptions = subscriptions
        self._limits = limits
        self._streams: set[StreamSubscriber] = set()
        self._heartbeat: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            caller, wanted, since = self._admit(scope)
        except FarsteerError as error:
            await error_reply(error)(scope, receive, send)
            return
        connection = connection_of(scope, HttpConnection)
        connection.soft_limit(self._limits.soft)
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        stream = StreamSubscriber(
            connection, self._encoder, self._subscriptions, wanted, self._limits, self._metrics
        )
        self._streams.add(stream)
        self._beat()
        self._subscriptions.enter(stream, caller, since)
        try:
            await connection.lost.wait()
        finally:
            self._streams.discard(stream)
            stream.gone()

    def close(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            self._heartbeat = None

    def _admit(self, scope: Scope) -> tuple[Caller, Filter, str | None]:
        if scope["method"] != "GET":
            raise MethodNotAllowed(f"{scope['method']} is not possible here", allow=["GET"])
        headers = Headers(scope=scope)
        caller = self._subscriptions.verify(bearer(headers))
        query = decode_query(scope["query_string"], EventsQuery)
        types = None if query.types is None else query.types.split(",")
        wanted = options.wanted(caller.namespace, query.session_id, types)
        return caller, wanted, headers.get("last-event-id") or query.since

    def _beat(self) -> None:
        """One timer for all streams, as long as there are any."""
        if self._heartbeat is None:
            loop = asyncio.get_running_loop()
            self._heartbeat = loop.call_later(self._limits.heartbeat, self._send_heartbeat)

    def _send_heartbeat(self) -> None:
        self._heartbeat = None
        for stream in self._streams:
            stream.beat()
        if self._streams:
            self._beat()


class StreamRoad:
    def __init__(self, connection: HttpConnection, encoder: SseEncoder) -> None:
        self._connection = connection
        self._encoder = encoder

    @property
    def behind(self) -> bool:
        return self._connection.behind

    @property
    def buffered(self) -> int:
        return self._connection.buffered

    def send(self, batch: Batch) -> None:
        self._connection.write(batch.encoded(self._encoder))


class StreamSubscriber(Subscriber):
    def __init__(
        self,
        connection: HttpConnection,
        encoder: SseEncoder,
        subscriptions: Subscriptions,
        wanted: Filter,
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        super().__init__(StreamRoad(connection, encoder), encoder, wanted, limits, metrics)
        self._connection = connection
        self._subscriptions = subscriptions
        self._deadline: asyncio.TimerHandle | None = None
        connection.on_flow = self._flow
        connection.on_shutdown = self._stop
        self._flow()

    def _flow(self) -> None:
        self.on_direct(self._connection.transport.write if self._connection.open else None)
        if not self.behind:
            self.on_writable()

    def beat(self) -> None:
        if not self.behind:
            self._connection.write(_HEARTBEAT)

    def greet(self, ready: Ready) -> None:
        self._connection.write(sse_named("ready", encode(ready), ready.cursor))

    def end(self, error: FarsteerError) -> None:
        closed = sse_named("closed", encode(Closed(code=error.code, message=error.message)))
        self._connection.write(closed + _LAST_CHUNK)
        self._connection.close()
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self.limits.grace, self._connection.abort)

    def cut(self) -> None:
        self._subscriptions.leave(self)
        self._connection.abort()

    def gone(self) -> None:
        self._subscriptions.leave(self)
        if self._deadline is not None:
            self._deadline.cancel()

    def _stop(self) -> None:
        self._subscriptions.leave(self)
        self.end(Unavailable("the hub is stopping"))
