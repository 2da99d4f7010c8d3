"""Clients that fall silent are disconnected in bounded time, on every face, and nothing is left of them.

A client that is stopped (SIGSTOP) and one behind a proxy that forwards nothing any more look the same to a hub: the
connection stays open, and nothing is answered. With the limits that a hub really has.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from starlette.types import Receive, Scope, Send

from farsteer.server.limits import PEER_TIMEOUT_SECONDS, ServerLimits
from farsteer.server.peer_watch import PeerWatch
from farsteer.server.scopes import get_connection
from farsteer.server.server import listen
from farsteer.server.uvicorn_protocols import WebSocketConnection
from tests.faces.events.raw_client import raw_client
from tests.server.serving import EchoApp, RawClient, connected, frame, handshake, serving
from tests.support.stack import OWNER, Stack, farsteer
from tests.support.websocket_frames import read_frame

MARGIN = 15.0
CLOSING = 10.0
"""How long a client may take to answer the end of its websocket."""
POLLING = "/socket.io/?EIO=4&transport=polling"
AUTHORIZED = f"Authorization: Bearer {OWNER}"
HEAD = ServerLimits().header_timeout

SILENT: dict[str, tuple[bytes, float]] = {
    "nothing": (b"", HEAD),
    "half a request line": (b"GET /api/hea", HEAD),
    "half a head": (b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nAccept: ", HEAD),
    "half a body": (b"POST /api/auth HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{", 60.0),
    "one request": (b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 75.0),
    "a stream without a token": (b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n", 75.0),
    "a polling handshake": (f"GET {POLLING} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), 75.0),
    "half a handshake of an editor": (handshake(AUTHORIZED, path="/acp")[:-2], HEAD),
    "half a handshake of a runner": (handshake(AUTHORIZED, path="/link")[:-2], HEAD),
    "half a handshake of Socket.IO": (handshake(path="/socket.io/?EIO=4&transport=websocket")[:-2], HEAD),
    "an editor": (handshake(AUTHORIZED, path="/acp"), 60.0),
    "half a frame of an editor": (handshake(AUTHORIZED, path="/acp") + b"\x81\xfe\x10\x00", 60.0),
    "a runner without a hello": (handshake(AUTHORIZED, path="/link"), 15.0 + CLOSING),
    "Socket.IO without a token": (handshake(path="/socket.io/?EIO=4&transport=websocket"), 10.0),
}
"""What a client sends before it falls silent, and after how many seconds it must be disconnected."""


async def fall_silent(stack: Stack, sent: bytes) -> float:
    """Return the seconds until the hub closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(stack.url).port)
    started = time.monotonic()
    try:
        writer.write(sent)
        while await reader.read(65536):
            pass
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
    return time.monotonic() - started


async def answer_no_ping(stack: Stack) -> float:
    """Connect to the live events with a token, then answer nothing."""
    account = await stack.sign_in()
    token = account.headers["authorization"].removeprefix("Bearer ")
    await account.aclose()
    async with raw_client(stack.url, {"token": token}) as raw:
        started = time.monotonic()
        try:
            while True:
                await read_frame(raw._reader)
        except (EOFError, ConnectionError):
            return time.monotonic() - started


@asynccontextmanager
async def slow_connection(port: int) -> AsyncIterator[RawClient]:
    """A client whose system takes little more than the client reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 1024)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=client, limit=8 * 1024)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()


@pytest.mark.faults
@pytest.mark.timeout(300)
async def test_silent_clients_are_disconnected_in_bounded_time(home: Path) -> None:
    async with farsteer(home, with_runner=False, seconds=200) as stack:
        port = urlsplit(stack.url).port
        names = [*SILENT, "a subscriber that answers no pings"]
        times = await asyncio.gather(
            *(fall_silent(stack, sent) for sent, _ in SILENT.values()), answer_no_ping(stack)
        )
        limits = [limit for _, limit in SILENT.values()] + [45.0 + CLOSING]
        print({name: round(took, 1) for name, took in zip(names, times, strict=True)})
        slow = {
            name: round(took, 1)
            for name, took, limit in zip(names, times, limits, strict=True)
            if took > limit + MARGIN
        }
        assert not slow
        assert not [
            one for one in psutil.Process().net_connections("tcp") if one.laddr.port == port and one.raddr
        ]


@pytest.mark.faults
async def test_a_websocket_whose_client_answers_no_pings_is_aborted() -> None:
    async with serving(_Watched(0.1)) as port, connected(port) as client:
        client.send(handshake())
        await client.reader.readuntil(b"\r\n\r\n")
        assert await client.wait_closed() == b"\x89\x00", "one ping"


@pytest.mark.faults
async def test_a_websocket_whose_client_answers_pings_stays_open() -> None:
    async with serving(_Watched(0.1)) as port, connected(port) as client:
        client.send(handshake())
        await client.reader.readuntil(b"\r\n\r\n")
        for _ in range(5):
            assert await client.reader.readexactly(2) == b"\x89\x00"
            client.send(frame(0x8A, b""))
        client.send(frame(0x81, b"hello"))
        assert await client.reader.readexactly(7) == b"\x81\x05hello"


@pytest.mark.faults
async def test_a_websocket_whose_client_reads_slowly_stays_open() -> None:
    """Its answer to the ping comes after the large message, which takes longer than the watch would wait."""
    size = 600_000
    async with serving(_Watched(0.1)) as port, slow_connection(port) as client:
        client.send(handshake())
        await client.reader.readuntil(b"\r\n\r\n")
        client.send(b"\x82\xff" + size.to_bytes(8) + bytes(4) + bytes(size))
        head, left = await client.reader.readexactly(10), size
        assert head == b"\x82\x7f" + size.to_bytes(8)
        while left:
            left -= len(await client.reader.read(min(left, size // 40)))
            await asyncio.sleep(0.03)


@pytest.mark.faults
def test_the_system_finds_peers_that_are_gone() -> None:
    """Nobody answers for a machine without power: the system has to give the connection up."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                found = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                assert found == PEER_TIMEOUT_SECONDS * 1000


class _Watched(EchoApp):
    """An echo whose clients are watched."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watch = PeerWatch(get_connection(scope, WebSocketConnection), self._seconds)
        try:
            await super().__call__(scope, receive, send)
        finally:
            watch.close()
