"""What a client without a token can do to the server with HTTP requests: little, and for a short time."""

import asyncio
import logging

import psutil
import pytest
from starlette.types import Receive, Scope, Send

from farsteer.server.limits import ServerLimits
from tests.server.serving import EchoApp, RawClient, connected, frame, handshake, serving
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


def post(body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 70_000,
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        GET + b"X: " + b"x" * 70_000,
        GET + b"X: " + b"x" * 70_000 + b"\r\n\r\n",
        GET + b"X: y\r\n" * 101 + b"\r\n",
        GET + b"X: y\r\n" * 20_000,
        handshake(*(f"X-{n}: y" for n in range(100))),
        handshake("X: " + "x" * 70_000),
        handshake("X: " + "x" * 9_000),
        handshake(path="/" + "x" * 9_000),
    ],
    ids=[
        "url without end", "url", "header without end", "header", "fields", "fields without end",
        "websocket fields", "websocket header", "websocket line", "websocket url",
    ],
)  # fmt: skip
async def test_headers_without_bound_are_answered_with_431(head: bytes) -> None:
    app = EchoApp()
    async with serving(app) as port, connected(port) as client:
        client.send(head)
        assert await client.error() == (431, "headers_too_large")
        await client.wait_closed()
    assert app.requests == 0


async def test_trailers_without_bound_are_answered_with_431() -> None:
    async with serving(EchoApp()) as port, connected(port) as client:
        client.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        client.send(b"X: " + b"x" * 70_000)
        assert await client.error() == (431, "headers_too_large")


async def test_headers_within_the_limits_are_read_in_one_piece_and_byte_by_byte() -> None:
    head = GET + b"".join(b"X-%d: %b\r\n" % (n, b"y" * 600) for n in range(98)) + b"\r\n"
    async with serving(EchoApp()) as port, connected(port) as client:
        client.send(head)
        assert (await client.response())[0] == 200
        client.writer.get_extra_info("socket").setsockopt(6, 1, 1)
        for byte in b"\r\n" + GET + b"\r\n":
            client.send(bytes([byte]))
            await asyncio.sleep(0)
        assert (await client.response())[0] == 200


CHUNKED = (
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;a=b\r\nabc\r\n1\r\nd\r\n0\r\nX-Trailer: 1\r\n\r\n"
)


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_pipelined_requests_of_every_kind_are_answered_in_order(size: int) -> None:
    requests = post(b"one") + CHUNKED + GET + b"\r\n" + post(b"") + CHUNKED + post(b"two")
    async with serving(EchoApp()) as port, connected(port) as client:
        for start in range(0, len(requests), size):
            client.send(requests[start : start + size])
            await asyncio.sleep(0)
        bodies = [(await client.response())[1] for _ in range(6)]
    assert bodies == [b"one", b"abcd", b"", b"", b"abcd", b"two"]


async def test_thousands_of_pipelined_requests_are_handled_one_at_a_time() -> None:
    app = EchoApp()
    async with serving(app) as port, connected(port) as client:
        client.send((GET + b"\r\n") * 5_000)
        for _ in range(5_000):
            assert (await client.response())[0] == 200
    assert app.most_running == 1


async def test_a_request_after_an_unread_body_is_answered() -> None:
    async with serving(EchoApp()) as port, connected(port) as client:
        client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n")
        assert (await client.response())[0] == 200
        client.send(b"x" * 200_000 + post(b"next"))
        assert await client.response() == (200, b"next")


async def test_a_connection_that_sends_nothing_is_closed() -> None:
    async with serving(EchoApp(), ServerLimits(header_timeout=0.1)) as port, connected(port) as client:
        assert await client.wait_closed() == b""


@pytest.mark.parametrize("first", [b"", GET + b"\r\n"], ids=["first request", "second request"])
async def test_slowloris_headers_that_never_end_are_answered_with_408(first: bytes) -> None:
    async with serving(EchoApp(), ServerLimits(header_timeout=0.1)) as port, connected(port) as client:
        client.send(first)
        if first:
            await client.response()
        client.send(GET)
        assert await client.error() == (408, "timeout")
        await client.wait_closed()


async def test_empty_lines_do_not_keep_a_connection_open() -> None:
    async with serving(EchoApp(), ServerLimits(header_timeout=0.1)) as port, connected(port) as client:
        client.send(GET + b"\r\n")
        await client.response()
        client.send(b"\r\n\r\n")
        await client.wait_closed()


@pytest.mark.parametrize(
    "start", [b"Content-Length: 10\r\n\r\nx", b"Transfer-Encoding: chunked\r\n\r\n5\r\nx"]
)
async def test_a_body_that_stalls_is_answered_with_408(start: bytes) -> None:
    app = EchoApp()
    async with serving(app, ServerLimits(body_timeout=0.1)) as port, connected(port) as client:
        client.send(b"POST / HTTP/1.1\r\nHost: localhost\r\n" + start)
        assert await client.error() == (408, "timeout")
        await client.wait_closed()
        await eventually(lambda: app.running == 0)
    assert app.disconnects == 1


async def test_a_slow_body_that_makes_progress_is_accepted() -> None:
    async with serving(EchoApp(), ServerLimits(body_timeout=1)) as port, connected(port) as client:
        client.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n")
        for byte in b"abc":
            await asyncio.sleep(0.4)
            client.send(bytes([byte]))
        assert await client.response() == (200, b"abc")


async def test_a_slow_client_that_reads_its_response_gets_it_whole() -> None:
    async with serving(EchoApp(), ServerLimits(write_timeout=0.5)) as port, connected(port) as client:
        client.send(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        ends = asyncio.get_running_loop().time() + 1.2
        received = 0
        while received < 8 * 1024 * 1024:
            data = await client.reader.read(65536)
            assert data, "it was disconnected"
            received += len(data)
            if asyncio.get_running_loop().time() < ends:
                await asyncio.sleep(0.05)


async def test_a_body_that_is_never_read_does_not_keep_the_connection_open() -> None:
    async with serving(EchoApp(), ServerLimits(body_timeout=0.1)) as port, connected(port) as client:
        client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\nx")
        await client.response()
        await client.wait_closed()


async def test_an_idle_connection_is_closed() -> None:
    async with serving(EchoApp(), ServerLimits(keep_alive_timeout=0)) as port, connected(port) as client:
        client.send(GET + b"\r\n")
        await client.response()
        await client.wait_closed()


async def test_a_client_that_does_not_read_its_response_is_disconnected() -> None:
    app = EchoApp()
    async with serving(app, ServerLimits(write_timeout=0.1)) as port, connected(port) as client:
        client.transport.pause_reading()
        client.send(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await eventually(lambda: app.requests == 1 and not _open_connections(port))
        client.transport.resume_reading()
        assert len(await client.wait_closed()) < 8 * 1024 * 1024


def _open_connections(port: int) -> list[int]:
    """Return the descriptors of the server's connections, which runs in this process."""
    connections = psutil.Process().net_connections("tcp")
    return [one.fd for one in connections if one.laddr.port == port and one.raddr]


async def test_an_accepted_websocket_has_no_such_time_limit() -> None:
    limits = ServerLimits(header_timeout=0.1, body_timeout=0.1, write_timeout=0.1, keep_alive_timeout=0)
    async with serving(EchoApp(), limits) as port, connected(port) as websocket:
        websocket.send(handshake())
        await websocket.reader.readuntil(b"\r\n\r\n")
        async with connected(port) as silent:
            await silent.wait_closed()
        websocket.send(frame(0x81, b"hello"))
        assert await websocket.reader.readexactly(7) == b"\x81\x05hello"


INVALID = {
    "tls": b"\x16\x03\x01\x02\x00\x01\x00",
    "bare line feeds": b"GET / HTTP/1.1\nHost: localhost\n\n",
    "no request": b"hello\r\n\r\n",
    "chunk size": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "chunk without end": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 300,
    "two lengths": b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "length and chunked": b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "negative length": b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "url": b"GET http://[ HTTP/1.1\r\n\r\n",
    "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "websocket key": handshake().replace(b"Sec-WebSocket-Key: ", b"Sec-WebSocket-Key: \xff"),
    "websocket header": handshake("X: \x01y"),
}


def sent_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert [record for record in caplog.records if record.exc_info] == []
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("data", INVALID.values(), ids=INVALID)
async def test_an_invalid_request_is_refused(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(EchoApp()) as port, connected(port) as client:
        client.send(data)
        assert (await client.wait_closed()).startswith(b"HTTP/1.1 4")
    assert len(sent_lines(caplog)) <= 1


async def test_many_invalid_requests_cost_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(EchoApp()) as port:
        for data in [*INVALID.values()] * 3:
            async with connected(port) as client:
                client.send(data)
                await client.wait_closed()
    assert len(sent_lines(caplog)) == 1
    assert sent_lines(caplog)[0].startswith("127.0.0.1: ")


async def test_a_refused_body_that_was_to_be_continued_is_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
    app = EchoApp()
    async with serving(app) as port, connected(port) as client:
        client.send(head + b"not a chunk\r\n")
        assert (await client.wait_closed()).startswith(b"HTTP/1.1 400")
        await eventually(lambda: not app.running)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_client_that_leaves_before_its_websocket_is_accepted_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting, left = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        waiting.set()
        assert (await receive())["type"] == "websocket.disconnect"
        left.set()

    async with serving(app) as port:
        async with connected(port) as client:
            client.send(handshake())
            await asyncio.wait_for(waiting.wait(), 10)
        await asyncio.wait_for(left.wait(), 10)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_refused_websockets_are_no_errors(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.http.response.start", "status": 401, "headers": []})
        await send({"type": "websocket.http.response.body", "body": b"no"})

    async with serving(refuse) as port, connected(port) as client:
        client.send(handshake())
        assert (await client.wait_closed()).startswith(b"HTTP/1.1 401")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_request_that_is_refused_between_two_turns_is_refused_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.server.uvicorn_protocols._TURN_SECONDS", -1.0)
    async with serving(EchoApp(), ServerLimits(body_timeout=0.05)) as port:
        for _ in range(20):
            async with connected(port) as client:
                client.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
                client.send(b"1\r\nx\r\n" * 3000 + b"zz\r\n" * 3)
                assert (await client.wait_closed()).startswith(b"HTTP/1.1 4")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


INVALID_FRAMES = {
    "not masked": b"\x81\x01x",
    "reserved bits": frame(0xF1, b"x"),
    "reserved opcode": frame(0x83, b"x"),
    "not UTF-8": frame(0x81, b"\xff\xfe"),
    "not UTF-8 twice": frame(0x81, b"\xff") * 2,
    "not UTF-8, then a close": frame(0x81, b"\xff") + frame(0x88, b""),
    "not UTF-8 in fragments": frame(0x01, b"\xc3") + frame(0x80, b"x"),
    "fragmented ping": frame(0x09, b"x"),
    "continuation of nothing": frame(0x80, b"x"),
    "close code": frame(0x88, b"\x00\x01"),
    "too large": b"\x81\xff" + (2**40).to_bytes(8) + bytes(4),
}


async def open_websocket(client: RawClient) -> None:
    client.send(handshake())
    assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")


async def test_invalid_websocket_frames_cost_one_log_line_and_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(EchoApp()) as port:
        for data in [*INVALID_FRAMES.values()] * 2:
            async with connected(port) as client:
                await open_websocket(client)
                client.send(data)
                await client.wait_closed()
    assert len(sent_lines(caplog)) == 1


async def test_a_message_in_many_fragments_is_joined() -> None:
    async with serving(EchoApp()) as port, connected(port) as client:
        await open_websocket(client)
        client.send(
            frame(0x01, b"a") + frame(0x00, b"") * 20_000 + frame(0x00, b"b") * 50 + frame(0x80, b"c")
        )
        assert await client.reader.readexactly(54) == b"\x81\x34a" + b"b" * 50 + b"c"


async def test_many_tiny_frames_let_others_have_their_turn() -> None:
    async with serving(EchoApp()) as port, connected(port) as busy, connected(port) as other:
        await open_websocket(busy)
        busy.send(frame(0x81, b"x") * 50_000)
        other.send(GET + b"\r\n")
        assert (await other.response())[0] == 200
        assert await asyncio.wait_for(busy.reader.readexactly(3 * 50_000), 60) == b"\x81\x01x" * 50_000


async def test_pings_whose_answers_are_not_read_end_the_connection() -> None:
    async with serving(EchoApp()) as port, connected(port) as client:
        await open_websocket(client)
        client.transport.pause_reading()
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(send_pings(client), 10)


async def send_pings(client: RawClient) -> None:
    while True:
        client.send(frame(0x89, b"x" * 125) * 1000)
        await client.writer.drain()
        await asyncio.sleep(0)
