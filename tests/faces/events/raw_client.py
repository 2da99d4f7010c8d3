"""Clients without a library, which send and read exactly what a test wants."""

import asyncio
import base64
import json
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.support.websocket_frames import read_frame

SMALL_BUFFER = 8 * 1024
DEADLINE = 10.0


@asynccontextmanager
async def connection(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect with small buffers, so that the server soon notices a client that stops reading."""
    address = urlsplit(url)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, (address.hostname, address.port))
    reader, writer = await asyncio.open_connection(sock=client, limit=SMALL_BUFFER)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


class RawSocket:
    """A Socket.IO client on a websocket. It reads only when `receive` is called."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, text: str) -> None:
        self.frame(0x81, text.encode())

    def frame(self, first: int, body: bytes) -> None:
        size = len(body)
        if size < 126:
            head = struct.pack("!BB", first, 0x80 | size)
        elif size < 65536:
            head = struct.pack("!BBH", first, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", first, 0x80 | 127, size)
        self._writer.write(head + bytes(4) + body)

    async def receive(self) -> str:
        """Return the next text and answer pings. Raises EOFError if the server closes the connection."""
        while True:
            first, body = await read_frame(self._reader)
            if first & 0x0F == 0x8:
                raise EOFError(body)
            if first & 0x0F != 0x1:
                continue
            assert first == 0x81, "a text frame that is not fragmented"
            text = body.decode()
            if text != "2":
                return text
            self.send("3")

    async def event(self) -> tuple[str, Any]:
        """Return the next Socket.IO event."""
        while True:
            text = await self.receive()
            if text.startswith("42/events,"):
                name, value = json.loads(text.removeprefix("42/events,"))
                return name, value

    async def numbers(self, last: int) -> list[int]:
        """Return the payloads of message-received, up to `last`."""
        found: list[int] = []
        async with asyncio.timeout(DEADLINE):
            while not found or found[-1] != last:
                _, event = await self.event()
                found.append(event["message"])
        return found

    async def wait_closed(self) -> None:
        """Wait until the server has closed the connection."""
        async with asyncio.timeout(DEADLINE):
            try:
                while True:
                    await self.receive()
            except (EOFError, ConnectionError):
                return


@asynccontextmanager
async def raw_websocket(url: str, query: str = "") -> AsyncIterator[RawSocket]:
    """Complete the handshakes of the websocket and of Engine.IO, or upgrade if `query` names a session."""
    async with connection(url) as (reader, writer):
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(
            f"GET /socket.io/?EIO=4&transport=websocket{query} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n"
            f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head
        assert b"permessage-deflate" not in head.lower()
        raw = RawSocket(reader, writer)
        if not query:
            assert (await raw.receive()).startswith("0{")
        yield raw


@asynccontextmanager
async def raw_client(url: str, auth: dict[str, Any]) -> AsyncIterator[RawSocket]:
    """Connect to the namespace /events. The next packet is `ready`."""
    async with raw_websocket(url) as raw:
        raw.send(f"40/events,{json.dumps(auth)}")
        assert (await raw.receive()).startswith("40/events,{")
        yield raw
