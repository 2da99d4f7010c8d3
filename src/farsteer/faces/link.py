"""`/link`: the websocket that a runner in another process or on another machine connects to.

The runner sends its access token in the Authorization header.
"""

from __future__ import annotations

import asyncio

from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from farsteer.core.errors import FarsteerError
from farsteer.hub import Hub
from farsteer.link.channel import Channel
from farsteer.link.frames import check_at_hub, decode_at_hub
from farsteer.link.identity import token_digest
from farsteer.link.messages import ToHub, ToRunner
from farsteer.link.transport import LinkClosed
from farsteer.server.auth import bearer_token, client_address, set_authenticated
from farsteer.server.responses import error_response
from farsteer.server.scopes import get_connection
from farsteer.server.uvicorn_protocols import WebSocketConnection
from farsteer.server.websocket import close_websocket


class LinkEndpoint:
    """The ASGI application for `/link`."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HTTPConnection(scope)
        try:
            token = bearer_token(request.headers)
            runner = self._hub.tokens.authenticate_runner(token, client_address(request))
            set_authenticated(scope)
        except FarsteerError as error:
            await error_response(error)(scope, receive, send)
            return
        websocket = WebSocket(scope, receive, send)
        await websocket.accept()
        transport = HubWebSocketTransport(websocket, token_digest(token))
        try:
            await self._hub.link.serve(transport, runner.namespace, token_id=runner.token_id)
        finally:
            await transport.close()


class HubWebSocketTransport(Channel[ToRunner, ToHub]):
    """The hub's side of a link over a websocket."""

    def __init__(self, websocket: WebSocket, token_digest: bytes) -> None:
        super().__init__(token_digest)
        self._websocket = websocket
        self._connection = get_connection(websocket.scope, WebSocketConnection)

    @property
    def received_bytes(self) -> int:
        return self._connection.received_bytes

    async def _write(self, frame: bytes) -> None:
        try:
            await self._websocket.send_bytes(frame)
        except (WebSocketDisconnect, RuntimeError) as error:
            # Starlette raises RuntimeError if either side has closed the websocket already.
            raise LinkClosed("the runner has disconnected") from error

    async def _read(self) -> bytes:
        try:
            message = await self._websocket.receive()
        except RuntimeError as error:
            raise LinkClosed("the link is closed") from error
        if message["type"] == "websocket.disconnect":
            raise LinkClosed(f"the runner has disconnected ({message.get('code')})")
        return message.get("bytes") or (message.get("text") or "").encode()

    async def _decode(self, frame: bytes) -> ToHub:
        for _ in check_at_hub(frame):
            await asyncio.sleep(0)
        return decode_at_hub(frame)

    async def _close(self) -> None:
        """Idempotent, and takes at most 2 s."""
        await close_websocket(self._websocket)

    def _unsent_bytes(self) -> int:
        return self._connection.buffered_bytes
