"""A response of one piece: what a client gets of our own server, which writes it at once, and of any other."""

import asyncio

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from farsteer.server.guard import AllowedHosts, Guard
from farsteer.server.responses import make_response
from tests.server.serving import DEADLINE, connected, serving

pytestmark = pytest.mark.slow

ORIGIN = "https://page.example"
HEAD = b"/x HTTP/1.1\r\nHost: localhost\r\n"


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await make_response({"path": scope["path"]}, 202, {"x-more": "yes"})(scope, receive, send)


def guarded() -> Guard:
    return Guard(answer, hosts=AllowedHosts("127.0.0.1"), origins=[ORIGIN], max_body=1000)


async def test_our_server_sends_what_any_other_does() -> None:
    sent = {"origin": ORIGIN}
    async with (
        serving(guarded()) as port,
        httpx.AsyncClient() as client,
        httpx.AsyncClient(transport=httpx.ASGITransport(guarded())) as other,
    ):
        for method in ("GET", "HEAD", "POST"):
            url = f"http://127.0.0.1:{port}/x"
            ours = await client.request(method, url, headers=sent)
            theirs = await other.request(method, url, headers=sent)
            assert ours.status_code == theirs.status_code == 202
            assert ours.content == (b"" if method == "HEAD" else theirs.content)
            assert {*theirs.headers.items()} <= {*ours.headers.items()}
            assert ours.headers["access-control-allow-origin"] == ORIGIN


async def test_the_connection_stays_open_or_ends_as_the_client_asked() -> None:
    async with serving(guarded()) as port, connected(port) as client:
        client.send(b"GET " + HEAD + b"\r\nGET " + HEAD + b"\r\n")
        assert [await client.response(), await client.response()] == [(202, b'{"path":"/x"}')] * 2
        client.send(b"GET " + HEAD + b"Connection: close\r\n\r\n")
        received = await client.wait_closed()
        assert b"\r\nconnection: close\r\n" in received
        assert received.endswith(b'\r\n\r\n{"path":"/x"}')


async def test_head_and_body_arrive_together() -> None:
    async with serving(guarded()) as port, connected(port) as client:
        client.send(b"GET " + HEAD + b"\r\n")
        async with asyncio.timeout(DEADLINE):
            assert (await client.reader.read(65536)).endswith(b"}")
