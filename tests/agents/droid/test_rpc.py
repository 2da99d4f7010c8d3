"""Requests and their answers, in both of Droid's vocabularies."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from farsteer.agents.base import Prompt
from farsteer.agents.droid import wire
from farsteer.agents.droid.rpc import Rpc
from farsteer.core.errors import (
    AgentError,
    BadRequest,
    Conflict,
    ErrorCode,
    FarsteerError,
    NotCapable,
    NotFound,
)
from farsteer.core.events import Notice, TurnEndReason
from tests.agents.droid.peer import Stage, completed, message, state, text


class Line:
    """An `Rpc` whose other end is the test."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self.broken = False
        self.rpc = Rpc(self._write)

    async def _write(self, data: bytes) -> None:
        if self.broken:
            raise AgentError("the agent reads no more", code=ErrorCode.AGENT_DIED)
        self.written.append(json.loads(data))

    async def ask(self, method: str = "a_method", timeout: float = 10.0, **more: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(self.rpc.call(method, {}, timeout, **more))
        await asyncio.sleep(0)
        return task

    def answer(self, request_id: str | int | None, error: tuple[int, str] | None = None) -> Any:
        failure = wire.Failure(code=error[0], message=error[1]) if error else None
        return self.rpc.take(wire.Response(id=request_id, error=failure))


async def test_an_answer_finds_its_request_by_its_id() -> None:
    line = Line()
    task = await line.ask()
    assert line.written[0] | {"id": "", "method": ""} == {
        "jsonrpc": "2.0", "factoryApiVersion": "1.0.0", "type": "request", "id": "", "method": "", "params": {},
    }  # fmt: skip
    assert line.answer(line.written[0]["id"]) is None
    await task


async def test_one_request_is_under_way_at_a_time() -> None:
    line = Line()
    first, second = await line.ask("first"), await line.ask("second")
    assert [one["method"] for one in line.written] == ["droid.first"]
    line.answer(line.written[0]["id"])
    await first
    await asyncio.sleep(0)
    line.answer(line.written[1]["id"])
    await second


async def test_an_error_without_an_id_belongs_to_the_request_that_is_under_way() -> None:
    line = Line()
    task = await line.ask()
    await line.rpc.post("interrupt_session", {})
    assert line.answer(None, (-32600, "Invalid request format")) is None
    with pytest.raises(BadRequest):
        await task
    stray = line.answer(None, (-32600, "Invalid request format"))
    assert stray.method == "interrupt_session", "then to the oldest that nobody waits for"
    assert line.answer(None, (-32700, "Invalid JSON")).method is None, "then to nobody"


async def test_a_second_answer_is_news_and_not_an_answer() -> None:
    line = Line()
    task = await line.ask("add_user_message")
    request_id = line.written[0]["id"]
    line.answer(request_id)
    await task
    stray = line.answer(request_id, (-32603, "No active session."))
    assert (stray.request_id, stray.method, stray.failure.message) == (
        request_id, "add_user_message", "No active session.",
    )  # fmt: skip
    assert line.answer(request_id) is None, "a second success says nothing"


async def test_an_answer_to_nothing_is_harmless() -> None:
    line = Line()
    assert line.answer("never-asked") is None
    assert line.answer(17) is None
    assert line.answer("never-asked", (-32603, "hm")).method is None


@pytest.mark.parametrize(
    ("code", "kind", "ours"),
    [
        (-32600, BadRequest, ErrorCode.BAD_REQUEST),
        (-32601, BadRequest, ErrorCode.BAD_REQUEST),
        (-32602, BadRequest, ErrorCode.BAD_REQUEST),
        (-32004, NotFound, ErrorCode.NOT_FOUND),
        (-32603, AgentError, ErrorCode.AGENT_FAILED),
        (-32001, AgentError, ErrorCode.AGENT_FAILED),
        (-32005, AgentError, ErrorCode.AGENT_DIED),
        (-32700, AgentError, ErrorCode.AGENT_PROTOCOL),
        (4711, AgentError, ErrorCode.AGENT_FAILED),
    ],
)
async def test_each_code_of_droids_is_one_of_ours(
    code: int, kind: type[FarsteerError], ours: ErrorCode
) -> None:
    line = Line()
    task = await line.ask()
    line.answer(line.written[0]["id"], (code, "because"))
    with pytest.raises(kind, match="because") as caught:
        await task
    assert caught.value.code is ours
    assert caught.value.details["rpc_code"] == code


@pytest.mark.parametrize("code", [-32601, -32600], ids=["newer", "older"])
async def test_a_method_that_this_version_lacks_is_a_capability_error(code: int) -> None:
    line = Line()
    task = await line.ask("list_models", optional=True)
    line.answer(None if code == -32600 else line.written[0]["id"], (code, "Invalid request format"))
    with pytest.raises(NotCapable, match="list_models"):
        await task


async def test_an_answer_that_does_not_come_in_time_is_a_timeout_and_the_next_request_goes_on() -> None:
    line = Line()
    task = await line.ask(timeout=0.01)
    with pytest.raises(AgentError) as caught:
        await task
    assert caught.value.code is ErrorCode.TIMEOUT
    late = await line.ask("next")
    assert line.answer(line.written[0]["id"], (-32603, "late")).method == "a_method"
    line.answer(line.written[1]["id"])
    await late


async def test_the_end_of_droid_ends_what_waits_and_what_comes_after() -> None:
    line = Line()
    first, second = await line.ask(), await line.ask()
    line.rpc.end(AgentError("gone", code=ErrorCode.AGENT_DIED))
    for task in (first, second):
        with pytest.raises(AgentError, match="gone"):
            await task
    with pytest.raises(AgentError, match="gone"):
        await line.rpc.call("later", {}, 1.0)
    with pytest.raises(AgentError, match="gone"):
        await line.rpc.post("later", {})


async def test_a_write_that_fails_fails_the_request() -> None:
    line = Line()
    line.broken = True
    with pytest.raises(AgentError) as caught:
        await line.rpc.call("a_method", {}, 1.0)
    assert caught.value.code is ErrorCode.AGENT_DIED
    assert not line.rpc.waits_for("1")


# -- a message and its two answers


async def test_an_acknowledged_message_that_is_refused_after_all_fails_its_turn(stage: Stage) -> None:
    sending = asyncio.create_task(stage.launch.send(Prompt(turn_id="turn-1", text="hello")))
    request = await stage.peer.request("add_user_message")
    await stage.peer.answer(request)
    await sending
    await stage.peer.fail(request["id"], -32603, "No active session. Call initialize_session first.")
    (end,) = stage.sink.ends
    assert (end.turn_id, end.reason) == ("turn-1", TurnEndReason.FAILED)
    assert "No active session" in str(end.error)
    await stage.begin()


async def test_both_answers_in_one_batch_are_one_failed_turn(stage: Stage) -> None:
    sending = asyncio.create_task(stage.launch.send(Prompt(turn_id="turn-1", text="hello")))
    request = await stage.peer.request("add_user_message")
    failure = {"code": -32603, "message": "No active session."}
    await stage.peer.hear(
        {"type": "response", "id": request["id"], "result": {}},
        {"type": "response", "id": request["id"], "error": failure},
    )
    await sending
    assert [end.reason for end in stage.sink.ends] == [TurnEndReason.FAILED]


async def test_a_late_error_of_a_turn_at_work_does_not_end_it(stage: Stage) -> None:
    await stage.begin()
    await stage.peer.fail(stage.peer.written[-1]["id"], -32603, "something went wrong")
    assert stage.sink.ends == []
    await stage.peer.notes(completed("error"))
    assert stage.sink.ends[0].error == "error: Droid: something went wrong"


async def test_a_refused_message_begins_no_turn(stage: Stage) -> None:
    sending = asyncio.create_task(stage.launch.send(Prompt(turn_id="turn-1", text="hello")))
    await stage.peer.request("add_user_message")
    await stage.peer.fail(None, -32600, "Invalid request format")
    with pytest.raises(BadRequest):
        await sending
    assert stage.sink.ends == []
    assert stage.peer.running, "its state is known: it has not taken the message"
    await stage.begin()
    await stage.peer.notes(message("assistant", text("hi"), id="m1"), completed(turn="user-1"), state("idle"))
    assert len(stage.sink.ends) == 1


async def test_an_error_that_nobody_caused_is_told(stage: Stage) -> None:
    await stage.peer.fail(None, -32700, "Invalid JSON")
    (notice,) = stage.sink.events(Notice)
    assert (notice.code, notice.text) == (ErrorCode.AGENT_PROTOCOL, "Droid reports an error: Invalid JSON")


async def test_two_turns_at_once_are_refused(stage: Stage) -> None:
    await stage.begin()
    with pytest.raises(Conflict):
        await stage.launch.send(Prompt(turn_id="turn-2", text="and this"))
    with pytest.raises(NotCapable):
        await stage.launch.steer(Prompt(turn_id="turn-2", text="and this"))
