"""A small application on a real server and port, and a client that sends exactly the given bytes."""

import asyncio
import base64
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from starlette.types import Receive, Scope, Send

from farsteer.server.auth import set_authenticated
from farsteer.server.limits import ServerLimits
from farsteer.server.server import run_server

DEADLINE = 10.0


class EchoApp:
    """Answers with the body, `/large` with much, a websocket with each message. `/token` accepts any token."""

    def __init__(self) -> None:
        self.running = 0
        self.most_running = 0
        self.requests = 0
        self.disconnects = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._echo(receive, send)
            return
        self.requests += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await self._answer(scope, receive, send)
        finally:
            self.running -= 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/token":
            set_authenticated(scope)
        body = b"x" * 8 * 1024 * 1024 if scope["path"] == "/large" else b""
        more = scope["method"] == "POST"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.disconnects += 1
                return
            body += message["body"]
            more = message["more_body"]
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _echo(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message.get("text"), "bytes": message.get("bytes")})


@asynccontextmanager
async def serving(app: Any, limits: ServerLimits | None = None) -> AsyncIterator[int]:
    """Yields the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
    async with run_server(app, listener, shutdown_seconds=1, max_frame=1024 * 1024, limits=limits):
        yield listener.getsockname()[1]
    listener.close()


class RawClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.transport = cast("asyncio.Transport", writer.transport)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def response(self) -> tuple[int, bytes]:
        """Return status and body of the next response."""
        async with asyncio.timeout(DEADLINE):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = head.partition("content-length: ")[2].partition("\r\n")[0]
            return int(head.split()[1]), await self.reader.readexactly(int(length or 0))

    async def error(self) -> tuple[int, str]:
        """Return status and code of the next response."""
        status, body = await self.response()
        return status, json.loads(body)["error"]["code"]

    async def wait_closed(self) -> bytes:
        """Wait until the server has closed the connection, and return what it sent before."""
        received = b""
        async with asyncio.timeout(DEADLINE):
            try:
                while data := await self.reader.read(65536):
                    received += data
            except ConnectionError:
                pass
        return received


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()


def handshake(*fields: str, path: str = "/") -> bytes:
    """Return the head of a websocket handshake."""
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        f"GET {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", *fields,
    ]  # fmt: skip
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def frame(first: int, body: bytes) -> bytes:
    """Return a masked websocket frame."""
    size = bytes([0x80 | len(body)]) if len(body) < 126 else b"\xfe" + len(body).to_bytes(2)
    return bytes([first]) + size + bytes(4) + body
