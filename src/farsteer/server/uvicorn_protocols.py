"""Everything that depends on the insides of uvicorn and of the websockets library it uses.

No other module may import `uvicorn.protocols`, subclass a class of uvicorn or touch its undocumented attributes.
`tests/test_private_apis.py` checks that every name used here still exists with the expected signature,
and pyproject.toml bounds the versions, so that an incompatible upgrade fails in one place.

The protocols add to uvicorn's:

- they put themselves into the ASGI scope, so that an application can write bytes that are framed already, abort the
  connection, and tell that its client has authenticated;
- they report when a slow client has caught up;
- they bound what a client can cost: connections, headers, times, buffers, log lines.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, cast

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame

from farsteer.core.errors import BadRequest, FarsteerError, HeadersTooLarge, RequestTimeout, Unavailable
from farsteer.core.wire import is_utf8
from farsteer.server.client_address import TrustedProxies, address_group
from farsteer.server.connection_limit import ConnectionLimit
from farsteer.server.limits import ServerLimits, file_limit
from farsteer.server.log_limit import LogLimit
from farsteer.server.request_framing import RequestFraming
from farsteer.server.responses import encode_error, encode_response
from farsteer.server.timer import Timer

_logger = logging.getLogger(__name__)

SCOPE_KEY = "farsteer.connection"
_WEBSOCKET_SHUTDOWN_SECONDS = 1.0
_TURN_SECONDS = 0.01
"""How long the bytes of one client may be parsed before others get their turn."""
_PIECE_SIZE = 16 * 1024
_MAX_UNREAD = 64 * 1024
"""Bytes of further requests that are kept until the current one is answered."""
_MAX_UNSENT_PONGS = 256 * 1024
_MAX_HANDSHAKE_LINE = 8 * 1024
"""The websockets library reads no longer line."""


class SharedState(ServerState):
    """What the connections of one server have in common."""

    def __init__(self, limits: ServerLimits, proxies: TrustedProxies) -> None:
        super().__init__()
        self.limits = limits
        self.proxies = proxies
        open_total = file_limit() if limits.open_connections is None else limits.open_connections
        self.clients: ConnectionLimit[Connection] = ConnectionLimit(
            # Half of the open files are kept for clients that have authenticated.
            min(limits.connections, max(open_total // 2, 1)),
            limits.address_connections,
            open_total,
        )
        self.bad_input = LogLimit(_logger)


class Connection(asyncio.Protocol):
    """The TCP connection of a request: the part that is the same for HTTP and websockets."""

    transport: asyncio.Transport
    shared: SharedState
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

    def set_authenticated(self) -> None:
        """The client has shown a valid token: its connection is no longer counted. Idempotent."""
        self.shared.clients.set_authenticated(self)

    def write(self, data: bytes) -> None:
        """Send bytes that are framed already. Does nothing if the connection is closing."""
        if not self.transport.is_closing():
            self.transport.write(data)

    def abort(self) -> None:
        """Close the connection now and discard unsent bytes. Idempotent."""
        self.transport.abort()

    def log_bad_input(self, message: str) -> None:
        """Log what the client did wrong, at most once a minute for its address."""
        client = self._find_client()
        self.shared.bad_input.warning(address_group(client[0]) if client else "", message)

    def _find_client(self) -> tuple[str, int] | None:
        """Return address and port of the client, as far as they are known."""
        return cast("tuple[str, int] | None", self.transport.get_extra_info("peername"))

    def pause_writing(self) -> None:
        super().pause_writing()
        self.is_behind = True

    def resume_writing(self) -> None:
        super().resume_writing()
        self._set_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        self.shared.clients.remove(self)
        super().connection_lost(exc)
        self._set_writable()

    def _set_writable(self) -> None:
        self.is_behind = False
        if self.on_writable is not None:
            self.on_writable()


class HttpConnection(Connection, HttpToolsProtocol):
    """uvicorn's HTTP protocol, on which an application can also write chunks of a streamed response.

    The parser gets one request at a time, see `RequestFraming`.
    """

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
        assert isinstance(server_state, SharedState)
        self.shared = server_state
        self.lost = asyncio.Event()
        self._framing = RequestFraming()
        self._is_message_complete = False
        self._is_stream = False
        self._is_refused = False
        self._timer = Timer(self.loop)
        """Runs until the head or the body is complete, or until the connection is closed."""
        self._write_timer = Timer(self.loop)
        """Runs while the client is behind."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        peer = self.client[0] if self.client else ""
        address = None if peer in self.shared.proxies else address_group(peer)
        if not self.shared.clients.add(self, address):
            self.log_bad_input("refused, because there are too many connections")
            self.write(encode_error(Unavailable("there are too many connections; try again later")))
            self.transport.close()
            return
        self._timer.start(self.shared.limits.header_timeout, self._on_head_timeout)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._unset_keepalive_if_required()
        self._framing.add(data)
        self._parse()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        _store_connection(self.scope, self)
        self._is_message_complete = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_message_complete = True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.shared.clients.set_waiting(self)
        if self.transport.is_closing():
            self._abort_if_unsent()
        elif len(self._framing):
            self._unset_keepalive_if_required()
            self._parse()

    def handle_websocket_upgrade(self) -> None:
        longest = max((len(name) + len(value) for name, value in self.headers), default=0)
        if max(longest, len(self.url)) > _MAX_HANDSHAKE_LINE - 100:
            raise HeadersTooLarge(
                f"a line of a websocket handshake exceeds {_MAX_HANDSHAKE_LINE} bytes",
                limit=_MAX_HANDSHAKE_LINE,
            )
        self._timer.cancel()
        super().handle_websocket_upgrade()
        websocket = self.transport.get_protocol()
        assert isinstance(websocket, WebSocketConnection)
        self.shared.clients.replace(self, websocket)
        if not websocket.handshake_initiated:
            websocket.log_bad_input("sent an invalid websocket handshake")
            websocket.write(encode_error(BadRequest("the websocket handshake is invalid")))
            self.transport.close()

    async def respond(self, status: int, fields: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Answer the request with one write. Does nothing if the client is gone."""
        if self.flow.write_paused:
            await self.flow.drain()
        cycle = self._unanswered
        if cycle is None or cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        closing = () if cycle.keep_alive else ((b"connection", b"close"),)
        content = b"" if cycle.scope["method"] == "HEAD" else body
        self.write(encode_response(status, (*cycle.default_headers, *fields, *closing), content))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    def start_stream(self) -> None:
        """The response is a stream of unlimited length: its writer bounds what is unsent."""
        self._is_stream = True

    def set_waiting(self) -> None:
        """The request waits for another one of the same client. It may be aborted to make room for others."""
        self.shared.clients.set_waiting(self)

    def close(self) -> None:
        """Close the connection after the unsent bytes were sent."""
        self.transport.close()

    def abort(self) -> None:
        if not self.lost.is_set():
            super().abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        if not self._is_stream:
            self.shared.clients.set_waiting(self)
            # A slow client that reads may take as long as it needs.
            self._write_timer.start_watch(
                self.shared.limits.write_timeout, lambda: self.buffered_bytes, self.abort
            )

    def resume_writing(self) -> None:
        super().resume_writing()
        self._write_timer.cancel()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._abort_if_unsent()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._write_timer.cancel()
        # uvicorn leaves it running if the connection was lost by an error.
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        self.lost.set()
        if self.on_lost is not None:
            self.on_lost()

    def shutdown(self) -> None:
        super().shutdown()
        if self.on_shutdown is not None:
            self.on_shutdown()

    @property
    def _unanswered(self) -> RequestResponseCycle | None:
        """The request that was read and not answered completely."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return None if cycle is None or cycle.response_complete else cycle

    def _parse(self) -> None:
        """Pass what was received to the parser, up to the end of a request that must be answered first."""
        turn_ends = time.monotonic() + _TURN_SECONDS
        try:
            while not self.transport.is_closing():
                is_head = self._framing.is_in_head
                if is_head and self._unanswered is not None:
                    if len(self._framing) > _MAX_UNREAD:
                        self.flow.pause_reading()
                    return
                piece = self._framing.take()
                if piece is None:
                    self._start_timer()
                    return
                if not self._feed(piece, is_head=is_head):
                    return
                if time.monotonic() > turn_ends:
                    self.flow.pause_reading()
                    self.loop.call_soon(self._continue)
                    return
        except HttpParserError:
            self._refuse(BadRequest("this is not a valid HTTP request"))
        except FarsteerError as error:
            self._refuse(error)

    def _start_timer(self) -> None:
        """More bytes are needed. Those of a body that is awaited start it again: a slow client may take its time."""
        if not self._framing.is_in_head and (self._unanswered is not None or not self._timer.is_running):
            self._timer.start(self.shared.limits.body_timeout, self._on_body_timeout)
        elif not self._timer.is_running:
            self._timer.start(self.shared.limits.header_timeout, self._on_head_timeout)

    def _continue(self) -> None:
        if not self.transport.is_closing() and not self._is_refused:
            self.flow.resume_reading()
            self._parse()

    def _feed(self, piece: bytes, *, is_head: bool) -> bool:
        """Pass a piece to the parser. Returns False if the connection has become a websocket."""
        assert self.parser is not None
        try:
            self.parser.feed_data(piece)
        except HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
                return False
        if is_head and not self._is_message_complete:
            fields = dict(self.headers)
            length = None if b"transfer-encoding" in fields else int(fields.get(b"content-length", b"0"))
            self._framing.expect_body(length)
        if self._framing.is_in_head:
            if not self._is_message_complete:
                raise BadRequest("the request has an invalid body")
            self._timer.cancel()
            if self._unanswered is not None:
                self.shared.clients.set_busy(self)
        return True

    def _refuse(self, error: FarsteerError) -> None:
        """Answer a request that no application will see, and close the connection."""
        self._is_refused = True
        self.log_bad_input(f"sent an invalid request: {error.message}")
        cycle = self._unanswered
        if cycle is not None:
            cycle.disconnected, cycle.waiting_for_100_continue = True, False
            cycle.message_event.set()
        if cycle is not None and cycle.response_started:
            self.abort()
            return
        self.write(encode_error(error))
        if self.transport.is_closing():
            return
        # Closing at once would discard the answer, because the client may still be sending.
        self.flow.resume_reading()
        self.transport.write_eof()
        self._timer.start(self.shared.limits.close_timeout, self.abort)

    def _on_head_timeout(self) -> None:
        if len(self._framing):
            self._refuse(RequestTimeout("the headers did not arrive in time"))
        else:
            self.transport.close()

    def _on_body_timeout(self) -> None:
        if self._unanswered is None:
            self.abort()
        else:
            self._refuse(RequestTimeout("the body did not arrive in time"))

    def _abort_if_unsent(self) -> None:
        """The connection is closing. A client that does not read would keep it open for ever."""
        if self.buffered_bytes:
            self._timer.start(self.shared.limits.close_timeout, self.abort)


class WebSocketConnection(Connection, WebSocketsSansIOProtocol):
    """uvicorn's websocket protocol, on which an application can also write whole frames.

    uvicorn writes each frame with one call too, so that the frames of both never mix. Such frames are not compressed:
    compression keeps a state per connection, so the server must not offer it.
    """

    def __init__(self, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, app_state)
        assert isinstance(server_state, SharedState)
        self.shared = server_state
        self._unparsed = bytearray()
        self._is_parsing_later = False
        self._fragments = bytearray()
        self.received_bytes = 0

    def ping(self) -> None:
        """Send a ping, unless the connection is closing."""
        self.conn.send_ping(b"")
        self.write(b"".join(self.conn.data_to_send()))

    def data_received(self, data: bytes) -> None:
        """Parse in turns: a read of tiny frames would otherwise stop the event loop for a third of a second."""
        self.received_bytes += len(data)
        self._unparsed += data
        if not self._is_parsing_later:
            self._parse()

    def _parse(self) -> None:
        self._is_parsing_later = False
        turn_ends = time.monotonic() + _TURN_SECONDS
        while self._unparsed and not self.transport.is_closing():
            if time.monotonic() > turn_ends:
                self._is_parsing_later = True
                if not self.read_paused:
                    self.read_paused = True
                    self.transport.pause_reading()
                self.loop.call_soon(self._parse)
                return
            piece = bytes(self._unparsed[:_PIECE_SIZE])
            del self._unparsed[:_PIECE_SIZE]
            super().data_received(piece)
        self._unparsed.clear()
        self._resume_reading()

    async def receive(self) -> Any:
        message = await self.queue.get()
        self._resume_reading()
        return message

    def _resume_reading(self) -> None:
        if self.read_paused and self.queue.empty() and not self._is_parsing_later:
            self.read_paused = False
            self.transport.resume_reading()

    def handle_cont(self, event: Frame) -> None:
        # One buffer, because a list of tiny fragments takes many times their size.
        self._fragments += event.data
        if event.fin:
            self.frames = [self.frames[0] + self._fragments]
            self._fragments.clear()
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not self.close_sent and not is_utf8(self.frames[0]):
            self.log_bad_input("sent a websocket message that is not UTF-8")
            if self.conn.close_sent is None:  # a close in the same read is answered already
                self.conn.send_close(1007)
            super().handle_parser_exception()
        else:
            super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        self.log_bad_input("sent an invalid websocket frame")
        super().handle_parser_exception()

    def handle_ping(self) -> None:
        super().handle_ping()
        if self.buffered_bytes > _MAX_UNSENT_PONGS:
            self.log_bad_input("sent pings and did not read the answers")
            self.abort()

    async def run_asgi(self) -> None:
        assert not self.conn.extensions, "the server must run with ws_per_message_deflate=False"
        _store_connection(self.scope, self)
        app = self.app

        async def run_app(scope: Any, receive: Any, send: Any) -> None:
            await app(scope, receive, send)
            # A client that was refused or has left waits for nothing. Otherwise uvicorn logs an error for each.
            self.handshake_complete = self.handshake_complete or self.transport.is_closing()

        self.app = run_app
        await super().run_asgi()

    def _find_client(self) -> tuple[str, int] | None:
        # The request guard has replaced the address of a trusted proxy in the scope.
        return self.scope["client"] if self.handshake_initiated else super()._find_client()

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
    cast("dict[str, object]", scope)[SCOPE_KEY] = connection
