"""Requests with a foreign Host, a foreign Origin or a too large body reach no face, over HTTP or websockets."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from farsteer.server.guard import AllowedHosts, Guard

LIMIT = 1000


class Face:
    """Reads each request and counts them."""

    def __init__(self) -> None:
        self.reached = 0
        self.taken = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.reached += 1
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        more = True
        while more:
            message = await receive()
            self.taken += len(message.get("body", b""))
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"vary", b"accept")]})
        await send({"type": "http.response.body", "body": b"reached"})


def guarded(
    bind: str = "127.0.0.1", hosts: tuple[str, ...] = (), origins: tuple[str, ...] = ()
) -> tuple[Guard, Face]:
    face = Face()
    return Guard(face, hosts=AllowedHosts(bind, hosts), origins=origins, max_body=LIMIT), face


async def request(guard: Guard, method: str = "GET", **arguments: Any) -> httpx.Response:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(guard), base_url="http://127.0.0.1:3006"
    ) as client:
        return await client.request(method, "/x", **arguments)


async def websocket(guard: Guard, headers: dict[str, str]) -> list[Message]:
    """Return what the server would send in response to a websocket handshake."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": "/x",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "extensions": {"websocket.http.response": {}},
    }
    await guard(scope, receive, send)
    return sent


@pytest.mark.parametrize(
    ("bind", "extra", "host", "allowed"),
    [
        ("127.0.0.1", (), "127.0.0.1:3006", True),
        ("127.0.0.1", (), "127.0.0.1", True),
        ("127.0.0.1", (), "127.1.2.3:3006", True),
        ("127.0.0.1", (), "localhost:3006", True),
        ("127.0.0.1", (), "LOCALHOST", True),
        ("127.0.0.1", (), "[::1]:3006", True),
        ("127.0.0.1", (), "evil.example:3006", False),
        ("127.0.0.1", (), "127.example.com", False),
        ("127.0.0.1", (), "127.0.0.1.example.com", False),
        ("127.0.0.1", (), "localhost.example.com", False),
        ("127.0.0.1", (), "localhost.", False),
        ("127.0.0.1", (), "localhost@evil.example", False),
        ("127.0.0.1", (), "evil.example#localhost", False),
        ("127.0.0.1", (), "localhost:3006:1", False),
        ("127.0.0.1", (), "localhost:", False),
        ("127.0.0.1", (), "localhost:x", False),
        ("127.0.0.1", (), "192.168.1.5:3006", False),
        ("127.0.0.1", (), "[fe80::1%eth0]", False),
        ("127.0.0.1", (), "2130706433", False),
        ("127.0.0.1", (), "", False),
        ("127.0.0.1", ("hub.example",), "hub.example", True),
        ("127.0.0.1", ("Hub.Example",), "HUB.example:443", True),
        ("127.0.0.1", ("hub.example",), "x.hub.example", False),
        ("192.168.1.5", (), "192.168.1.5:3006", True),
        ("192.168.1.5", (), "192.168.1.6:3006", False),
        ("0.0.0.0", (), "192.168.1.5:3006", True),
        ("::", (), "[2001:db8::1]:3006", True),
        ("0.0.0.0", (), "evil.example", False),
        ("0.0.0.0", (), "127.0.0.1.nip.io", False),
    ],
)
async def test_only_allowed_hosts_pass(bind: str, extra: tuple[str, ...], host: str, allowed: bool) -> None:
    guard, face = guarded(bind, extra)
    response = await request(guard, headers={"host": host})
    handshake = await websocket(guard, {"host": host})
    if allowed:
        assert response.status_code == 200
        assert handshake[0]["type"] == "websocket.accept"
    else:
        assert response.status_code == 403
        assert response.json()["error"]["code"] == "host_not_allowed"
        assert handshake[0]["type"] == "websocket.http.response.start"
        assert handshake[0]["status"] == 403
        assert face.reached == 0


async def test_exactly_one_host_header_is_required() -> None:
    guard, face = guarded()
    twice = await request(guard, headers=[("host", "localhost"), ("host", "evil.example")])
    assert twice.status_code == 400
    assert (await websocket(guard, {}))[0]["status"] == 400
    assert face.reached == 0


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("http://127.0.0.1:3006", True),
        ("https://127.0.0.1:3006", True),
        ("https://app.example", True),
        ("https://APP.example", True),
        ("http://app.example", False),
        ("https://app.example:444", False),
        ("https://evil.example", False),
        ("http://127.0.0.1:8080", False),
        ("http://localhost:3006", False),
        ("null", False),
        ("", False),
        ("127.0.0.1:3006", False),
    ],
)
async def test_only_allowed_origins_pass(origin: str | None, allowed: bool) -> None:
    guard, face = guarded(origins=("https://app.example/",))
    headers = {"host": "127.0.0.1:3006"} | ({} if origin is None else {"origin": origin})
    response = await request(guard, headers=headers)
    handshake = await websocket(guard, headers)
    if allowed:
        assert response.status_code == 200
        assert handshake[0]["type"] == "websocket.accept"
    else:
        assert response.status_code == 403
        assert response.json()["error"]["code"] == "origin_not_allowed"
        assert "access-control-allow-origin" not in response.headers
        assert handshake[0]["status"] == 403
        assert face.reached == 0


async def test_two_origin_headers_are_refused() -> None:
    guard, face = guarded()
    response = await request(
        guard, headers=[("origin", "http://127.0.0.1:3006"), ("origin", "https://evil.example")]
    )
    assert response.status_code == 403
    assert face.reached == 0


async def test_a_configured_origin_gets_cors_headers() -> None:
    guard, face = guarded(origins=("https://app.example",))
    page = {"origin": "https://app.example"}
    asked = await request(guard, "OPTIONS", headers={**page, "access-control-request-method": "DELETE"})
    assert asked.status_code == 204
    assert asked.headers["access-control-allow-origin"] == "https://app.example"
    assert "DELETE" in asked.headers["access-control-allow-methods"]
    assert "authorization" in asked.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in asked.headers
    assert face.reached == 0

    answered = await request(guard, headers=page)
    assert answered.headers["access-control-allow-origin"] == "https://app.example"
    assert answered.headers["vary"] == "accept, origin"

    own = await request(guard, headers={"origin": "http://127.0.0.1:3006"})
    assert "access-control-allow-origin" not in own.headers


async def test_a_body_over_the_limit_is_refused() -> None:
    guard, face = guarded()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield b"x" * 100

    response = await request(guard, "POST", content=endless())
    assert response.status_code == 413
    assert response.json()["error"] == {
        "code": "too_large",
        "message": "the body is too large",
        "details": {"limit": LIMIT},
    }
    assert face.taken == LIMIT


async def test_a_body_of_the_maximum_size_passes() -> None:
    guard, face = guarded()
    response = await request(guard, "POST", content=b"x" * LIMIT)
    assert response.status_code == 200
    assert face.taken == LIMIT
