"""The websocket endpoint `/acp` of a hub: one JSON-RPC message per text frame, authenticated by a hub token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from farsteer.client.hub_client import HubClient
from farsteer.core.clock import now_ms
from farsteer.core.errors import FarsteerError
from farsteer.core.lines import LINE_LIMIT, Line, Oversized
from farsteer.faces.acp.server import AcpOptions, serve
from farsteer.faces.in_process_client import InProcessClient
from farsteer.hub import Caller, Hub
from farsteer.jsonrpc.time_slice import TimeSlice
from farsteer.server.auth import bearer_token, client_address, set_authenticated
from farsteer.server.peer_watch import PeerWatch
from farsteer.server.responses import error_response
from farsteer.server.scopes import get_connection
from farsteer.server.uvicorn_protocols import WebSocketConnection
from farsteer.server.websocket import close_websocket

_QUOTED_BYTES = 200
_POLICY_VIOLATION = 1008
_CHECK_SECONDS = 15.0
_MAX_TIMER_SECONDS = 10 * 365 * 86400


class AcpEndpoint:
    """ASGI application. A connection ends when its token expires or is revoked."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HTTPConnection(scope)
        try:
            caller = self._hub.tokens.authenticate(bearer_token(request.headers), client_address(request))
            set_authenticated(scope)
            self._hub.sockets.check(caller.namespace)
        except FarsteerError as error:
            await error_response(error)(scope, receive, send)
            return
        get_connection(scope, WebSocketConnection).set_message_limit(LINE_LIMIT)
        with self._hub.sockets.opened(caller.namespace):
            await self._serve(WebSocket(scope, receive, send), caller)

    async def _serve(self, socket: WebSocket, caller: Caller) -> None:
        tokens = self._hub.tokens
        await socket.accept()
        watch = PeerWatch(get_connection(socket.scope, WebSocketConnection), _CHECK_SECONDS)

        @asynccontextmanager
        async def open_hub() -> AsyncGenerator[HubClient]:
            yield InProcessClient(self._hub, caller)

        loop = asyncio.get_running_loop()
        serving = loop.create_task(serve(WebSocketTransport(socket), AcpOptions(), open_hub))
        seconds_left = max(caller.expires_at - now_ms(), 0) / 1000
        expiry = loop.call_later(min(seconds_left, _MAX_TIMER_SECONDS), serving.cancel)

        def on_revoke(token_id: str) -> None:
            if token_id == caller.token_id:
                serving.cancel()

        unsubscribe = tokens.on_revoke(on_revoke)
        if not tokens.is_valid(caller.token_id):
            # It was revoked while the connection was being accepted.
            serving.cancel()
        try:
            await asyncio.wait([serving])
            await close_websocket(socket, _POLICY_VIOLATION)
        finally:
            watch.close()
            expiry.cancel()
            unsubscribe()
            serving.cancel()


class WebSocketTransport:
    """A `Transport` over a websocket, with one line per frame."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def batches(self) -> AsyncIterator[list[Line]]:
        while True:
            try:
                message = await self._socket.receive()
            except RuntimeError:
                return
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            data = text.encode() if isinstance(text, str) else message.get("bytes") or b""
            if data.strip():
                yield [data if len(data) <= LINE_LIMIT else Oversized(len(data), data[:_QUOTED_BYTES])]

    async def write(self, data: bytes) -> None:
        time_slice = TimeSlice()
        for line in data.splitlines():
            await self._socket.send_text(line.decode())
            await time_slice.give_way()
