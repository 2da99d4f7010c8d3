"""Everything that depends on the insides of uvicorn and of the websockets library it uses.

No other module may import `uvicorn.protocols`, subclass a class of uvicorn or touch its undocumented attributes.
`tests/test_private_apis.py` checks that every name used here still exists with the expected signature,
and pyproject.toml bounds the versions, so that an incompatible upgrade fails in one place.

The protocols add two things to uvicorn's. They put themselves into the ASGI scope, so that an application can write
bytes that are framed already and can abort the connection. And they report when a slow client has caught up.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar, cast, overload

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

T = TypeVar("T")

_SCOPE_KEY = "farsteer.connection"
_DATE_SECONDS = 1.0
_WEBSOCKET_SHUTDOWN_SECONDS = 1.0
_CANCELLED_TASK_SECONDS = 1.0


class Connection(asyncio.Protocol):
    """The TCP connection of a request: the part that is the same for HTTP and websockets."""

    transport: asyncio.Transport
    is_behind = False
    """Whether more bytes are unsent than the write limit allows."""
    on_writable: Callable[[], None] | None = None
    """Called when the client is no longer behind, and when the connection is lost."""

    @property
    def buffered_bytes(self) -> int:
        """The number of unsent bytes."""
        return self.transport.get_write_buffer_size()

    def set_write_limit(self, size: int) -> None:
        """Set the number of unsent bytes above which the client is behind."""
        self.transport.set_write_buffer_limits(high=size)

    def write(self, data: bytes) -> None:
        """Send bytes that are framed already. Does nothing if the connection is closing."""
        if not self.transport.is_closing():
            self.transport.write(data)

    def abort(self) -> None:
        """Close the connection now and discard unsent bytes. Idempotent."""
        self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.is_behind = True

    def resume_writing(self) -> None:
        super().resume_writing()
        self._set_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._set_writable()

    def _set_writable(self) -> None:
        self.is_behind = False
        if self.on_writable is not None:
            self.on_writable()


class HttpConnection(Connection, HttpToolsProtocol):
    """uvicorn's HTTP protocol, on which an application can also write chunks of a streamed response."""

    on_shutdown: Callable[[], None] | None = None
    """Called when the server stops, so that a waiting response can end."""
    on_lost: Callable[[], None] | None = None
    """Called when the connection is lost. ASGI reports no disconnect to an application if the client has pipelined
    another request."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.lost = asyncio.Event()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        _store_connection(self.scope, self)

    def close(self) -> None:
        """Close the connection after the unsent bytes were sent."""
        self.transport.close()

    def abort(self) -> None:
        if not self.lost.is_set():
            super().abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()
        if self.on_lost is not None:
            self.on_lost()

    def shutdown(self) -> None:
        super().shutdown()
        if self.on_shutdown is not None:
            self.on_shutdown()


class WebSocketConnection(Connection, WebSocketsSansIOProtocol):
    """uvicorn's websocket protocol, on which an application can also write whole frames.

    uvicorn writes each frame with one call too, so that the frames of both never mix. Such frames are not compressed:
    compression keeps a state per connection, so the server must not offer it.
    """

    async def run_asgi(self) -> None:
        assert not self.conn.extensions, "the server must run with ws_per_message_deflate=False"
        _store_connection(self.scope, self)
        await super().run_asgi()

    def set_message_limit(self, size: int) -> None:
        """Refuse longer messages as soon as their length is known, before they are read."""
        self.conn.max_message_size = size

    def write(self, data: bytes) -> None:
        if not self.close_sent and not self.transport.is_closing():
            self.transport.write(data)

    def abort(self) -> None:
        if not self.disconnected:
            super().abort()

    def shutdown(self) -> None:
        super().shutdown()
        # A client that does not read would delay the shutdown of the server.
        self.loop.call_later(_WEBSOCKET_SHUTDOWN_SECONDS, self.abort)


def _store_connection(scope: object, connection: Connection) -> None:
    cast("dict[str, object]", scope)[_SCOPE_KEY] = connection


@overload
def get_connection(scope: Mapping[str, Any]) -> Connection: ...
@overload
def get_connection(scope: Mapping[str, Any], kind: type[T]) -> T: ...
def get_connection(scope: Mapping[str, Any], kind: type[Any] = Connection) -> Any:
    """Return the connection of an ASGI scope.

    Raises:
        RuntimeError: the server does not run on `HttpConnection` and `WebSocketConnection`.
    """
    connection = scope.get(_SCOPE_KEY)
    if not isinstance(connection, kind):
        raise RuntimeError("the server must run on HttpConnection and WebSocketConnection")
    return connection


class EmbeddedServer:
    """A uvicorn server inside a program that handles signals itself.

    `uvicorn.Server.serve` installs signal handlers and polls ten times a second; this calls the steps of it that
    are needed.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        self._stopping = asyncio.Event()
        self._clock: asyncio.Task[None] | None = None

    async def start(self, listener: socket.socket) -> None:
        await self._server.startup(sockets=[listener])
        await self._server.on_tick(0)
        self._clock = asyncio.create_task(self._update_date_header())

    async def stop(self, listener: socket.socket) -> None:
        """Stop accepting, close connections, and cancel requests that take longer than the configured time."""
        self._stopping.set()
        if self._clock is not None:
            await self._clock
        await self._server.shutdown(sockets=[listener])
        if tasks := self._server.server_state.tasks:
            await asyncio.wait(tasks, timeout=_CANCELLED_TASK_SECONDS)

    async def _update_date_header(self) -> None:
        """Every second: uvicorn computes the Date header in `on_tick`."""
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_DATE_SECONDS):
                    await self._stopping.wait()
            await self._server.on_tick(0)
