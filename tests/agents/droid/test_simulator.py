"""The adapter handles the faults that the simulator shows, and the simulator behaves like Droid."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest

from farsteer.agents.base import DeltaEmitted, EventEmitted, Registered, TurnEnded
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.agents.droid.launch import DroidLaunch
from farsteer.core.approvals import Answer, Outcome, check_answer
from farsteer.core.errors import FarsteerError
from farsteer.core.events import (
    AgentMessage,
    ModeUpdate,
    Notice,
    Other,
    ToolCallUpdate,
    TurnEndReason,
    UsageUpdate,
)
from farsteer.core.modes import PermissionMode
from tests.support.droid_client import DroidProcess, droid, of, text_of
from tests.support.droid_simulator import install
from tests.support.droid_simulator.profile import PROFILES

pytestmark = pytest.mark.slow

HarnessFactory = Callable[..., AbstractAsyncContextManager[Harness]]
VERSIONS = [*PROFILES]
OLD = VERSIONS[:-1]


@pytest.fixture
def make_harness(home: Path, tmp_path: Path) -> HarnessFactory:
    @asynccontextmanager
    async def make(profile: str = "0.215", *options: str) -> AsyncIterator[Harness]:
        from tests.agents.droid.test_conformance import Simulated

        harness = Harness(
            DroidAdapter(install(tmp_path, profile, *options)), Simulated.prompts, tmp_path, 10.0
        )
        yield harness
        await harness.close()

    return make


def said(agent: RecordedLaunch) -> list[str]:
    return [event.text for event in agent.events_of(AgentMessage)]


def codes(agent: RecordedLaunch) -> list[str | None]:
    return [notice.code for notice in agent.events_of(Notice)]


async def test_text_that_is_streamed_again_is_emitted_once(make_harness: HarnessFactory) -> None:
    async with make_harness() as harness:
        agent = await harness.launch()
        assert (await agent.run_turn("retry 2")).reason is TurnEndReason.END_TURN
        assert said(agent) == ["The answer is 42."]
        assert codes(agent).count("model_retry") == 2


async def test_a_retracted_message_is_not_emitted(make_harness: HarnessFactory) -> None:
    async with make_harness() as harness:
        agent = await harness.launch()
        await agent.run_turn("retract")
        assert said(agent) == ["Something else."]
        assert "message_retracted" in codes(agent)


@pytest.mark.parametrize("profile", VERSIONS)
async def test_a_long_line_arrives(make_harness: HarnessFactory, profile: str) -> None:
    async with make_harness(profile) as harness:
        agent = await harness.launch()
        await agent.run_turn("bigline 3000")
        assert [len(text) for text in said(agent)] == [3_000_000]


@pytest.mark.parametrize("profile", VERSIONS)
async def test_a_flood_arrives_whole(make_harness: HarnessFactory, profile: str) -> None:
    async with make_harness(profile) as harness:
        agent = await harness.launch()
        await agent.run_turn("flood 5000")
        assert len(said(agent)) == 25
        assert sum(len(text.split()) for text in said(agent)) == 5000 * 9


@pytest.mark.parametrize("profile", VERSIONS)
async def test_an_error_of_the_model_fails_the_turn(make_harness: HarnessFactory, profile: str) -> None:
    async with make_harness(profile) as harness:
        agent = await harness.launch()
        ended = await agent.run_turn("fail")
        assert (ended.reason, "401" in (ended.error or "")) == (TurnEndReason.FAILED, True)
        assert (await agent.run_turn("say better")).reason is TurnEndReason.END_TURN


@pytest.mark.parametrize("profile", VERSIONS)
async def test_a_message_refused_after_its_acknowledgement_fails(
    make_harness: HarnessFactory, profile: str
) -> None:
    async with make_harness(profile) as harness:
        agent = await harness.launch()
        # The refusal may arrive before or after `send` has returned.
        with suppress(FarsteerError):
            ended = await agent.run_turn("refuse")
            assert (ended.reason, "after all" in (ended.error or "")) == (TurnEndReason.FAILED, True)
        assert (await agent.run_turn("say better")).reason is TurnEndReason.END_TURN


@pytest.mark.parametrize("profile", OLD)
async def test_an_error_without_an_id_fails_the_open_call(make_harness: HarnessFactory, profile: str) -> None:
    async with make_harness(profile) as harness:
        agent = await harness.launch()
        assert isinstance(agent.launch, DroidLaunch)
        with pytest.raises(FarsteerError):
            await agent.launch._rpc.call("rename_session", {"title": "A title"}, 10.0)
        assert (await agent.run_turn("say better")).reason is TurnEndReason.END_TURN


async def test_a_plan_is_carried_out_in_another_session(make_harness: HarnessFactory) -> None:
    async with make_harness() as harness:
        agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
        first = agent.launch.native_id
        turn_id = await agent.send("plan")
        (approval,) = await agent.wait_for_approvals()
        answer = Answer(outcome=Outcome.APPROVED, option_id="proceed_new_session_low")
        await agent.launch.answer(approval, check_answer(approval, answer))
        assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
        assert said(agent) == ["Implemented elsewhere."]
        assert agent.launch.native_id != first
        assert [output.native_id for output in agent.outputs_of(Registered)] == [
            first,
            agent.launch.native_id,
        ]
        again = await harness.relaunch(agent)
        await again.run_turn("recall")
        assert "Implement the following plan" in said(again)[-1]


@pytest.mark.parametrize("profile", VERSIONS)
async def test_always_raises_the_autonomy_of_the_whole_session(
    make_harness: HarnessFactory, profile: str
) -> None:
    async with make_harness(profile) as harness:
        agent = await harness.launch()
        turn_id = await agent.send("run touch a\nrun touch b")
        (approval,) = await agent.wait_for_approvals()
        await agent.answer(approval, Outcome.APPROVED_FOR_SESSION)
        await agent.wait_for_end(turn_id)
        assert (harness.directory / "b").exists()
        assert [update.permission_mode for update in agent.events_of(ModeUpdate)][
            -1
        ] is PermissionMode.SAFE_YOLO


@pytest.mark.parametrize("profile", VERSIONS)
async def test_an_interrupted_tool_has_one_result(make_harness: HarnessFactory, profile: str) -> None:
    async with make_harness(profile) as harness:
        agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
        turn_id = await agent.send("run echo begun; sleep 60")
        await agent.wait_until(
            lambda: any(part.delta.text == "begun\n" for part in agent.outputs_of(DeltaEmitted))
        )
        await agent.launch.interrupt()
        assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
        finals = [event for event in agent.events_of(ToolCallUpdate) if event.status and event.status.final]
        assert len(finals) == 1


async def test_a_droid_that_hangs_is_stopped(make_harness: HarnessFactory) -> None:
    async with make_harness("0.99", "--misbehave", "hang-at-eof") as harness:
        agent = await harness.launch()
        await agent.send("run touch a")
        await agent.wait_for_approvals()
        begun = time.monotonic()
        await agent.launch.stop(0.5)
        assert time.monotonic() - begun < 8
        assert agent.outputs_of(TurnEnded)[0].reason is TurnEndReason.CANCELLED


@pytest.mark.parametrize("profile", VERSIONS)
async def test_tokens_are_counted_once(make_harness: HarnessFactory, profile: str) -> None:
    async with make_harness(profile) as harness:
        agent = await harness.launch()
        for _ in range(3):
            await agent.run_turn("say hello")
        await agent.wait_until(
            lambda: sum(event.input_tokens for event in agent.events_of(UsageUpdate)) == 300
        )
        assert sum(event.output_tokens for event in agent.events_of(UsageUpdate)) == 21


@pytest.mark.parametrize("profile", VERSIONS[-2:])
async def test_token_usage_that_is_reported_after_the_turn_survives_the_process(
    make_harness: HarnessFactory, profile: str
) -> None:
    async with make_harness(profile) as harness:
        agent = await harness.launch()
        await agent.run_turn("say hello")
        before = sum(event.input_tokens for event in agent.events_of(UsageUpdate))
        # Older versions report the usage a moment later.
        again = await harness.relaunch(agent)
        assert before + sum(event.input_tokens for event in again.events_of(UsageUpdate)) == 100
        again = await harness.relaunch(again)
        await again.run_turn("say hello")
        third = await harness.relaunch(again)
        told = (*again.events_of(UsageUpdate), *third.events_of(UsageUpdate))
        assert before + sum(event.input_tokens for event in told) == 200, "nothing is counted twice"


@pytest.mark.parametrize("profile", VERSIONS[-2:])
async def test_an_early_completion_waits_for_the_last_message(
    make_harness: HarnessFactory, profile: str
) -> None:
    async with make_harness(profile, "--misbehave", "completed-early") as harness:
        agent = await harness.launch()
        for word in ("first", "second"):
            turn_id = await agent.send(f"say the {word} answer")
            assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
        said = [
            output.event
            for output in agent.outputs_of(EventEmitted)
            if isinstance(output.event, AgentMessage)
        ]
        assert [(one.text, one.partial) for one in said] == [
            ("the first answer", False),
            ("the second answer", False),
        ]
        messages = [agent.outputs.index(EventEmitted(event)) for event in said]
        ends = [index for index, output in enumerate(agent.outputs) if isinstance(output, TurnEnded)]
        assert messages[0] < ends[0] < messages[1] < ends[1]


async def test_unknown_notifications_and_fields_are_kept(make_harness: HarnessFactory) -> None:
    async with make_harness("0.215", "--misbehave", "strange-keys") as harness:
        agent = await harness.launch()
        await agent.run_turn("unknown")
        assert [(event.native_kind, event.data["strength"]) for event in agent.events_of(Other)] == [
            ("telepathy", 3)
        ]
        assert {"mood": "cheerful"}.items() <= (agent.events_of(AgentMessage)[-1].meta or {}).items()


async def test_required_authentication_is_emitted(make_harness: HarnessFactory) -> None:
    async with make_harness() as harness:
        agent = await harness.launch()
        await agent.run_turn("mcp auth")
        (notice,) = [event for event in agent.events_of(Notice) if event.code == "mcp_auth_required"]
        assert "https://mcp.example.com/authorize" in notice.text


# -- the simulator alone


@asynccontextmanager
async def simulator(tmp_path: Path, profile: str, *options: str) -> AsyncIterator[DroidProcess]:
    async with droid("exec", command=[install(tmp_path, profile, *options)]) as client:
        yield client


async def test_the_simulator_answers_twice_without_a_session(home: Path, tmp_path: Path) -> None:
    async with simulator(tmp_path, "0.215") as client:
        await client.send("add_user_message", {"text": "hi"})
        first, second = await client.next(), await client.next()
        assert first["result"] == {}
        assert (second["id"], second["error"]["code"]) == (first["id"], -32603)


async def test_the_simulator_exits_after_close_session(home: Path, tmp_path: Path) -> None:
    async with simulator(tmp_path, "0.215") as client:
        await client.initialize(tmp_path)
        assert await client.ask("close_session", {"reason": "other"}) == {}
        assert await client.ended() == 0


async def test_the_simulator_drains_a_turn_after_its_last_line(home: Path, tmp_path: Path) -> None:
    async with simulator(tmp_path, "0.215") as client:
        await client.initialize(tmp_path)
        await client.ask("add_user_message", {"text": "run sleep 0.3"})
        await client.select(await client.until_request("request_permission"), "proceed_once")
        await client.until_note("tool_execution_phase_changed", phase="executing")
        client.close()
        heard = len(client.lines)
        assert await client.ended() == 0
        told = [line["params"]["notification"] for line in client.lines[heard:]]
        assert told[0] == {"type": "droid_working_state_changed", "newState": "idle"}
        assert text_of(told) == "Done."
        assert of(told, "agent_turn_completed")[0]["reason"] == "process_exit"


async def test_the_newer_simulator_ignores_an_unknown_level_and_the_older_refuses_it(
    home: Path, tmp_path: Path
) -> None:
    async with simulator(tmp_path, "0.215") as client:
        settings = (await client.initialize(tmp_path, autonomyLevel="spec"))["settings"]
        assert (settings["interactionMode"], settings["autonomyLevel"]) == ("auto", "off")
    async with simulator(tmp_path, "0.57") as client:
        settings = (await client.initialize(tmp_path, autonomyLevel="spec"))["settings"]
        assert settings["autonomyLevel"] == "spec"
        answer = await client.call("update_session_settings", {"autonomyLevel": "low"})
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
