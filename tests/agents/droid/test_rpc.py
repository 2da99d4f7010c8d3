"""Requests and their responses, with the error codes of older and newer CLIs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from farsteer.agents.base import Prompt
from farsteer.agents.droid import protocol
from farsteer.agents.droid.rpc import RpcClient
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
from tests.agents.droid.fake_droid import LaunchHarness, completed, message, state, text


class Connection:
    """An `RpcClient` with the test at the other end."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self.broken = False
        self.rpc = RpcClient(self._write)

    async def _write(self, data: bytes) -> None:
        if self.broken:
            raise AgentError("the agent reads no more", code=ErrorCode.AGENT_DIED)
        self.written.append(json.loads(data))

    async def call(self, method: str = "a_method", timeout: float = 10.0, **more: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(self.rpc.call(method, {}, timeout, **more))
        await asyncio.sleep(0)
        return task

    def respond(self, request_id: str | int | None, error: tuple[int, str] | None = None) -> Any:
        failure = protocol.Failure(code=error[0], message=error[1]) if error else None
        return self.rpc.handle_response(protocol.Response(id=request_id, error=failure))


async def test_a_response_is_matched_by_its_id() -> None:
    connection = Connection()
    task = await connection.call()
    assert connection.written[0] | {"id": "", "method": ""} == {
        "jsonrpc": "2.0", "factoryApiVersion": "1.0.0", "type": "request", "id": "", "method": "", "params": {},
    }  # fmt: skip
    assert connection.respond(connection.written[0]["id"]) is None
    await task


async def test_one_call_is_open_at_a_time() -> None:
    connection = Connection()
    first, second = await connection.call("first"), await connection.call("second")
    assert [one["method"] for one in connection.written] == ["droid.first"]
    connection.respond(connection.written[0]["id"])
    await first
    await asyncio.sleep(0)
    connection.respond(connection.written[1]["id"])
    await second


async def test_an_error_without_an_id_belongs_to_the_open_call() -> None:
    connection = Connection()
    task = await connection.call()
    await connection.rpc.send("interrupt_session", {})
    assert connection.respond(None, (-32600, "Invalid request format")) is None
    with pytest.raises(BadRequest):
        await task
    error = connection.respond(None, (-32600, "Invalid request format"))
    assert error.method == "interrupt_session", "then to the oldest request that nobody waits for"
    assert connection.respond(None, (-32700, "Invalid JSON")).method is None, "then to no request"


async def test_a_second_response_is_returned_as_unmatched() -> None:
    connection = Connection()
    task = await connection.call("add_user_message")
    request_id = connection.written[0]["id"]
    connection.respond(request_id)
    await task
    error = connection.respond(request_id, (-32603, "No active session."))
    assert (error.request_id, error.method, error.failure.message) == (
        request_id, "add_user_message", "No active session.",
    )  # fmt: skip
    assert connection.respond(request_id) is None, "a second success is ignored"


async def test_a_response_to_no_request_is_ignored() -> None:
    connection = Connection()
    assert connection.respond("never-asked") is None
    assert connection.respond(17) is None
    assert connection.respond("never-asked", (-32603, "hm")).method is None


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
async def test_each_error_code_is_mapped(code: int, kind: type[FarsteerError], ours: ErrorCode) -> None:
    connection = Connection()
    task = await connection.call()
    connection.respond(connection.written[0]["id"], (code, "because"))
    with pytest.raises(kind, match="because") as caught:
        await task
    assert caught.value.code is ours
    assert caught.value.details["rpc_code"] == code


@pytest.mark.parametrize("code", [-32601, -32600], ids=["newer", "older"])
async def test_a_method_that_this_version_lacks_is_a_capability_error(code: int) -> None:
    connection = Connection()
    task = await connection.call("list_models", optional=True)
    connection.respond(
        None if code == -32600 else connection.written[0]["id"], (code, "Invalid request format")
    )
    with pytest.raises(NotCapable, match="list_models"):
        await task


async def test_a_timeout_does_not_affect_the_next_call() -> None:
    connection = Connection()
    task = await connection.call(timeout=0.01)
    with pytest.raises(AgentError) as caught:
        await task
    assert caught.value.code is ErrorCode.TIMEOUT
    late = await connection.call("next")
    assert connection.respond(connection.written[0]["id"], (-32603, "late")).method == "a_method"
    connection.respond(connection.written[1]["id"])
    await late


async def test_close_fails_open_and_later_calls() -> None:
    connection = Connection()
    first, second = await connection.call(), await connection.call()
    connection.rpc.close(AgentError("gone", code=ErrorCode.AGENT_DIED))
    for task in (first, second):
        with pytest.raises(AgentError, match="gone"):
            await task
    with pytest.raises(AgentError, match="gone"):
        await connection.rpc.call("later", {}, 1.0)
    with pytest.raises(AgentError, match="gone"):
        await connection.rpc.send("later", {})


async def test_a_write_that_fails_fails_the_request() -> None:
    connection = Connection()
    connection.broken = True
    with pytest.raises(AgentError) as caught:
        await connection.rpc.call("a_method", {}, 1.0)
    assert caught.value.code is ErrorCode.AGENT_DIED
    assert not connection.rpc.is_open("1")


# -- a message and its two responses


async def test_a_message_that_is_refused_after_its_acknowledgement_fails_the_turn(
    harness: LaunchHarness,
) -> None:
    sending = asyncio.create_task(harness.launch.send(Prompt(turn_id="turn-1", text="hello")))
    request = await harness.droid.next_request("add_user_message")
    await harness.droid.respond(request)
    await sending
    await harness.droid.respond_error(
        request["id"], -32603, "No active session. Call initialize_session first."
    )
    (end,) = harness.sink.turn_ends
    assert (end.turn_id, end.reason) == ("turn-1", TurnEndReason.FAILED)
    assert "No active session" in str(end.error)
    await harness.begin_turn()


async def test_both_responses_in_one_batch_are_one_failed_turn(harness: LaunchHarness) -> None:
    sending = asyncio.create_task(harness.launch.send(Prompt(turn_id="turn-1", text="hello")))
    request = await harness.droid.next_request("add_user_message")
    failure = {"code": -32603, "message": "No active session."}
    await harness.droid.send(
        {"type": "response", "id": request["id"], "result": {}},
        {"type": "response", "id": request["id"], "error": failure},
    )
    await sending
    assert [end.reason for end in harness.sink.turn_ends] == [TurnEndReason.FAILED]


async def test_a_late_error_does_not_end_a_working_turn(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    await harness.droid.respond_error(harness.droid.written[-1]["id"], -32603, "something went wrong")
    assert harness.sink.turn_ends == []
    await harness.droid.notify(completed("error"))
    assert harness.sink.turn_ends[0].error == "error: Droid: something went wrong"


async def test_a_refused_message_begins_no_turn(harness: LaunchHarness) -> None:
    sending = asyncio.create_task(harness.launch.send(Prompt(turn_id="turn-1", text="hello")))
    await harness.droid.next_request("add_user_message")
    await harness.droid.respond_error(None, -32600, "Invalid request format")
    with pytest.raises(BadRequest):
        await sending
    assert harness.sink.turn_ends == []
    assert harness.droid.running, "its state is known: it has not accepted the message"
    await harness.begin_turn()
    await harness.droid.notify(
        message("assistant", text("hi"), id="m1"), completed(turn="user-1"), state("idle")
    )
    assert len(harness.sink.turn_ends) == 1


async def test_an_unmatched_error_becomes_a_notice(harness: LaunchHarness) -> None:
    await harness.droid.respond_error(None, -32700, "Invalid JSON")
    (notice,) = harness.sink.events_of(Notice)
    assert (notice.code, notice.text) == (ErrorCode.AGENT_PROTOCOL, "Droid reports an error: Invalid JSON")


async def test_two_turns_at_once_are_refused(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    with pytest.raises(Conflict):
        await harness.launch.send(Prompt(turn_id="turn-2", text="and this"))
    with pytest.raises(NotCapable):
        await harness.launch.steer(Prompt(turn_id="turn-2", text="and this"))
