"""A TCP connection that sends exactly the bytes it is given, and a websocket on it that allows every frame."""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress

from tests.fuzz.attack import Attack, within
from tests.support.websocket_frames import read_frame

_CHUNK = 64 * 1024
_SERVER_ERROR = re.compile(rb"^HTTP/1\.[01] 500|\"code\":\"internal\"", re.MULTILINE)
_GONE = (OSError, EOFError, asyncio.IncompleteReadError)

TEXT, BINARY, CLOSE, PING = 0x81, 0x82, 0x88, 0x89


class Wire:
    def __init__(self, attack: Attack, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._attack = attack
        self._reader = reader
        self._writer = writer
        self.open = True

    async def send(self, data: bytes) -> None:
        """Send it if the other side still takes it."""
        self._attack.sent(data)
        try:
            self._writer.write(data)
            await within(2.0, self._writer.drain())
        except OSError:
            self.open = False

    async def read(self, seconds: float) -> bytes:
        """Return what arrives next, or nothing. A server error is a defect."""
        try:
            data = await within(seconds, self._reader.read(_CHUNK))
        except _GONE:
            data = b""
        if data == b"":
            self.open = False
        if data and (found := _SERVER_ERROR.search(data)):
            raise self._attack.fail(f"the hub answered {data[found.start() : found.start() + 300]!r}")
        return data or b""

    def half_close(self) -> None:
        with suppress(OSError):
            self._writer.write_eof()


class WebSocketWire(Wire):
    _message: asyncio.Future[bytes] | None = None
    """The message that is being read. It is read to its end, however short a time `receive` waits."""

    is_out_of_step = False
    """Bytes that are no frame were sent: the server may take what follows for the rest of a long one."""

    async def upgrade(self, path: str, headers: Mapping[str, str]) -> bool:
        """Complete the handshake of the websocket. Returns False if it is refused."""
        lines = [
            f"GET {path} HTTP/1.1", f"Host: {self._attack.target.address}", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]  # fmt: skip
        self._writer.write("\r\n".join([*lines, "", ""]).encode())
        try:
            head = await within(20.0, self._reader.readuntil(b"\r\n\r\n"))
        except _GONE:
            head = b""
        if head is None:
            raise self._attack.fail("no answer to a websocket's handshake within 20 s")
        self.open = head.startswith(b"HTTP/1.1 101")
        return self.open

    async def frame(self, first: int, body: bytes, *, masked: bool = True) -> None:
        size, bit = len(body), 0x80 if masked else 0
        if size < 126:
            head = struct.pack("!BB", first, bit | size)
        elif size < 65536:
            head = struct.pack("!BBH", first, bit | 126, size)
        else:
            head = struct.pack("!BBQ", first, bit | 127, size)
        await self.send(head + (bytes(4) if masked else b"") + body)

    async def send_oddly(self, body: bytes, first: int = TEXT) -> None:
        """Send a message whole, in fragments, as the other type, or in a frame that no websocket allows."""
        mutator = self._attack.mutator
        kind = mutator.random.random()
        if kind < 0.85:
            await self.frame(first, body)
        elif kind < 0.91:
            cut = mutator.random.randint(0, len(body))
            await self.frame(first & 0x7F, body[:cut])
            if mutator.chance(0.3):
                await self.frame(PING, b"between")
            await self.frame(0x80, body[cut:])
        elif kind < 0.95:
            await self.frame(TEXT if first == BINARY else BINARY, body)
        elif kind < 0.98:
            await self.frame(mutator.random.randrange(256), body[:200])
        elif kind < 0.99:
            await self.frame(first, body[:200], masked=False)
        else:
            self.is_out_of_step = True
            await self.send(mutator.random.randbytes(mutator.pick((1, 2, 14, 200))))

    async def receive(self, seconds: float) -> bytes | None:
        """Return the next message, or None if none arrives or the connection has ended."""
        if self._message is None:
            self._message = asyncio.ensure_future(self._receive())
        await asyncio.wait([self._message], timeout=seconds)
        if not self._message.done():
            return None
        message, self._message = self._message, None
        try:
            return message.result()
        except _GONE:
            self.open = False
            return None

    def cancel(self) -> None:
        if self._message is not None:
            self._message.cancel()

    async def _receive(self) -> bytes:
        whole = b""
        while True:
            first, body = await read_frame(self._reader)
            opcode = first & 0x0F
            if opcode == 0x8:
                raise EOFError
            if opcode in (0x0, 0x1, 0x2):
                whole += body
                if first & 0x80:
                    return whole


@asynccontextmanager
async def connected(attack: Attack) -> AsyncGenerator[WebSocketWire]:
    """Connect. At the end the connection is closed, in order or by a reset."""
    target = attack.target
    try:
        reader, writer = await asyncio.open_connection(target.host, target.port)
    except OSError as error:
        raise attack.fail(f"the hub accepts no connection: {error}") from error
    wire = WebSocketWire(attack, reader, writer)
    try:
        yield wire
    finally:
        wire.cancel()
        if attack.mutator.chance(0.5):
            writer.transport.abort()
        else:
            writer.close()
