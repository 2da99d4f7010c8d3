"""Everything that depends on the insides of python-socketio and python-engineio.

No other module may import engineio, subclass a class of either library or touch their undocumented attributes.
`tests/test_private_apis.py` checks that every name used here still exists with the expected signature, and
pyproject.toml bounds the versions, so that an incompatible upgrade fails in one place.

The libraries keep handshake, polling, upgrade, authentication and acknowledgements. Replaced are:

- the packet queue of a client, to know how much waits in it and when it is empty;
- the path of broadcast events, see `ClientConnection`;
- closing, so that nothing waits for a client that never reads;
- the validation of what clients send: anything a Socket.IO 4 client would not send closes the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, MutableMapping, Sequence
from contextlib import suppress
from types import MethodType
from typing import Any, Literal, cast

import engineio
import socketio
from engineio.async_drivers import asgi
from engineio.async_socket import AsyncSocket
from engineio.packet import CLOSE, MESSAGE, Packet
from socketio import packet as socketio_packet
from starlette.datastructures import Headers, QueryParams
from starlette.requests import HTTPConnection
from starlette.types import Message, Receive, Scope, Send

from farsteer.core.errors import ErrorCode
from farsteer.faces.events.frames import EVENT_PREFIX, NAMESPACE, Batch, encode_websocket_frames
from farsteer.faces.events.options import EventLimits
from farsteer.faces.events.packet_queue import PacketQueue
from farsteer.faces.events.packets import JsonCodec, check_payload, is_valid_packet
from farsteer.hub.feed import SyncEvent
from farsteer.hub.settings import Limits
from farsteer.server.auth import client_address, log_bad_input
from farsteer.server.connection_limit import ConnectionLimit
from farsteer.server.scopes import get_connection
from farsteer.server.uvicorn_protocols import HttpConnection, WebSocketConnection

Environ = MutableMapping[str, Any]
Spawn = Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]]

_INVALID_PACKET = "sent an invalid Socket.IO packet"
_RESERVED_EVENTS = frozenset({"connect", "connect_error", "disconnect", "disconnecting"})

# At INFO the libraries log what clients send, tokens included. They must not, whatever the root logger's level is.
_library_logger = logging.getLogger(f"{__name__}.library")
_library_logger.setLevel(logging.ERROR)


class SocketIOServer(socketio.AsyncServer):
    """A Socket.IO server with the one namespace `/events`, as an ASGI application for `/socket.io/`.

    `on_connected` is called with the session id after the client was told that it is connected.
    """

    eio: EngineIOServer

    def __init__(self, limits: EventLimits, quotas: Limits, on_connected: Callable[[str], None]) -> None:
        self._message_size = limits.message_size
        super().__init__(
            client_manager=_ClientManager(on_connected),
            serializer=SocketIOPacket,
            namespaces=[NAMESPACE],
            async_mode="asgi",
            async_handlers=False,
            logger=cast("Any", _library_logger),
            engineio_logger=_library_logger,
            # The request guard checks origins, for every face alike.
            cors_allowed_origins=[],
            http_compression=False,
            max_http_buffer_size=limits.message_size,
            ping_interval=limits.ping_interval,
            ping_timeout=limits.ping_timeout,
            limits=limits,
            quotas=quotas,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientDisconnected):
            if scope["type"] == "http":
                await self._handle_http(scope, receive, send)
            else:
                await self.handle_request(scope, receive, send)

    async def close(self) -> None:
        await self.eio.close()

    def find_connection(self, sid: str) -> ClientConnection | None:
        return self.eio.connections.get(cast("str", self.manager.eio_sid_from_sid(sid, NAMESPACE)))

    def discard_session(self, sid: str) -> None:
        """Forget a Socket.IO session whose connection is closed already."""
        self.manager.basic_disconnect(sid, NAMESPACE)

    async def _handle_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request of a polling client; while it polls, abort it if it disconnects or the server stops."""
        connection = get_connection(scope, HttpConnection)
        eio_sid = QueryParams(scope["query_string"]).get("sid", "")
        client = self.eio.connections.get(eio_sid)
        if client is not None and client.is_authenticated:
            connection.set_authenticated()
        length = Headers(scope=scope).get("content-length", "0")
        if len(length) > 15 or int(length) > self._message_size:
            # Refused by its length. python-engineio would read the whole body first.
            receive = _receive_nothing
        if scope["method"] != "GET":
            await self.handle_request(scope, receive, send)
            return

        def abort() -> None:
            client = self.eio.connections.get(eio_sid)
            if client is not None and not client.socket.upgraded:
                client.abort()

        connection.set_waiting()
        connection.on_shutdown = connection.on_lost = abort
        try:
            await self.handle_request(scope, receive, send)
        finally:
            connection.on_shutdown = connection.on_lost = None

    def _engineio_server_class(self) -> type[EngineIOServer]:
        return EngineIOServer

    async def _handle_eio_connect(self, eio_sid: str, environ: Environ) -> None:
        await super()._handle_eio_connect(eio_sid, environ)
        self.eio.add_connection(eio_sid, client_address(HTTPConnection(environ["asgi.scope"])))

    async def _handle_eio_disconnect(self, eio_sid: str, reason: str) -> None:
        await super()._handle_eio_disconnect(eio_sid, reason)
        self.eio.remove_connection(eio_sid)

    async def _handle_eio_message(self, eio_sid: str, data: Any) -> None:
        client = self.eio.connections.get(eio_sid)
        if client is None:
            # Closed by an earlier packet of the same payload. Connecting now would leave an entry for ever.
            return
        try:
            await super()._handle_eio_message(eio_sid, data)
        except ValueError:
            # An invalid packet, see SocketIOPacket.
            log_bad_input(self.environ[eio_sid]["asgi.scope"], _INVALID_PACKET)
            client.abort()

    async def _handle_connect(self, eio_sid: str, namespace: str | None, data: Any) -> None:
        if namespace == NAMESPACE and self.manager.sid_from_eio_sid(eio_sid, NAMESPACE) is None:
            await super()._handle_connect(eio_sid, namespace, data)
            return
        refusal = {
            "message": f"connect to the namespace {NAMESPACE}, once",
            "data": {"code": ErrorCode.NOT_FOUND},
        }
        await self._send_packet(
            eio_sid,
            SocketIOPacket(socketio_packet.CONNECT_ERROR, data=refusal, namespace=namespace or "/"),
        )


class _ClientManager(socketio.AsyncManager):
    def __init__(self, on_connected: Callable[[str], None]) -> None:
        super().__init__()
        self._on_connected = on_connected

    async def connect(self, sid: str, namespace: str) -> str:
        await super().connect(sid, namespace)
        self._on_connected(sid)
        return sid


class EngineIOServer(engineio.AsyncServer):
    """python-engineio's server with our queue and websocket, which owns every task it starts."""

    def __init__(self, *, limits: EventLimits, quotas: Limits, **options: Any) -> None:
        super().__init__(**options)
        self._async = {
            **asgi._async,  # pyright: ignore[reportPrivateUsage]
            "websocket": EngineIOWebSocket,
            "translate_request": _translate_request,
        }
        self._limits = limits
        self.connections: dict[str, ClientConnection] = {}
        self.unauthenticated: ConnectionLimit[ClientConnection] = ConnectionLimit(
            quotas.connections, quotas.address_connections
        )
        """Handshakes are limited like connections, because one connection can do many."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def create_queue(self, *args: Any, **kwargs: Any) -> PacketQueue:
        return PacketQueue(self._limits.soft_limit)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def start_background_task(
        self, target: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **kwargs: Any
    ) -> asyncio.Task[Any]:
        task = self.spawn(target(*args, **kwargs))
        owner = getattr(target, "__self__", None)
        if isinstance(owner, AsyncSocket) and owner.sid in self.connections:
            self.connections[owner.sid].ping_task = task
        return task

    def add_connection(self, eio_sid: str, address: str) -> None:
        client = ClientConnection(
            self.sockets[eio_sid], address, self._limits, self.spawn, self.unauthenticated
        )
        self.connections[eio_sid] = client
        self.unauthenticated.add(client, address)
        client.abort_after(self._limits.connect_timeout)

    def remove_connection(self, eio_sid: str) -> None:
        """Idempotent."""
        client = self.connections.pop(eio_sid, None)
        if client is not None:
            self.sockets.pop(eio_sid, None)
            self.unauthenticated.remove(client)
            client.on_disconnected()

    async def disconnect(self, sid: str | None = None) -> None:
        """Close one client without waiting until it has fetched what is queued for it."""
        socket = cast("AsyncSocket | None", self.sockets.get(sid))
        if socket is not None:
            await socket.close(wait=False)

    async def close(self) -> None:
        for client in tuple(self.connections.values()):
            client.abort()
            await client.socket.close(wait=False, abort=True)
            client.cancel_abort()
        await self.shutdown()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class ClientConnection:
    """One Engine.IO connection, whichever transport it uses now.

    Packets reach the client in order in one of three ways: in the response to a poll, through the queue and the
    websocket writer of Engine.IO, or written directly to the websocket. Direct writing is allowed only while the
    queue is empty and the writer waits on it. The writer waits again only after it has written everything it took,
    and it is started only after the client has completed its upgrade, which it does after its last poll was answered.
    So a direct write overtakes no packet, and everything queued later is sent later.

    Direct writing is kept because it is cheaper: in an interleaved A/B with 50 clients the process used 29 µs of CPU
    per delivery at 100 messages a second, and 47 µs with the same frames sent through the queue; in a burst 0.78 µs
    and 0.93 µs.
    """

    def __init__(
        self,
        socket: AsyncSocket,
        address: str,
        limits: EventLimits,
        spawn: Spawn,
        unauthenticated: ConnectionLimit[ClientConnection],
    ) -> None:
        self.socket = socket
        self.address = address
        """Of the client, from which the connection was opened."""
        self._unauthenticated = unauthenticated
        self.is_authenticated = False
        self.queue: PacketQueue = socket.queue
        self.queue.on_writable = self._notify_writable
        self._limits = limits
        self._spawn = spawn
        self._websocket: WebSocketConnection | None = None
        self._abort_timer: asyncio.TimerHandle | None = None
        self.on_writable: Callable[[], None] | None = None
        """Called when the client may no longer be behind."""
        self.ping_task: asyncio.Task[Any] | None = None
        """Engine.IO's task that waits until the next ping is due."""

    @property
    def is_behind(self) -> bool:
        """Whether more than the soft limit is unsent."""
        websocket = self._websocket
        return (websocket is not None and websocket.is_behind) or self.queue.is_behind

    @property
    def buffered_bytes(self) -> int:
        """The amount that is queued or unsent."""
        return self.queue.size + (0 if self._websocket is None else self._websocket.buffered_bytes)

    def send(self, batch: Batch) -> None:
        """Send events after everything sent before: directly if possible, else through the queue."""
        if self._websocket is not None and self.queue.is_idle and self.socket.upgraded:
            self._websocket.write(batch.encoded(encode_websocket_frames))
        else:
            self.enqueue(*batch.encoded(encode_packets))

    def send_event(self, name: str, data: bytes) -> None:
        """Queue one Socket.IO event; `data` is JSON."""
        self.enqueue(encode_named_event(name, data))

    def enqueue(self, *packets: Packet | None) -> None:
        for packet in packets:
            self.queue.put_nowait(packet)

    def set_authenticated(self) -> None:
        """The client has shown a valid token: it may stay."""
        self.is_authenticated = True
        self.cancel_abort()
        self._unauthenticated.set_authenticated(self)
        if self._websocket is not None:
            self._websocket.set_authenticated()

    def attach_websocket(self, websocket: WebSocketConnection) -> bool:
        """Return False if there is one already: both would read the same queue."""
        if self._websocket is not None:
            return False
        if self.is_authenticated:
            websocket.set_authenticated()
        websocket.set_message_limit(self._limits.message_size)
        websocket.set_write_limit(self._limits.soft_limit)
        websocket.on_writable = self._notify_writable
        self._websocket = websocket
        return True

    def detach_websocket(self) -> None:
        self._websocket = None

    def abort_after(self, seconds: float) -> None:
        """Abort after this time unless `cancel_abort` is called. Replaces an earlier deadline."""
        self.cancel_abort()
        self._abort_timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def cancel_abort(self) -> None:
        if self._abort_timer is not None:
            self._abort_timer.cancel()
            self._abort_timer = None

    def close_after_queue(self) -> None:
        """Close the transport after everything queued was sent, and abort if that exceeds the close timeout."""
        self.abort_after(self._limits.close_timeout)
        if self.socket.upgraded:
            self.queue.put_nowait(None)
        else:
            # Alone: the JavaScript client drops events that come in the same payload.
            self.queue.end_with(Packet(CLOSE))

    def abort(self) -> None:
        """Close at once, whatever is queued."""
        if self._websocket is not None:
            self._websocket.abort()
        if not self.socket.upgraded:
            self._spawn(self.socket.close(wait=False, abort=True))

    def on_disconnected(self) -> None:
        """Called when the Engine.IO session has ended. A websocket that is still open gets time to close."""
        if self.ping_task is not None and self.ping_task is not asyncio.current_task():
            self.ping_task.cancel()
        if not self.socket.upgraded:
            # Ends a poll that waits.
            self.queue.put_nowait(None)
        if self._websocket is None:
            self.cancel_abort()
        else:
            self.abort_after(self._limits.close_timeout)

    def _notify_writable(self) -> None:
        if self.on_writable is not None:
            self.on_writable()


def encode_packets(events: Sequence[SyncEvent]) -> list[Packet]:
    """Encode each event as an Engine.IO packet, for polling clients and busy websockets."""
    return [Packet(MESSAGE, f"{EVENT_PREFIX}{event.data.decode()}]") for event in events]


def encode_named_event(name: str, data: bytes) -> Packet:
    return Packet(MESSAGE, f'2{NAMESPACE},["{name}",{data.decode()}]')


class EngineIOWebSocket(asgi.WebSocket):
    """The websocket of a client, from the handshake to its end. Checks incoming packets."""

    def __init__(self, handler: MethodType, server: EngineIOServer) -> None:
        super().__init__(handler, server)
        self._server = server
        self._socket = cast("AsyncSocket", handler.__self__)
        self._connection: WebSocketConnection | None = None

    async def __call__(self, environ: Environ) -> Literal[""]:
        socket = self._socket
        client = self._server.connections.get(socket.sid)
        websocket = get_connection(environ["asgi.scope"], WebSocketConnection)
        if client is None or not client.attach_websocket(websocket):
            await environ["asgi.send"]({"type": "websocket.close"})
            return ""
        self._connection = websocket
        try:
            await super().__call__(environ)
        finally:
            client.detach_websocket()
            socket.upgrading = False
            if not socket.closed and (socket.upgraded or not socket.connected):
                client.enqueue(None)
                await socket.close(wait=False, abort=True)
            if socket.closed:
                client.cancel_abort()
        return ""

    async def wait(self) -> str:
        text: Any = cast("Any", await super().wait())
        if not isinstance(text, str) or not is_valid_packet(text):
            if self._connection is not None:
                self._connection.log_bad_input(_INVALID_PACKET)
            raise OSError(_INVALID_PACKET)
        return text


class ClientDisconnected(Exception):
    """The client closed its connection before its request was read."""


async def _translate_request(scope: Environ, receive: Any, send: Any) -> Environ:
    environ = cast("Environ", await asgi.translate_request(scope, receive, send))
    if not environ:
        raise ClientDisconnected
    environ["wsgi.input"] = _CheckedBody(environ["wsgi.input"], scope)
    return environ


class _CheckedBody:
    def __init__(self, body: Any, scope: Scope) -> None:
        self._body = body
        self._scope = scope

    async def read(self, length: int | None = None) -> bytes:
        body = await self._body.read(length)
        checked = check_payload(body)
        if checked != body:
            log_bad_input(self._scope, _INVALID_PACKET)
        return checked


async def _receive_nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


class SocketIOPacket(socketio_packet.Packet):
    """A Socket.IO packet whose decoding raises ValueError for anything but connect, disconnect, event and ack."""

    json = JsonCodec
    uses_binary_events = False

    def decode(self, encoded_packet: str) -> int:
        attachments = super().decode(encoded_packet)
        data = cast("Any", self.data)
        if attachments or self.packet_type not in (
            socketio_packet.CONNECT,
            socketio_packet.DISCONNECT,
            socketio_packet.EVENT,
            socketio_packet.ACK,
        ):
            raise ValueError("an unexpected packet")
        if self.packet_type == socketio_packet.EVENT:
            name = cast("list[Any]", data)[0] if isinstance(data, list) and data else None
            if not isinstance(name, str) or name in _RESERVED_EVENTS:
                raise ValueError("not an event")
        return 0
