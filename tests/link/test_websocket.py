"""A runner's websocket to its hub: where it may go, how it says who it is, and how its end is told."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from farsteer.core.errors import BadRequest, Unauthorized
from farsteer.link import frames
from farsteer.link.messages import Ack, Ping
from farsteer.link.transport import LinkClosed
from farsteer.link.websocket import RunnerWebSocketTransport, connect, link_address


class Hub:
    """The far end, as bare as it can be."""

    def __init__(self) -> None:
        self.request: Request | None = None
        self.sockets: asyncio.Queue[ServerConnection] = asyncio.Queue()
        self.status: HTTPStatus | None = None
        self.url = ""

    def answer(self, connection: ServerConnection, request: Request) -> Response | None:
        self.request = request
        return None if self.status is None else connection.respond(self.status, "no")

    async def hold(self, socket: ServerConnection) -> None:
        self.sockets.put_nowait(socket)
        await socket.wait_closed()

    @asynccontextmanager
    async def linked(self) -> AsyncIterator[tuple[RunnerWebSocketTransport, ServerConnection]]:
        transport = await connect(self.url, "secret")
        try:
            yield transport, await self.sockets.get()
        finally:
            await transport.close()


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    hub = Hub()
    async with serve(hub.hold, "127.0.0.1", 0, process_request=hub.answer) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        hub.url = f"http://127.0.0.1:{port}"
        yield hub


@pytest.mark.slow
async def test_messages_go_both_ways(hub: Hub) -> None:
    async with hub.linked() as (transport, far_end):
        await transport.send(Ping())
        assert frames.decode_at_hub(await far_end.recv(decode=False)) == Ping()
        await far_end.send(frames.encode_frame(Ack(session="s", seq=1)))
        assert await transport.receive() == Ack(session="s", seq=1)


@pytest.mark.slow
async def test_the_token_travels_in_a_header_only(hub: Hub) -> None:
    async with hub.linked():
        assert hub.request is not None
        assert hub.request.headers["authorization"] == "Bearer secret"
        assert hub.request.path == "/link"
        assert "sec-websocket-extensions" not in hub.request.headers


@pytest.mark.slow
async def test_a_refused_token_is_told_apart(hub: Hub) -> None:
    hub.status = HTTPStatus.UNAUTHORIZED
    with pytest.raises(Unauthorized):
        await connect(hub.url, "wrong")


@pytest.mark.slow
@pytest.mark.parametrize("status", [HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.BAD_GATEWAY])
async def test_any_other_refusal_may_be_tried_again(hub: Hub, status: HTTPStatus) -> None:
    hub.status = status
    with pytest.raises(LinkClosed, match=str(status.value)):
        await connect(hub.url, "secret")


async def test_a_hub_that_is_not_there(free_port: int) -> None:
    with pytest.raises(LinkClosed, match="cannot be reached"):
        await connect(f"http://127.0.0.1:{free_port}", "secret")


@pytest.mark.slow
async def test_a_hub_that_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(LinkClosed, match="timed out"):
        await connect(f"http://127.0.0.1:{silent.getsockname()[1]}", "secret", open_timeout=0.1)


@pytest.mark.slow
async def test_the_hubs_end_ends_both_directions(hub: Hub) -> None:
    async with hub.linked() as (transport, far_end):
        waiting = asyncio.create_task(transport.receive())
        await far_end.close()
        with pytest.raises(LinkClosed):
            await waiting
        with pytest.raises(LinkClosed):
            await transport.send(Ping())


@pytest.mark.slow
async def test_closing_wakes_whoever_waits(hub: Hub) -> None:
    async with hub.linked() as (transport, _):
        waiting = asyncio.create_task(transport.receive())
        await asyncio.sleep(0)
        await transport.close()
        with pytest.raises(LinkClosed):
            await waiting


@pytest.mark.slow
async def test_garbage_ends_the_link(hub: Hub) -> None:
    async with hub.linked() as (transport, far_end):
        await far_end.send("no json")
        with pytest.raises(LinkClosed, match="invalid link message"):
            await transport.receive()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:3006", "ws://127.0.0.1:3006/link"),
        ("http://localhost:3006/", "ws://localhost:3006/link"),
        ("ws://[::1]:3006", "ws://[::1]:3006/link"),
        ("https://hub.example", "wss://hub.example/link"),
        ("https://example.com/farsteer/", "wss://example.com/farsteer/link"),
    ],
)
def test_addresses(url: str, address: str) -> None:
    assert link_address(url) == address


@pytest.mark.parametrize("url", ["http://hub.example", "ws://192.168.1.5:3006", "http://127.example.com"])
def test_no_token_in_clear_over_a_network_unless_told(url: str) -> None:
    with pytest.raises(BadRequest, match="unencrypted"):
        link_address(url)
    assert link_address(url, allow_insecure=True).startswith("ws://")


@pytest.mark.parametrize(
    "url",
    ["", "hub.example", "ftp://hub.example", "http://", "https://u:p@hub.example", "https://hub.example?token=x",
     "https://hub.example#x"],
)  # fmt: skip
def test_what_is_no_address_of_a_hub(url: str) -> None:
    with pytest.raises(BadRequest):
        link_address(url)
