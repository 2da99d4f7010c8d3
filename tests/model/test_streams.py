"""What only a stream can do: fail in the middle, end too early, hang, wait for others, and take its time."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from tests.model.conftest import Client, server_sent
from tests.support.model import ScriptedModel


async def test_an_error_after_the_first_words_is_told_in_the_stream(client: Client) -> None:
    response = await client.post("[[say:so far so good]][[error:529]]")
    assert response.status_code == 200
    name, data = server_sent(response.text)[-1]
    assert "scripted 529" in data
    assert name == {"anthropic": "error", "responses": "response.failed"}.get(client.wire.name)


async def test_a_cut_stream_ends_cleanly_without_its_end(client: Client) -> None:
    response = await client.post("[[say:half a sentence]][[cut]]")
    events = server_sent(response.text)
    assert "sentence" in events[-1][1]
    with pytest.raises(AssertionError):
        client.wire.streamed(events)


async def test_a_hanging_model_notices_that_the_agent_leaves(chat: Client, server: ScriptedModel) -> None:
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(chat.post("[[say:wait]][[hang]]"))
        await server.log.wait(lambda seen: seen.script == "[[say:wait]][[hang]]")
        asking.cancel()
    assert (await server.log.wait(lambda seen: seen.outcome is not None)).outcome == "gone"


async def test_a_meeting_waits_for_everyone(client: Client, http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(5):
        replies = await asyncio.gather(*(client.ask(f"[[meet:m:3]][[say:{name}]]") for name in "abc"))
    assert [reply.text for reply in replies] == ["a", "b", "c"]


async def test_a_test_can_let_a_request_go_on(chat: Client, server: ScriptedModel) -> None:
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        asking = group.create_task(chat.ask("[[meet:here:2]][[say:met]]"))
        await server.log.wait(lambda seen: seen.script.startswith("[[meet"))
        assert not asking.done()
        server.meet("here")
    assert asking.result().text == "met"


async def test_slow_words_come_one_by_one_and_none_twice(client: Client) -> None:
    reply = await client.ask("[[slow:5:0.001]][[sleep:0.001]]")
    assert reply.text == "word1 word2 word3 word4 word5 "


@pytest.mark.slow
async def test_a_delay_keeps_the_pieces_apart() -> None:
    with ScriptedModel(delay=0.02) as server:
        url = f"{server.url}/v1/chat/completions"
        body = {"model": "plain", "stream": True, "messages": [{"role": "user", "content": "a b c d e"}]}
        started = asyncio.get_running_loop().time()
        async with httpx.AsyncClient(trust_env=False, verify=False) as http:
            await http.post(url, json=body)
        assert asyncio.get_running_loop().time() - started >= 0.1


async def test_a_long_text_comes_in_few_pieces_and_whole(client: Client) -> None:
    text = " ".join(map(str, range(20_000)))
    response = await client.post(text)
    assert client.read(response).text == f"echo: {text}"
    assert len(server_sent(response.text)) < 100


@pytest.mark.parametrize(
    "given", ["[[say:never closed", "[[tool:X]]", "[[tool:X:{broken}]]", "[[sleep:long]]"]
)
async def test_a_mistake_in_a_script_is_named(chat: Client, server: ScriptedModel, given: str) -> None:
    assert (await chat.post(given)).status_code == 400
    assert len(server.log.mistakes) == 1


async def test_a_tool_nobody_offers_is_a_mistake(chat: Client, server: ScriptedModel) -> None:
    response = await chat.post("[[write:a:b]]")
    assert response.status_code == 400
    assert "Bash" in json.loads(response.text)["error"]["message"]
    with pytest.raises(httpx.TransportError):
        await chat.post("[[say:begun]][[write:a:b]]")
    assert len(server.log.mistakes) == 2
