"""Engine.IO as python-engineio has it, with our queue, our websockets and an owner for every task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, Literal, cast

import engineio
from engineio.async_drivers import asgi
from engineio.async_socket import AsyncSocket

from farsteer.faces.events.limits import Limits
from farsteer.faces.events.packets import acceptable, checked_payload
from farsteer.faces.events.peer import Peer
from farsteer.faces.events.queue import PacketQueue
from farsteer.server.connection import connection_of
from farsteer.server.websocket_protocol import WebSocketConnection

Environ = MutableMapping[str, Any]


class ClientGone(Exception):
    """The client hung up before its request was read."""


class Engine(engineio.AsyncServer):
    limits = Limits()

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._async = {**asgi._async, "websocket": WebSocket, "translate_request": _translate_request}  # pyright: ignore[reportPrivateUsage]
        self.peers: dict[str, Peer] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def create_queue(self, *args: Any, **kwargs: Any) -> PacketQueue:
        return PacketQueue(self.limits.soft)

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
        if isinstance(owner, AsyncSocket) and owner.sid in self.peers:
            self.peers[owner.sid].ping = task
        return task

    def connected(self, sid: str) -> None:
        peer = self.peers[sid] = Peer(self.sockets[sid], self.limits, self.spawn)
        peer.leave_within(self.limits.connect)

    def disconnected(self, sid: str) -> None:
        peer = self.peers.pop(sid, None)
        if peer is not None:
            self.sockets.pop(sid, None)
            peer.gone()

    async def disconnect(self, sid: str | None = None) -> None:
        """As it is, but without waiting for a client that may never fetch what is queued for it."""
        socket = cast("AsyncSocket | None", self.sockets.get(sid))
        if socket is not None:
            await socket.close(wait=False)

    async def close(self) -> None:
        for peer in tuple(self.peers.values()):
            peer.cut()
            await peer.socket.close(wait=False, abort=True)
            peer.stay()
        await self.shutdown()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class WebSocket(asgi.WebSocket):
    """The websocket of a peer, from the handshake to its end. What comes in is checked here."""

    def __init__(self, handler: Callable[..., Awaitable[None]], server: Engine) -> None:
        super().__init__(handler, server)
        self._engine = server
        self._socket: AsyncSocket = handler.__self__  # pyright: ignore[reportFunctionMemberAccess]

    async def __call__(self, environ: Environ) -> Literal[""]:
        socket = self._socket
        peer = self._engine.peers.get(socket.sid)
        connection = connection_of(environ["asgi.scope"], WebSocketConnection)
        if peer is None or not peer.attach(connection):
            await environ["asgi.send"]({"type": "websocket.close"})
            return ""
        try:
            await super().__call__(environ)
        finally:
            peer.detach()
            socket.upgrading = False
            if not socket.closed and (socket.upgraded or not socket.connected):
                peer.put(None)
                await socket.close(wait=False, abort=True)
            if socket.closed:
                peer.stay()
        return ""

    async def wait(self) -> str:
        text: Any = cast("Any", await super().wait())
        if not isinstance(text, str) or not acceptable(text):
            raise OSError("not a packet of Socket.IO")
        return text


async def _translate_request(scope: Environ, receive: Any, send: Any) -> Environ:
    environ = cast("Environ", await asgi.translate_request(scope, receive, send))
    if not environ:
        raise ClientGone
    environ["wsgi.input"] = _Body(environ["wsgi.input"])
    return environ


class _Body:
    def __init__(self, body: Any) -> None:
        self._body = body

    async def read(self, length: int | None = None) -> bytes:
        return checked_payload(await self._body.read(length))
