"""The server for Claude Code's hooks: who may call it, what it bears, and hooks that nobody waits for any more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from farsteer.agents.claude.hooks import TOKEN_VARIABLE, HookServer

pytestmark = pytest.mark.slow

SECONDS = 10.0


class Handler:
    """Answers each hook with its payload, when `gate` is set."""

    def __init__(self) -> None:
        self.seen: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.left: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        """Hooks that were given up."""
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None

    async def __call__(self, payload: dict[str, Any]) -> dict[str, Any]:
        self.seen.put_nowait(payload)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.left.put_nowait(payload)
            raise
        if self.error is not None:
            raise self.error
        return {"echo": payload}


@pytest.fixture
def handler() -> Handler:
    return Handler()


@pytest.fixture
async def server(handler: Handler) -> AsyncIterator[HookServer]:
    server = HookServer(handler)
    await server.start()
    yield server
    await server.close()


def url(server: HookServer) -> str:
    return server.settings()["hooks"]["Stop"][0]["hooks"][0]["url"]


def signed(server: HookServer) -> dict[str, str]:
    return {"Authorization": f"Bearer {server.token}"}


@pytest.fixture
async def client(server: HookServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url(server), headers=signed(server), timeout=SECONDS) as client:
        yield client


def test_the_settings_name_the_variable_of_the_token_and_not_the_token() -> None:
    async def settings() -> tuple[dict[str, Any], str]:
        server = HookServer(Handler())
        await server.start()
        found = server.settings()
        await server.close()
        return found, server.token

    found, token = asyncio.run(settings())
    assert token not in json.dumps(found)
    assert set(found["hooks"]) == {
        "UserPromptSubmit",
        "PreToolUse",
        "PermissionRequest",
        "Stop",
        "StopFailure",
    }
    (hook,) = found["hooks"]["PermissionRequest"][0]["hooks"]
    assert hook["headers"]["Authorization"] == f"Bearer ${TOKEN_VARIABLE}"
    assert hook["allowedEnvVars"] == [TOKEN_VARIABLE]
    assert hook["timeout"] >= 86400, "a permission waits for a person"


async def test_a_hook_is_answered(client: httpx.AsyncClient) -> None:
    answer = await client.post("/", json={"hook_event_name": "Stop"})
    assert (answer.status_code, answer.json()) == (200, {"echo": {"hook_event_name": "Stop"}})


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer \xe9", "Basic x", ""])
async def test_a_wrong_token_is_refused(server: HookServer, handler: Handler, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    async with httpx.AsyncClient() as client:
        answer = await client.post(url(server), json={}, headers=headers)  # pyright: ignore[reportArgumentType]
    assert answer.status_code == 401
    assert handler.seen.empty()


@pytest.mark.parametrize(
    "body", [b"", b"no json", b"[1]", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000]
)
async def test_garbage_is_refused(client: httpx.AsyncClient, handler: Handler, body: bytes) -> None:
    assert (await client.post("/", content=body)).status_code == 400
    assert handler.seen.empty()
    assert (await client.post("/", json={})).status_code == 200


async def test_what_is_not_http_ends_the_connection(server: HookServer, client: httpx.AsyncClient) -> None:
    address = httpx.URL(url(server))
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"\x00\x01 no request\r\n\r\n")
    async with asyncio.timeout(SECONDS):
        await reader.read()
    writer.close()
    assert (await client.post("/", json={})).status_code == 200


async def test_several_hooks_wait_at_once(client: httpx.AsyncClient, handler: Handler) -> None:
    handler.gate.clear()
    asked = [asyncio.create_task(client.post("/", json={"number": number})) for number in range(20)]
    async with asyncio.timeout(SECONDS):
        for _ in asked:
            await handler.seen.get()
    handler.gate.set()
    answers = await asyncio.gather(*asked)
    assert [answer.json()["echo"]["number"] for answer in answers] == list(range(20))


async def test_a_connection_is_used_for_many_hooks(server: HookServer) -> None:
    limits = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(base_url=url(server), headers=signed(server), limits=limits) as client:
        for number in range(50):
            answer = await client.post("/", json={"number": number})
            assert answer.json() == {"echo": {"number": number}}


async def test_a_request_that_follows_before_the_answer_is_answered_too(
    server: HookServer, handler: Handler
) -> None:
    address = httpx.URL(url(server))
    reader, writer = await asyncio.open_connection(address.host, address.port)
    body = b'{"a":1}'
    request = (
        f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    handler.gate.clear()
    writer.write(request)
    async with asyncio.timeout(SECONDS):
        await handler.seen.get()
        writer.write(request)
        await writer.drain()
        handler.gate.set()
        answers = b""
        while answers.count(b'{"echo":{"a":1}}') < 2:
            answers += await reader.read(65536)
    writer.close()


async def test_a_large_hook_is_taken(client: httpx.AsyncClient) -> None:
    text = "x" * (20 * 1024 * 1024)
    answer = await client.post("/", json={"tool_input": text})
    assert answer.json()["echo"]["tool_input"] == text


async def test_a_hook_without_end_is_cut_off(client: httpx.AsyncClient, handler: Handler) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * (1024 * 1024)

    with pytest.raises(httpx.TransportError):
        await client.post("/", content=endless())
    assert handler.seen.empty()
    assert (await client.post("/", json={})).status_code == 200


async def test_a_hook_that_claude_code_no_longer_waits_for_is_given_up(
    server: HookServer, handler: Handler
) -> None:
    handler.gate.clear()
    async with httpx.AsyncClient(base_url=url(server), headers=signed(server)) as client:
        asked = asyncio.create_task(client.post("/", json={"number": 1}))
        async with asyncio.timeout(SECONDS):
            await handler.seen.get()
        asked.cancel()
        async with asyncio.timeout(SECONDS):
            assert await handler.left.get() == {"number": 1}


async def test_an_error_of_ours_is_no_answer(
    client: httpx.AsyncClient, handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    handler.error = RuntimeError("defect")
    assert (await client.post("/", json={})).status_code == 500
    assert "a hook of Claude Code failed" in caplog.text


async def test_the_end_of_the_server_leaves_no_hook_waiting(
    server: HookServer, client: httpx.AsyncClient, handler: Handler
) -> None:
    handler.gate.clear()
    asked = asyncio.create_task(client.post("/", json={}))
    async with asyncio.timeout(SECONDS):
        await handler.seen.get()
        await server.close()
        with pytest.raises(httpx.TransportError):
            await asked
