"""`/link`: where the runner of another process or machine connects.

A runner shows its access token in the Authorization header. Once accepted, the socket is a `Transport` like any other.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from farsteer.core.errors import FarsteerError
from farsteer.hub import Hub
from farsteer.link.frames import decode_at_hub, encode_frame
from farsteer.link.messages import ToHub, ToRunner
from farsteer.link.transport import LinkClosed
from farsteer.server.auth import address, bearer
from farsteer.server.responses import error_reply
from farsteer.server.websocket import close_socket


class LinkEndpoint:
    """An ASGI application for one websocket path."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HTTPConnection(scope)
        try:
            runner = await self._hub.tokens.link_caller(bearer(request.headers), address(request))
        except FarsteerError as error:
            await error_reply(error)(scope, receive, send)
            return
        socket = WebSocket(scope, receive, send)
        await socket.accept()
        transport = HubWebSocketTransport(socket)
        try:
            await self._hub.link.serve(transport, runner.namespace, token_id=runner.token_id)
        finally:
            await transport.close()


class HubWebSocketTransport:
    """The hub's end of the link."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def send(self, message: ToRunner) -> None:
        frame = encode_frame(message)
        try:
            await self._socket.send_bytes(frame)
        except (WebSocketDisconnect, RuntimeError) as closed:
            # Starlette says RuntimeError for a socket that one of us has closed already.
            raise LinkClosed("the runner is gone") from closed

    async def receive(self) -> ToHub:
        try:
            message = await self._socket.receive()
        except RuntimeError as closed:
            raise LinkClosed("the link is closed") from closed
        if message["type"] == "websocket.disconnect":
            raise LinkClosed(f"the runner hung up ({message.get('code')})")
        return decode_at_hub(message.get("bytes") or message.get("text") or b"")

    async def close(self) -> None:
        await close_socket(self._socket)
