"""The server: what it takes in, what it writes down, and that it ends when it is told to."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.model.conftest import Client
from tests.model.wires import BASH
from tests.support.model import ScriptedModel

ROOT = Path(__file__).parents[2]
BODY = {"model": "plain", "messages": [{"role": "user", "content": "[[say:understood]]"}]}


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("identity", json.dumps(BODY).encode()), ("gzip", gzip.compress(json.dumps(BODY).encode())),
     ("deflate", zlib.compress(json.dumps(BODY).encode()))],
    ids=["identity", "gzip", "deflate"],
)  # fmt: skip
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_a_body_may_be_compressed_and_chunked(
    http: httpx.AsyncClient, encoding: str, body: bytes, chunked: bool
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 20):
            yield body[start : start + 20]

    response = await http.post(
        "/v1/chat/completions", content=pieces() if chunked else body, headers={"content-encoding": encoding}
    )
    assert response.json()["choices"][0]["message"]["content"] == "understood"


async def test_a_client_that_asks_first_is_told_to_go_on(server: ScriptedModel) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    body = json.dumps(BODY).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode())
    async with asyncio.timeout(5):
        assert (await reader.readline()).startswith(b"HTTP/1.1 100")
        await reader.readline()
        writer.write(body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("method", "path", "status", "found"),
    [
        ("GET", "/", 200, {}),
        ("HEAD", "/", 200, None),
        ("POST", "/v1/messages/count_tokens", 200, {"input_tokens": 100}),
        ("POST", "/v1beta/models/m:countTokens", 200, {"totalTokens": 100}),
        ("POST", "/telemetry", 200, {}),
        ("GET", "/api/cli/whoami", 404, {"error": "this is only a model"}),
    ],
)
async def test_what_agents_ask_besides_answers(
    http: httpx.AsyncClient, method: str, path: str, status: int, found: object
) -> None:
    response = await http.request(method, path, json={} if method == "POST" else None)
    assert response.status_code == status
    assert found is None or response.json() == found
    # The connection is still in step.
    assert (await http.get("/v1/models")).json()["data"][0]["id"] == "fake-model"


async def test_images_are_counted_in_every_format(client: Client, http: httpx.AsyncClient) -> None:
    body = client.wire.body(["[[info]]"], model="m", stream=False, tools={"Bash": BASH}, effort=None)
    image, place = {
        "anthropic": ({"type": "image", "source": {}}, lambda: body["messages"][0]["content"]),
        "chat": ({"type": "image_url", "image_url": {}}, lambda: body["messages"][-1]["content"]),
        "responses": ({"type": "input_image", "image_url": ""}, lambda: body["input"][-1]["content"]),
        "gemini": ({"inlineData": {}}, lambda: body["contents"][0]["parts"]),
    }[client.wire.name]
    if client.wire.name == "chat":
        body["messages"][-1]["content"] = [{"type": "text", "text": "[[info]]"}]
    place().append(image)
    reply = client.wire.whole((await http.post(client.wire.path("m", stream=False), json=body)).json())
    assert json.loads(reply.text)["images"] == 1


async def test_codex_offers_its_tools_as_an_item_in_code_mode(http: httpx.AsyncClient) -> None:
    tools = [{"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "exec"}]}]
    said = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "[[bash:touch x]]"}],
    }
    body = {"model": "m", "input": [{"type": "additional_tools", "tools": tools}, said]}
    item = (await http.post("/v1/responses", json=body)).json()["output"][0]
    assert (item["type"], item["name"]) == ("custom_tool_call", "exec")
    assert "touch x" in item["input"]


@pytest.mark.slow
async def test_the_log_says_what_became_of_each_request(tmp_path: Path) -> None:
    log, dump = tmp_path / "log.jsonl", tmp_path / "dump"
    dump.mkdir()
    with ScriptedModel(log=log, dump=dump) as server:
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False) as http:
            await http.post("/v1/chat/completions", json=BODY, headers={"authorization": "Bearer k"})
            await http.get("/api/nothing")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["path"], line["outcome"]) for line in lines] == [
        ("/v1/chat/completions", "answered"),
        ("/api/nothing", "other"),
    ]
    assert lines[0]["script"] == "[[say:understood]]"
    head, _, body = (dump / "0001.http").read_text().partition("\n\n")
    assert "authorization: Bearer k" in head
    assert json.loads(body) == BODY
    assert server.log.seen[0].body == BODY


async def test_a_wait_that_is_never_met_ends(server: ScriptedModel) -> None:
    with pytest.raises(TimeoutError):
        await server.log.wait(lambda _: True, seconds=0.01)


async def test_garbage_ends_the_connection_and_nothing_else(server: ScriptedModel, chat: Client) -> None:
    for garbage in (
        b"\x16\x03\x01garbage\r\n\r\n",
        b"POST /x HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(garbage)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()
    assert (await chat.ask("still here")).text == "echo: still here"


async def test_a_body_that_is_no_json_is_a_mistake(http: httpx.AsyncClient, server: ScriptedModel) -> None:
    with pytest.raises(httpx.TransportError):
        await http.post("/v1/messages", content=b"{")
    with pytest.raises(AssertionError):
        server.check()


@pytest.mark.slow
async def test_the_server_ends_while_a_request_hangs() -> None:
    with ScriptedModel() as server:
        body = {"model": "plain", "messages": [{"role": "user", "content": "[[hang]]"}]}
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False) as http:
            hanging = asyncio.create_task(http.post("/v1/chat/completions", json=body))
            await server.log.wait(lambda seen: seen.script == "[[hang]]")
            server.__exit__(None, None, None)
            with pytest.raises(httpx.TransportError):
                await hanging


@pytest.mark.slow
async def test_it_runs_as_a_program(tmp_path: Path) -> None:
    port_file, log = tmp_path / "port", tmp_path / "log"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.model", "--port", "0", "--port-file", port_file, "--log", log,
        "--dump", tmp_path / "dump", cwd=ROOT, env={"PATH": os.environ["PATH"]},
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            url = (await process.stdout.readline()).decode().removeprefix("listening on ").strip()
            async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as http:
                assert (await http.post("/v1/chat/completions", json=BODY)).status_code == 200
            assert url.endswith(f":{port_file.read_text().strip()}")
            process.terminate()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert "answered" in log.read_text()
    assert (tmp_path / "dump" / "0001.http").exists()
