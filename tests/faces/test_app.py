"""The server accepts requests at the URL it reports, explains why it cannot listen, and stops in bounded time."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import socketio

from farsteer.core.errors import BadRequest, Unavailable
from farsteer.faces.app import ServerConfig, serve
from farsteer.faces.page.app import CSP
from farsteer.hub import Hub
from farsteer.link.transport import LinkClosed
from farsteer.link.websocket import connect
from farsteer.server.server import listen, listener_url
from tests.support.stack import OWNER

pytestmark = pytest.mark.slow


@pytest.fixture
async def hub(home: Path) -> AsyncIterator[Hub]:
    hub = await Hub.open(home, OWNER)
    yield hub
    await hub.close()


async def test_the_reported_url_accepts_requests(hub: Hub) -> None:
    async with serve(hub, ServerConfig(port=0)) as url, httpx.AsyncClient(base_url=url) as client:
        assert url.startswith("http://127.0.0.1:")
        assert (await client.get("/health")).status_code == 200
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{url}/health")


async def test_the_page_needs_no_token_and_everything_else_does(hub: Hub) -> None:
    async with serve(hub, ServerConfig(port=0)) as url, httpx.AsyncClient(base_url=url) as client:
        page = await client.get("/")
        assert (page.status_code, page.headers["content-security-policy"]) == (200, CSP)
        assert '<div id="root">' in page.text
        assert (await client.get("/api/sessions")).status_code == 401
        assert (await client.get("/nothing")).status_code == 404


async def test_the_same_hub_can_be_served_again_on_the_same_port(hub: Hub, free_port: int) -> None:
    for _ in range(2):
        async with serve(hub, ServerConfig(port=free_port)) as url, httpx.AsyncClient() as client:
            assert url == f"http://127.0.0.1:{free_port}"
            assert (await client.get(f"{url}/health")).status_code == 200


async def test_a_port_in_use_is_reported(hub: Hub) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=f"^port {port} is in use; try --port$"):
            async with serve(hub, ServerConfig(port=port)):
                pass


@pytest.mark.parametrize(
    ("host", "message"),
    [("203.0.113.1", "not an address of this machine"), ("no.such.host.invalid", "cannot listen on")],
)
def test_an_address_of_another_machine_is_reported(host: str, message: str) -> None:
    with pytest.raises(Unavailable, match=message):
        listen(host, 0)


@pytest.mark.parametrize("port", [-1, 65536, 10**9])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(BadRequest, match="between 0 and 65535"):
        listen("127.0.0.1", port)


def test_localhost_is_ipv4() -> None:
    with listen("localhost", 0) as listener:
        assert listener_url(listener).startswith("http://127.0.0.1:")


async def test_ipv6(hub: Hub) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        listen("::1", 0).close()
    except Unavailable:
        pytest.skip("no IPv6 here")
    async with serve(hub, ServerConfig(host="::1", port=0)) as url, httpx.AsyncClient() as client:
        assert url.startswith("http://[::1]:")
        assert (await client.get(f"{url}/health")).status_code == 200


async def test_the_shutdown_closes_all_connections(hub: Hub) -> None:
    """An event stream, Socket.IO on each transport, a runner's link and an idle connection."""
    async with AsyncExitStack() as clients, AsyncExitStack() as opened:
        url = await opened.enter_async_context(serve(hub, ServerConfig(port=0)))
        client = await clients.enter_async_context(httpx.AsyncClient(base_url=url))
        jwt = (await client.post("/api/auth", json={"accessToken": OWNER})).json()["token"]
        live = [await socket_io(url, jwt, transport) for transport in ("websocket", "polling")]
        link = await connect(url, OWNER)
        linked = asyncio.create_task(link.receive())
        headers = {"authorization": f"Bearer {jwt}"}
        async with client.stream("GET", "/api/events", headers=headers) as stream:
            lines = stream.aiter_lines()
            while await anext(lines) != "event: ready":
                pass
            started = time.monotonic()
            await opened.aclose()
            assert time.monotonic() - started < 3
            assert "event: closed" in [line async for line in lines]
        with pytest.raises(LinkClosed):
            await linked
        await link.close()
        for connected in live:
            await connected.disconnect()


async def socket_io(url: str, jwt: str, transport: str) -> Any:
    client = socketio.AsyncClient(reconnection=False)
    await client.connect(url, namespaces=["/events"], auth={"token": jwt}, transports=[transport])
    return client


async def test_a_stuck_request_is_cancelled_at_shutdown(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, cancelled = asyncio.Event(), asyncio.Event()

    async def stuck(*_: Any) -> None:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    monkeypatch.setattr(hub.tokens, "exchange", stuck)
    async with httpx.AsyncClient() as client:
        async with serve(hub, ServerConfig(port=0, shutdown_seconds=1)) as url:
            asking = asyncio.create_task(client.post(f"{url}/api/auth", json={"accessToken": "x"}))
            await reached.wait()
            started = time.monotonic()
        assert time.monotonic() - started < 3
        assert cancelled.is_set()
        answer = await asking
        assert answer.status_code == 503
        assert answer.json()["error"] == {"code": "unavailable", "message": "the hub is stopping"}


async def test_a_short_request_is_answered_during_shutdown(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()
    exchange = hub.tokens.exchange

    async def slow(*arguments: Any) -> Any:
        reached.set()
        await go_on.wait()
        return await exchange(*arguments)

    monkeypatch.setattr(hub.tokens, "exchange", slow)
    async with httpx.AsyncClient() as client:
        async with serve(hub, ServerConfig(port=0)) as url:
            asking = asyncio.create_task(client.post(f"{url}/api/auth", json={"accessToken": OWNER}))
            await reached.wait()
            asyncio.get_running_loop().call_later(0.2, go_on.set)
        assert (await asking).status_code == 200


def test_the_server_starts_without_rarely_needed_modules() -> None:
    late = [
        "pydantic", "litestar", "starlette.testclient", "psutil", "farsteer.faces.rest.openapi",
        "farsteer.faces.rest.docs_page",
    ]  # fmt: skip
    script = f"import sys, farsteer.faces.app; print([name for name in {late} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert result.stdout == "[]\n", result.stderr
