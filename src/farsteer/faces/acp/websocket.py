"""`/acp`: the same for editors that come over a websocket, one message per frame, with the hub's own tokens."""

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
from farsteer.faces.acp.greeting import Options
from farsteer.faces.acp.server import converse
from farsteer.faces.in_process_client import InProcessClient
from farsteer.hub import Hub
from farsteer.server.auth import address, bearer
from farsteer.server.responses import error_reply
from farsteer.server.websocket import close_socket

_HEAD = 200
_POLICY = 1008


class AcpEndpoint:
    """An ASGI application for one websocket path."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HTTPConnection(scope)
        tokens = self._hub.tokens
        try:
            caller = tokens.identify(bearer(request.headers), address(request))
        except FarsteerError as error:
            await error_reply(error)(scope, receive, send)
            return
        socket = WebSocket(scope, receive, send)
        await socket.accept()

        @asynccontextmanager
        async def hub() -> AsyncGenerator[HubClient]:
            yield InProcessClient(self._hub, caller)

        loop = asyncio.get_running_loop()
        conversing = loop.create_task(converse(Frames(socket), Options(), hub))
        left = max(caller.expires_at - now_ms(), 0) / 1000
        over = loop.call_later(min(left, 10 * 365 * 86400), conversing.cancel)

        def revoked(token_id: str) -> None:
            if token_id == caller.token_id:
                conversing.cancel()

        forget = tokens.on_revoke(revoked)
        try:
            await asyncio.wait([conversing])
            await close_socket(socket, _POLICY)
        finally:
            over.cancel()
            forget()
            conversing.cancel()


class Frames:
    """A websocket as a peer's road."""

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
                yield [data if len(data) <= LINE_LIMIT else Oversized(len(data), data[:_HEAD])]

    async def write(self, data: bytes) -> None:
        for line in data.splitlines():
            await self._socket.send_text(line.decode())
