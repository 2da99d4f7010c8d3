"""Hostile frames on `/acp` of a hub in its own process, with a client beside it that must not notice them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from farsteer.jsonrpc.errors import INVALID_REQUEST, PARSE_ERROR
from tests.support.stalls import TOKEN, WatchedHub, watched_hub

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
SECONDS = 30.0
_LAST = {"jsonrpc": "2.0", "id": "last", "method": "initialize", "params": {"protocolVersion": 1}}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[WatchedHub]:
    async with watched_hub(tmp_path, command="hub") as hub:
        yield hub
        assert "Traceback" not in hub.log


def open_socket(hub: WatchedHub) -> connect:
    url = hub.url.replace("http", "ws", 1) + "/acp"
    headers = {"authorization": f"Bearer {TOKEN}"}
    return connect(url, additional_headers=headers, max_size=None, compression=None, ping_interval=None)


async def answers_to(socket: ClientConnection, *frames: bytes) -> list[Any]:
    """Send frames and a good request. Returns what was answered before the answer to that."""
    for frame in frames:
        await socket.send(frame, text=True)
    await socket.send(json.dumps(_LAST))
    answers: list[Any] = []
    async with asyncio.timeout(SECONDS):
        while not answers or answers[-1].get("id") != "last":
            answers.append(json.loads(await socket.recv()))
    return answers[:-1]


async def test_a_batch_of_millions_costs_one_answer_and_little_memory(hub: WatchedHub) -> None:
    before = hub.resident_bytes
    hub.reset_peak()
    async with open_socket(hub) as socket:
        (answer,) = await answers_to(socket, b"[" + b"1," * (2 * MIB) + b"1]")
    assert (answer["id"], answer["error"]["code"]) == (None, INVALID_REQUEST)
    assert hub.peak_bytes - before < 64 * MIB


async def test_a_batch_over_the_count_costs_one_answer(hub: WatchedHub) -> None:
    async with open_socket(hub) as socket:
        (answer,) = await answers_to(socket, json.dumps([{"method": "x", "id": 1}] * 101).encode())
        assert answer["error"]["message"] == "a batch has at most 100 messages, not 101"
        assert len(await answers_to(socket, json.dumps([1] * 100).encode())) == 100


async def test_a_client_beside_hostile_frames_is_served(hub: WatchedHub) -> None:
    hostile = [
        b"[" + b"{}," * MIB + b"{}]",
        b'{"id":1,"method":"session/list","params":{' + b",".join(b'"%d":[]' % n for n in range(200_000)) + b"}}",
        b'{"id":2,"method":"session/list","params":' + b"[" * MIB,
        b'{"id":3,"method":"' + b"x" * (8 * MIB) + b'"}',
        b'{"method":"x","id":"' + b"\\n" * (4 * MIB) + b'"}',
    ]  # fmt: skip
    async with open_socket(hub) as socket, httpx.AsyncClient(base_url=hub.url, timeout=SECONDS) as client:
        served = 0

        async def use_hub() -> None:
            nonlocal served
            while True:
                response = await client.post("/api/auth", json={"accessToken": TOKEN})
                assert response.status_code == 200
                served += 1

        using = asyncio.create_task(use_hub())
        for frame in hostile:
            (answer,) = await answers_to(socket, frame)
            assert answer["error"]["code"] == INVALID_REQUEST
            assert not using.done()
        using.cancel()
    assert served > 0


@pytest.mark.parametrize("depth", [100, 900, MIB])
async def test_deep_nesting_is_answered_and_the_connection_goes_on(hub: WatchedHub, depth: int) -> None:
    frame = b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"a":%b}}' % (
        b"[" * depth + b"]" * depth
    )
    async with open_socket(hub) as socket:
        (answer,) = await answers_to(socket, frame)
    assert answer["error"]["message"] == "JSON is nested more than 64 levels deep"


async def test_text_that_is_not_json_is_answered(hub: WatchedHub) -> None:
    frames = [b"{", b"\0", b'{"id":1,"method":"\\ud800"}', "\ufeff{}".encode(), b'"', b"nul"]
    async with open_socket(hub) as socket:
        answers = await answers_to(socket, *frames)
    assert [answer["error"]["code"] for answer in answers] == [PARSE_ERROR] * len(frames)


async def test_a_frame_over_the_limit_ends_its_connection(hub: WatchedHub) -> None:
    before = hub.resident_bytes
    hub.reset_peak()
    async with open_socket(hub) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await answers_to(socket, b'"' + b"x" * (40 * MIB) + b'"')
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009
    assert hub.peak_bytes - before < 16 * MIB


async def test_a_client_that_does_not_read_its_errors_is_not_read_either(hub: WatchedHub) -> None:
    before = hub.resident_bytes
    hub.reset_peak()
    frame = json.dumps([1] * 100).encode()
    async with open_socket(hub) as socket:
        # Each frame of 300 bytes is answered by 9 KB, which nobody reads.
        socket.transport.pause_reading()

        async def flood() -> None:
            for _ in range(20_000):
                await socket.send(frame, text=True)

        flooding = asyncio.create_task(flood())
        await asyncio.wait([flooding], timeout=2)
        assert hub.peak_bytes - before < 128 * MIB
        flooding.cancel()
        await asyncio.wait([flooding])
        socket.transport.abort()
