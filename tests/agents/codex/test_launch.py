"""A launch of Codex, played without a process: starts, turns, what goes wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farsteer.agents import process_launch
from farsteer.agents.base import Exited, LaunchPlan, Prompt, TurnEnded
from farsteer.agents.codex.launch import CodexLaunch
from farsteer.agents.conformance.harness import RecordingSink
from farsteer.core.errors import AgentError, Conflict, ErrorCode, FarsteerError, NotCapable
from farsteer.core.events import Notice, TurnEndReason
from farsteer.core.launch import LaunchDecision, LaunchMode
from farsteer.core.lines import Oversized
from farsteer.core.mcp import McpServer, McpTransport
from tests.agents.codex.fake_codex import Answer, FakeCodex, Json, Refused

THREAD = "0199a213-81c0-7800-8aa1-bbab2a035a53"
MODELS = {"data": [{"id": "a"}, {"id": "b", "hidden": True}, {"id": "c"}]}


def plan(resume: str | None = None, **changes: Any) -> LaunchPlan:
    mode = LaunchMode.RESUME if resume else LaunchMode.CREATE
    decision = LaunchDecision(start=mode, native_id=resume)
    found = LaunchPlan(session_id="s", directory="/w", generation=1, decision=decision, startup_timeout=5.0)
    return msgspec.structs.replace(found, **changes)


def usual(method: str, params: Json) -> Any:
    match method:
        case "thread/start" | "thread/resume" | "thread/fork":
            return {"thread": {"id": THREAD}, "model": "a", "sandbox": {"type": "readOnly"}}
        case "turn/start":
            return {"turn": {"id": "turn-1"}}
        case "model/list":
            return MODELS
        case _:
            return {}


class Played:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
        self.codex = FakeCodex(answer)
        self.sink = RecordingSink()
        self.models: list[tuple[str, ...]] = []
        monkeypatch.setattr(process_launch, "AgentProcess", self.codex)

    async def start(self, wanted: LaunchPlan | None = None) -> CodexLaunch:
        return await CodexLaunch.start(("codex",), wanted or plan(), self.sink, self.models.append)

    def params(self, method: str) -> Json:
        return next(params for name, params in reversed(self.codex.requests) if name == method)

    def notices(self) -> list[str | None]:
        events = [getattr(one, "event", None) for one in self.sink.outputs]
        return [event.code for event in events if isinstance(event, Notice)]

    def ends(self) -> list[TurnEnded]:
        return [one for one in self.sink.outputs if isinstance(one, TurnEnded)]


def played(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> Played:
    """Return a Codex with other answers to some methods, by their last word."""

    def answer(method: str, params: Json) -> Any:
        found = answers.get(method.replace("/", "_"), usual)
        if isinstance(found, Exception):
            raise found
        return found(method, params) if callable(found) else found

    return Played(monkeypatch, answer)


def refused(message: str, code: int = -32600) -> Refused:
    return Refused({"code": code, "message": message})


async def test_a_start_lists_the_models_that_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    codex = played(monkeypatch)
    launch = await codex.start()
    assert launch.native_id == THREAD
    async with asyncio.timeout(5):
        while not codex.models:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert codex.models == [("a", "c")]
    await launch.stop()
    assert isinstance(codex.sink.outputs[-1], Exited)


async def test_a_start_without_a_list_of_models_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    codex = played(monkeypatch, model_list=refused("no"))
    await (await codex.start()).stop()
    assert codex.models == []


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"thread_resume": refused("no rollout found for thread id x")}, ErrorCode.CONVERSATION_MISSING),
        ({"thread_resume": refused("something else", -32603)}, ErrorCode.AGENT_START_FAILED),
        ({"thread_resume": {"thread": {"id": ""}}}, ErrorCode.AGENT_START_FAILED),
        ({"thread_resume": {"thread": 5}}, ErrorCode.AGENT_START_FAILED),
        ({"initialize": refused("no")}, ErrorCode.AGENT_START_FAILED),
        ({"thread_turns_list": {"data": []}}, ErrorCode.ANCHOR_UNKNOWN),
    ],
)
async def test_a_start_that_fails_says_why_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], code: ErrorCode
) -> None:
    codex = played(monkeypatch, **answers)
    with pytest.raises(AgentError) as caught:
        await codex.start(plan(THREAD, cut_at="turn-9"))
    assert caught.value.code is code
    assert not codex.codex.running
    assert codex.sink.outputs == []


async def test_a_version_without_a_method_is_not_capable(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = {"data": [{"id": "turn-2"}, {"id": "turn-1"}]}
    codex = played(
        monkeypatch, thread_turns_list=turns, thread_revert=refused("unknown variant `thread/revert`")
    )
    with pytest.raises(NotCapable):
        await codex.start(plan(THREAD, cut_at="turn-1"))


async def test_a_start_that_takes_too_long_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def silence(method: str, params: Json) -> None:
        return None

    codex = played(monkeypatch, thread_start=silence)
    with pytest.raises(AgentError) as caught:
        await codex.start(plan(startup_timeout=0.05))
    assert caught.value.code is ErrorCode.AGENT_START_FAILED


async def test_a_cut_reverts_what_follows_the_anchor(monkeypatch: pytest.MonkeyPatch) -> None:
    def turns(method: str, params: Json) -> Json:
        if params.get("cursor"):
            return {"data": [{"id": "turn-2"}, {"id": "turn-1"}]}
        return {"data": [{"id": "turn-4"}, {"id": "turn-3"}], "nextCursor": "more"}

    codex = played(monkeypatch, thread_turns_list=turns)
    await (await codex.start(plan(THREAD, cut_at="turn-2"))).stop()
    assert codex.params("thread/revert") == {"threadId": THREAD, "beforeTurnId": "turn-3"}


async def test_a_cut_at_the_last_turn_reverts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    codex = played(monkeypatch, thread_turns_list={"data": [{"id": "turn-2"}]})
    await (await codex.start(plan(THREAD, cut_at="turn-2"))).stop()
    assert "thread/revert" not in dict(codex.codex.requests)


async def test_a_fork_names_its_last_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    codex = played(monkeypatch)
    await (await codex.start(plan(fork_of="other", cut_at="turn-2"))).stop()
    params = codex.params("thread/fork")
    assert (params["threadId"], params["lastTurnId"]) == ("other", "turn-2")


async def test_servers_and_directories_of_the_session_are_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    servers = (
        McpServer(name="local", command="x", args=("y",), env={"A": "1"}),
        McpServer(name="web", type=McpTransport.HTTP, url="http://x", headers={"B": "2"}),
    )
    codex = played(monkeypatch)
    await (await codex.start(plan(mcp_servers=servers, additional_directories=(str(tmp_path),)))).stop()
    config = codex.params("thread/start")["config"]
    assert config["mcp_servers"]["local"] == {"command": "x", "args": ["y"], "env": {"A": "1"}}
    assert config["mcp_servers"]["web"] == {"url": "http://x", "http_headers": {"B": "2"}}
    assert config["sandbox_workspace_write.writable_roots"] == [str(tmp_path.resolve())]


async def test_a_server_with_events_is_not_capable(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = (McpServer(name="old", type=McpTransport.SSE, url="http://x"),)
    with pytest.raises(NotCapable):
        await played(monkeypatch).start(plan(mcp_servers=servers))


async def test_a_message_that_codex_refuses_starts_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    codex = played(monkeypatch, turn_start=refused("bad input"))
    launch = await codex.start()
    for _ in range(2):
        with pytest.raises(FarsteerError, match="bad input"):
            await launch.send(Prompt(turn_id="t", text="hi"))
    assert codex.codex.running
    await launch.stop()
    assert codex.ends() == []


async def test_an_answer_that_cannot_be_read_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    codex = played(monkeypatch, turn_start={"turn": 5})
    launch = await codex.start()
    with pytest.raises(AgentError):
        await launch.send(Prompt(turn_id="t", text="hi"))
    assert not codex.codex.running
    await launch.stop()


async def test_a_turn_that_ends_before_it_is_confirmed_ends_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def quick(codex: Played) -> None:
        turn = {"id": "turn-1", "status": "completed"}
        await codex.codex.say({"method": "turn/completed", "params": {"threadId": THREAD, "turn": turn}})

    codex = played(monkeypatch)
    launch = await codex.start()
    sending = asyncio.create_task(launch.send(Prompt(turn_id="t", text="hi")))
    await asyncio.sleep(0)
    await quick(codex)
    await sending
    assert [end.turn_id for end in codex.ends()] == ["t"]
    with pytest.raises(Conflict):
        await launch.steer(Prompt(turn_id="t", text="late"))
    await launch.stop()


async def test_a_death_in_a_turn_is_a_crash_and_the_exit_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    codex = played(monkeypatch)
    launch = await codex.start()
    await launch.send(Prompt(turn_id="t", text="hi"))
    with pytest.raises(Conflict):
        await launch.send(Prompt(turn_id="u", text="hi"))
    codex.codex.die(-11)
    await codex.codex.wait()
    assert [end.reason for end in codex.ends()] == [TurnEndReason.CRASHED]
    assert isinstance(codex.sink.outputs[-1], Exited)


async def test_an_interrupt_names_the_turn_and_does_nothing_between_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codex = played(monkeypatch)
    launch = await codex.start()
    await launch.interrupt()
    assert "turn/interrupt" not in dict(codex.codex.requests)
    await launch.send(Prompt(turn_id="t", text="hi"))
    await launch.interrupt()
    assert codex.params("turn/interrupt") == {"threadId": THREAD, "turnId": "turn-1"}
    await launch.stop()


async def test_a_steered_message_names_the_turn_that_it_belongs_to(monkeypatch: pytest.MonkeyPatch) -> None:
    codex = played(monkeypatch)
    launch = await codex.start()
    await launch.send(Prompt(turn_id="t", text="hi"))
    await launch.steer(Prompt(turn_id="t", text="more", message_id="m"))
    params = codex.params("turn/steer")
    assert (params["expectedTurnId"], params["clientUserMessageId"]) == ("turn-1", "m")
    await launch.stop()
    assert "steer_lost" in codex.notices()


async def test_a_steered_message_that_codex_refuses_is_a_conflict_and_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codex = played(monkeypatch, turn_steer=refused("no active turn to steer"))
    launch = await codex.start()
    await launch.send(Prompt(turn_id="t", text="hi"))
    with pytest.raises(Conflict):
        await launch.steer(Prompt(turn_id="t", text="more", message_id="m"))
    await launch.stop()
    assert "steer_lost" not in codex.notices()


async def test_lines_that_cannot_be_read_are_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    def noise(method: str, params: Json) -> Any:
        raise Refused(line=Oversized(size=99_000_000, head=b"{"))

    codex = played(monkeypatch, model_list=noise)
    launch = await codex.start()
    await launch.send(Prompt(turn_id="t", text="hi"))
    await codex.codex.say({"id": 99, "error": {"message": "what?"}}, {"nothing": 1})
    assert {ErrorCode.TOO_LARGE, ErrorCode.AGENT_PROTOCOL} <= set(codex.notices())
    assert codex.ends() == []
    await launch.stop()
