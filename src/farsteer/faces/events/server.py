"""Socket.IO at `/events`, on python-socketio. Handshake, polling, upgrade and acks are its; the broadcast is ours.

A client connects with `auth: {token, since?, sessionId?, types?}`. It hears `ready` once, then `event` for each
SyncEvent, and `closed` before the server hangs up. It may send `auth {token}` to go on under a newer token.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, cast

import socketio
from socketio import packet
from socketio.exceptions import ConnectionRefusedError as Refused
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from farsteer.core.errors import ErrorCode, FarsteerError
from farsteer.core.wire import encode, to_builtins
from farsteer.faces.events import options
from farsteer.faces.events.batch import Filter
from farsteer.faces.events.engine import ClientGone, Engine
from farsteer.faces.events.frames import NAMESPACE, engine_event, websocket_frames
from farsteer.faces.events.limits import Limits
from farsteer.faces.events.packets import EventPacket
from farsteer.faces.events.peer import Peer
from farsteer.faces.events.subscriber import Closed, Ready, Subscriber
from farsteer.faces.events.subscriptions import Subscriptions
from farsteer.hub import Caller, Hub
from farsteer.hub.metrics import Metrics
from farsteer.server.connection import connection_of
from farsteer.server.http_protocol import HttpConnection
from farsteer.server.responses import error_body

# At INFO the libraries log what clients send, tokens included; whatever the root logger is set to, they must not.
_library_log = logging.getLogger(f"{__name__}.library")
_library_log.setLevel(logging.ERROR)


class SocketServer(socketio.AsyncServer):
    """An ASGI application for `/socket.io/`."""

    eio: Engine

    def __init__(self, hub: Hub, subscriptions: Subscriptions, limits: Limits) -> None:
        super().__init__(
            client_manager=_Manager(),
            serializer=EventPacket,
            namespaces=[NAMESPACE],
            async_mode="asgi",
            async_handlers=False,
            logger=cast("Any", _library_log),
            engineio_logger=_library_log,
            # Origins are the guard's affair, for every face alike.
            cors_allowed_origins=[],
            http_compression=False,
            max_http_buffer_size=limits.message,
            ping_interval=limits.ping_interval,
            ping_timeout=limits.ping_timeout,
        )
        self.eio.limits = limits
        self._subscriptions = subscriptions
        self._metrics = hub.metrics
        self._limits = limits
        self._entrants: dict[str, tuple[SocketSubscriber, Caller, str | None]] = {}
        """Admitted, but not yet told so."""
        self._subscribers: dict[str, SocketSubscriber] = {}
        self.on("connect", self._admit, namespace=NAMESPACE)
        self.on("auth", self._renew, namespace=NAMESPACE)
        self.on("disconnect", self._left, namespace=NAMESPACE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientGone):
            if scope["type"] == "http" and scope["method"] == "GET":
                await self._poll(scope, receive, send)
            else:
                await self.handle_request(scope, receive, send)

    async def close(self) -> None:
        await self.eio.close()

    def entered(self, sid: str) -> None:
        """The client has been told that it is connected; from now on it may be sent events."""
        subscriber, caller, since = self._entrants.pop(sid)
        if subscriber.peer.socket.closed:
            self.manager.basic_disconnect(sid, NAMESPACE)
            return
        subscriber.peer.stay()
        self._subscribers[sid] = subscriber
        self._subscriptions.enter(subscriber, caller, since)

    def forget(self, sid: str) -> None:
        """Idempotent."""
        self._entrants.pop(sid, None)
        subscriber = self._subscribers.pop(sid, None)
        if subscriber is not None:
            self._subscriptions.leave(subscriber)

    async def dismiss(self, sid: str, peer: Peer) -> None:
        await self.disconnect(sid, namespace=NAMESPACE)
        peer.hang_up()

    async def _poll(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A client that hangs up while its poll waits is gone; a server that stops does not wait for it."""
        connection = connection_of(scope, HttpConnection)
        sid = QueryParams(scope["query_string"]).get("sid", "")

        def ends() -> None:
            peer = self.eio.peers.get(sid)
            if peer is not None and not peer.socket.upgraded:
                peer.cut()

        connection.on_shutdown = connection.on_lost = ends
        try:
            await self.handle_request(scope, receive, send)
        finally:
            connection.on_shutdown = connection.on_lost = None

    async def _admit(self, sid: str, environ: MutableMapping[str, Any], data: Any) -> None:
        try:
            auth = options.auth(data)
            caller = self._subscriptions.verify(auth.token)
            wanted = options.wanted(caller.namespace, auth.session_id, auth.types)
        except FarsteerError as error:
            raise Refused(error.message, {"code": error.code, **error.details}) from None
        peer = self._peer(sid)
        assert peer is not None
        subscriber = SocketSubscriber(self, sid, peer, wanted, self._limits, self._metrics)
        self._entrants[sid] = (subscriber, caller, auth.since)

    async def _renew(self, sid: str, *data: Any) -> dict[str, Any]:
        try:
            renewal = options.renewal(data[0] if data else None)
            expires_at = self._subscriptions.renew(self._subscribers.get(sid), renewal.token)
        except FarsteerError as error:
            return {"ok": False, "error": to_builtins(error_body(error).error)}
        return {"ok": True, "expiresAt": expires_at}

    async def _left(self, sid: str, reason: str) -> None:
        self.forget(sid)
        peer = self._peer(sid)
        if peer is not None:
            peer.leave_within(self._limits.grace)

    def _peer(self, sid: str) -> Peer | None:
        return self.eio.peers.get(cast("str", self.manager.eio_sid_from_sid(sid, NAMESPACE)))

    def _engineio_server_class(self) -> type[Engine]:
        return Engine

    async def _handle_eio_connect(self, eio_sid: str, environ: MutableMapping[str, Any]) -> None:
        await super()._handle_eio_connect(eio_sid, environ)
        self.eio.connected(eio_sid)

    async def _handle_eio_disconnect(self, eio_sid: str, reason: str) -> None:
        await super()._handle_eio_disconnect(eio_sid, reason)
        self.eio.disconnected(eio_sid)

    async def _handle_eio_message(self, eio_sid: str, data: Any) -> None:
        try:
            await super()._handle_eio_message(eio_sid, data)
        except ValueError:
            # A client that talks nonsense is not worth an explanation.
            peer = self.eio.peers.get(eio_sid)
            if peer is not None:
                peer.cut()

    async def _handle_connect(self, eio_sid: str, namespace: str | None, data: Any) -> None:
        if namespace == NAMESPACE and self.manager.sid_from_eio_sid(eio_sid, NAMESPACE) is None:
            await super()._handle_connect(eio_sid, namespace, data)
            return
        refusal = {
            "message": f"connect to the namespace {NAMESPACE}, once",
            "data": {"code": ErrorCode.NOT_FOUND},
        }
        await self._send_packet(
            eio_sid, EventPacket(packet.CONNECT_ERROR, data=refusal, namespace=namespace or "/")
        )


class _Manager(socketio.AsyncManager):
    server: SocketServer

    async def connect(self, sid: str, namespace: str) -> str:
        await super().connect(sid, namespace)
        self.server.entered(sid)
        return sid


class SocketSubscriber(Subscriber):
    def __init__(
        self, server: SocketServer, sid: str, peer: Peer, wanted: Filter, limits: Limits, metrics: Metrics
    ) -> None:
        super().__init__(peer, websocket_frames, wanted, limits, metrics)
        self._server = server
        self._sid = sid
        self.peer = peer
        peer.on_writable = self.on_writable
        peer.on_direct(self.on_direct)

    def greet(self, ready: Ready) -> None:
        self.peer.put(engine_event("ready", encode(ready)))

    def end(self, error: FarsteerError) -> None:
        self.peer.put(engine_event("closed", encode(Closed(code=error.code, message=error.message))))
        self._server.eio.spawn(self._server.dismiss(self._sid, self.peer))

    def cut(self) -> None:
        self._server.forget(self._sid)
        self.peer.cut()
