"""The model speaks every wire format well: what it says arrives whole, streamed or not."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.model.conftest import Client, outcomes
from tests.model.wires import Reply, Used
from tests.support.model import SIDE, ScriptedModel

pytestmark = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


async def test_a_text_without_directives_is_echoed(client: Client, stream: bool) -> None:
    reply = await client.ask("tell me a joke", stream=stream)
    assert reply == Reply(text="echo: tell me a joke", tokens=(100, 10))


async def test_thought_text_and_tool_call_come_in_their_order(client: Client, stream: bool) -> None:
    script = "please [[think:hm, well]] [[say:I run it. ]][[say:Now.]][[bash:touch x]][[say:never here]]"
    reply = await client.ask(script, stream=stream)
    assert reply.thought == "hm, well"
    assert reply.text == "I run it. Now."
    assert [(call.name, call.input) for call in reply.calls] == [
        ("Bash", {"command": "touch x", "why": "scripted"})
    ]


async def test_the_script_goes_on_behind_each_result_and_then_is_done(client: Client, stream: bool) -> None:
    script = "[[bash:first]][[say:between]][[bash:second]]"
    one = await client.ask(script, stream=stream)
    one.calls[0].result = "exit 0"
    two = await client.ask(script, one, stream=stream)
    assert (two.text, two.calls[0].input["command"]) == ("between", "second")
    two.calls[0].result = "exit 1"
    assert (await client.ask(script, one, two, stream=stream)).text == "done: exit 1"


async def test_calls_joined_by_and_are_one_answer(client: Client, stream: bool) -> None:
    script = "[[bash:a]][[and]][[bash:b]][[say:both]]"
    reply = await client.ask(script, stream=stream)
    assert [call.input["command"] for call in reply.calls] == ["a", "b"]
    reply.calls[0].result = reply.calls[1].result = "ok"
    assert (await client.ask(script, reply, stream=stream)).text == "both"


async def test_a_new_message_begins_a_new_script(client: Client, stream: bool) -> None:
    first = await client.ask("[[bash:old]]", stream=stream)
    first.calls[0].result = "ok"
    reply = await client.ask("[[bash:old]]", first, Reply(text="done"), "[[say:fresh]]", stream=stream)
    assert (reply.text, reply.calls) == ("fresh", [])


async def test_history_tells_what_the_model_was_shown(client: Client, stream: bool) -> None:
    ran = Reply(calls=[Used("c1", "Bash", {"command": "ls", "why": ""}, "a.txt")])
    reply = await client.ask("hello", Reply(text="hi"), "[[bash:ls]]", ran, "[[history]]", stream=stream)
    assert json.loads(reply.text)["history"] == [
        ["user", "hello"],
        ["assistant", "hi"],
        ["user", "[[bash:ls]]"],
        ["assistant", "Bash()"],
        ["tool", "a.txt"],
        ["user", "[[history]]"],
    ]


async def test_info_tells_wire_model_effort_and_tools(client: Client, stream: bool) -> None:
    reply = await client.ask("[[info]]", model="m-2", effort="high", stream=stream)
    assert json.loads(reply.text) == {
        "wire": client.wire.name,
        "model": "m-2",
        "effort": "high",
        "tools": 1,
        "images": 0,
    }


async def test_a_request_without_tools_runs_no_script(client: Client, stream: bool) -> None:
    assert (await client.ask("[[error:500]]", tools={}, stream=stream)).text == SIDE
    assert (await client.ask("[[say:hi]]", tools={}, model="plain-1", stream=stream)).text == "hi"


async def test_a_named_tool_is_called_as_it_is(client: Client, stream: bool) -> None:
    given = {"deep": [[1], ["]]"]], "text": "a:b"}
    reply = await client.ask(f"[[tool:Custom:{json.dumps(given)}]]", stream=stream)
    assert [(call.name, call.input) for call in reply.calls] == [("Custom", given)]


async def test_an_error_is_the_dialects_own_and_the_next_request_works(
    client: Client, server: ScriptedModel, stream: bool
) -> None:
    response = await client.post("[[error:401]]", stream=stream)
    assert response.status_code == 401
    assert response.json()["error"]["message"] == "scripted 401"
    script = "[[error:500:2]][[say:at last]]"
    assert [(await client.post(script, stream=stream)).status_code for _ in range(2)] == [500, 500]
    assert (await client.ask(script, stream=stream)).text == "at last"
    assert await outcomes(server, 4) == ["error 401", "error 500", "error 500", "answered"]


async def test_a_dropped_connection_breaks_and_the_next_works(
    client: Client, server: ScriptedModel, stream: bool
) -> None:
    script = "[[say:half a]][[drop:1]][[say: sentence]]"
    with pytest.raises(httpx.TransportError):
        await client.post(script, stream=stream)
    assert (await client.ask(script, stream=stream)).text == "half a sentence"
    assert await outcomes(server, 2) == ["dropped", "answered"]


async def test_a_broken_script_is_told_to_both_sides(
    client: Client, server: ScriptedModel, stream: bool
) -> None:
    response = await client.post("[[explode:now]]", stream=stream)
    assert response.status_code == 400
    assert "explode" in response.text
    with pytest.raises(AssertionError, match="explode"):
        server.check()
