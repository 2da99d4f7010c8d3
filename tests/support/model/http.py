"""The part of an HTTP/1.1 server that the agents' clients need."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable, Iterable
from http.client import responses
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.support.model.dialects import Event

BODY_LIMIT = 64 * 1024 * 1024


class Gone(Exception):
    """The client closed the connection."""


class Request(NamedTuple):
    method: str
    path: str
    query: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    """Decoded."""


class Reader(asyncio.StreamReader):
    """Detects a disconnect without reading further."""

    def __init__(self) -> None:
        super().__init__()
        self.gone = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.gone.set()

    def set_exception(self, exc: BaseException) -> None:
        super().set_exception(exc)  # pyright: ignore[reportArgumentType]
        self.gone.set()


class Exchange:
    """A request and its answer in progress."""

    def __init__(self, request: Request, reader: Reader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self.streaming = False
        self._reader = reader
        self._writer = writer

    async def json(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        head = _head(status, "application/json", f"content-length: {len(body)}")
        await self._write(head if self.request.method == "HEAD" else head + body)

    async def events(self, events: Iterable[Event]) -> None:
        """Send events. The first call starts the stream."""
        parts: list[bytes] = []
        if not self.streaming:
            self.streaming = True
            parts.append(
                _head(200, "text/event-stream", "cache-control: no-cache", "transfer-encoding: chunked")
            )
        for event in events:
            data = event.data if isinstance(event.data, str) else json.dumps(event.data)
            text = f"event: {event.name}\ndata: {data}\n\n" if event.name else f"data: {data}\n\n"
            parts.append(_chunk(text.encode()))
        await self._write(b"".join(parts))

    async def end(self) -> None:
        await self._write(_chunk(b""))

    def drop(self) -> None:
        """Close the connection, also in the middle of a stream."""
        if not self.streaming:
            connection: socket.socket = self._writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._writer.transport.abort()
        self._writer.close()

    async def wait(self, event: asyncio.Event | None, seconds: float | None = None) -> None:
        """Wait for `event` or the timeout. Raises Gone as soon as the client disconnects."""
        waits = [asyncio.ensure_future(one.wait()) for one in (self._reader.gone, event) if one is not None]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        self._check()

    async def _write(self, data: bytes) -> None:
        self._check()
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError as error:
            raise Gone from error

    def _check(self) -> None:
        if self._reader.gone.is_set():
            raise Gone


Handler = Callable[[Exchange], Awaitable[None]]


async def serve(reader: Reader, writer: asyncio.StreamWriter, handle: Handler) -> None:
    """Serve one connection for any number of requests."""
    try:
        while (request := await _read(reader, writer)) is not None:
            await handle(Exchange(request, reader, writer))
            if writer.is_closing() or request.headers.get("connection", "").lower() == "close":
                break
    except (Gone, ConnectionError, asyncio.IncompleteReadError):
        pass  # it went away, which is its right
    finally:
        writer.close()


async def _read(reader: Reader, writer: asyncio.StreamWriter) -> Request | None:
    line = (await reader.readline()).decode("latin-1").split()
    if len(line) != 3:
        return None
    headers: dict[str, str] = {}
    while text := (await reader.readline()).decode("latin-1").strip():
        name, _, value = text.partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    url = urlsplit(line[1])
    return Request(line[0], url.path, url.query, headers, _decoded(await _body(reader, headers), headers))


async def _body(reader: Reader, headers: dict[str, str]) -> bytes:
    if "chunked" not in headers.get("transfer-encoding", "").lower():
        return await reader.readexactly(_checked(int(headers.get("content-length", "0"))))
    body = bytearray()
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(_checked(size))
        await reader.readexactly(2)
        _checked(len(body))
    while (await reader.readline()).strip():
        pass  # trailers
    return bytes(body)


def _checked(size: int) -> int:
    if size > BODY_LIMIT:
        raise ConnectionError("the body is too large")
    return size


def _decoded(body: bytes, headers: dict[str, str]) -> bytes:
    match headers.get("content-encoding", "identity"):
        case "gzip":
            return gzip.decompress(body)
        case "deflate":
            return zlib.decompress(body)
        case _:
            return body


def _head(status: int, kind: str, *more: str) -> bytes:
    phrase = responses.get(status, "Scripted")
    return "\r\n".join([f"HTTP/1.1 {status} {phrase}", f"content-type: {kind}", *more, "", ""]).encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
