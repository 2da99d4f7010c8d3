"""What a Droid may do to us, done by the simulator: the adapter stands it, and the simulator does it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest

from farsteer.agents.base import DeltaEmitted, EventEmitted, Registered, TurnEnded
from farsteer.agents.conformance.stage import Scene, Stage
from farsteer.agents.droid.adapter import DroidAdapter
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

Setting = Callable[..., AbstractAsyncContextManager[Stage]]
VERSIONS = [*PROFILES]
OLD = VERSIONS[:-1]


@pytest.fixture
def stage(home: Path, tmp_path: Path) -> Setting:
    @asynccontextmanager
    async def set_up(profile: str = "0.215", *options: str) -> AsyncIterator[Stage]:
        from tests.agents.droid.test_simulator_conformance import Simulated

        stage = Stage(DroidAdapter(install(tmp_path, profile, *options)), Simulated.script, tmp_path, 10.0)
        yield stage
        await stage.close()

    return set_up


def said(scene: Scene) -> list[str]:
    return [event.text for event in scene.events(AgentMessage)]


def codes(scene: Scene) -> list[str | None]:
    return [notice.code for notice in scene.events(Notice)]


async def test_what_is_streamed_again_is_said_once(stage: Setting) -> None:
    async with stage() as set_:
        scene = await set_.launch()
        assert (await scene.turn("retry 2")).reason is TurnEndReason.END_TURN
        assert said(scene) == ["The answer is 42."]
        assert codes(scene).count("model_retry") == 2


async def test_what_is_taken_back_is_not_said(stage: Setting) -> None:
    async with stage() as set_:
        scene = await set_.launch()
        await scene.turn("retract")
        assert said(scene) == ["Something else."]
        assert "message_retracted" in codes(scene)


@pytest.mark.parametrize("profile", VERSIONS)
async def test_a_long_line_arrives(stage: Setting, profile: str) -> None:
    async with stage(profile) as set_:
        scene = await set_.launch()
        await scene.turn("bigline 3000")
        assert [len(text) for text in said(scene)] == [3_000_000]


@pytest.mark.parametrize("profile", VERSIONS)
async def test_a_flood_arrives_whole(stage: Setting, profile: str) -> None:
    async with stage(profile) as set_:
        scene = await set_.launch()
        await scene.turn("flood 5000")
        assert len(said(scene)) == 25
        assert sum(len(text.split()) for text in said(scene)) == 5000 * 9


@pytest.mark.parametrize("profile", VERSIONS)
async def test_an_error_of_the_model_fails_the_turn(stage: Setting, profile: str) -> None:
    async with stage(profile) as set_:
        scene = await set_.launch()
        ended = await scene.turn("fail")
        assert (ended.reason, "401" in (ended.error or "")) == (TurnEndReason.FAILED, True)
        assert (await scene.turn("say better")).reason is TurnEndReason.END_TURN


@pytest.mark.parametrize("profile", VERSIONS)
async def test_an_acknowledgement_that_was_none(stage: Setting, profile: str) -> None:
    async with stage(profile) as set_:
        scene = await set_.launch()
        # Whether the refusal comes before the sending has returned or after it, it fails the message.
        with suppress(FarsteerError):
            ended = await scene.turn("refuse")
            assert (ended.reason, "after all" in (ended.error or "")) == (TurnEndReason.FAILED, True)
        assert (await scene.turn("say better")).reason is TurnEndReason.END_TURN


@pytest.mark.parametrize("profile", OLD)
async def test_an_error_without_an_id_fails_the_request_under_way(stage: Setting, profile: str) -> None:
    async with stage(profile) as set_:
        scene = await set_.launch()
        with pytest.raises(FarsteerError):
            await scene.launch.commands.rename("A title")  # pyright: ignore[reportAttributeAccessIssue]
        assert (await scene.turn("say better")).reason is TurnEndReason.END_TURN


async def test_a_plan_is_carried_out_in_another_session(stage: Setting) -> None:
    async with stage() as set_:
        scene = await set_.launch(set_.plan(mode=PermissionMode.PLAN))
        first = scene.launch.native_id
        turn_id = await scene.begin("plan")
        (approval,) = await scene.asked()
        answer = Answer(outcome=Outcome.APPROVED, option_id="proceed_new_session_low")
        await scene.launch.answer(approval, check_answer(approval, answer))
        assert (await scene.end(turn_id)).reason is TurnEndReason.END_TURN
        assert said(scene) == ["Implemented elsewhere."]
        assert scene.launch.native_id != first
        assert [output.native_id for output in scene.of(Registered)] == [first, scene.launch.native_id]
        again = await set_.again(scene)
        await again.turn("recall")
        assert "Implement the following plan" in said(again)[-1]


@pytest.mark.parametrize("profile", VERSIONS)
async def test_always_raises_the_whole_sessions_autonomy(stage: Setting, profile: str) -> None:
    async with stage(profile) as set_:
        scene = await set_.launch()
        turn_id = await scene.begin("run touch a\nrun touch b")
        (approval,) = await scene.asked()
        await scene.answer(approval, Outcome.APPROVED_FOR_SESSION)
        await scene.end(turn_id)
        assert (set_.directory / "b").exists()
        assert [update.permission_mode for update in scene.events(ModeUpdate)][-1] is PermissionMode.SAFE_YOLO


@pytest.mark.parametrize("profile", VERSIONS)
async def test_an_interrupted_tool_has_one_result(stage: Setting, profile: str) -> None:
    async with stage(profile) as set_:
        scene = await set_.launch(set_.plan(mode=PermissionMode.YOLO))
        turn_id = await scene.begin("run echo begun; sleep 60")
        await scene.until(lambda: any(part.delta.text == "begun\n" for part in scene.of(DeltaEmitted)))
        await scene.launch.interrupt()
        assert (await scene.end(turn_id)).reason is TurnEndReason.CANCELLED
        finals = [event for event in scene.events(ToolCallUpdate) if event.status and event.status.final]
        assert len(finals) == 1


async def test_a_droid_that_hangs_is_ended_all_the_same(stage: Setting) -> None:
    async with stage("0.99", "--misbehave", "hang-at-eof") as set_:
        scene = await set_.launch()
        await scene.begin("run touch a")
        await scene.asked()
        begun = time.monotonic()
        await scene.launch.stop(0.5)
        assert time.monotonic() - begun < 8
        assert scene.of(TurnEnded)[0].reason is TurnEndReason.CANCELLED


@pytest.mark.parametrize("profile", VERSIONS)
async def test_tokens_are_counted_once(stage: Setting, profile: str) -> None:
    async with stage(profile) as set_:
        scene = await set_.launch()
        for _ in range(3):
            await scene.turn("say hello")
        await scene.until(lambda: sum(event.input_tokens for event in scene.events(UsageUpdate)) == 300)
        assert sum(event.output_tokens for event in scene.events(UsageUpdate)) == 21


@pytest.mark.parametrize("profile", VERSIONS[-2:])
async def test_tokens_that_are_counted_after_the_end_of_a_turn_are_not_lost_with_the_process(
    stage: Setting, profile: str
) -> None:
    async with stage(profile) as set_:
        scene = await set_.launch()
        await scene.turn("say hello")
        before = sum(event.input_tokens for event in scene.events(UsageUpdate))
        # Older versions would have counted a moment later.
        again = await set_.again(scene)
        assert before + sum(event.input_tokens for event in again.events(UsageUpdate)) == 100
        again = await set_.again(again)
        await again.turn("say hello")
        third = await set_.again(again)
        told = (*again.events(UsageUpdate), *third.events(UsageUpdate))
        assert before + sum(event.input_tokens for event in told) == 200, "nothing is told twice"


@pytest.mark.parametrize("profile", VERSIONS[-2:])
async def test_a_turn_that_is_said_to_be_complete_waits_for_its_last_message(
    stage: Setting, profile: str
) -> None:
    async with stage(profile, "--misbehave", "completed-early") as set_:
        scene = await set_.launch()
        for word in ("first", "second"):
            turn_id = await scene.begin(f"say the {word} answer")
            assert (await scene.end(turn_id)).reason is TurnEndReason.END_TURN
        said = [output.event for output in scene.of(EventEmitted) if isinstance(output.event, AgentMessage)]
        assert [(one.text, one.partial) for one in said] == [
            ("the first answer", False),
            ("the second answer", False),
        ]
        messages = [scene.outputs.index(EventEmitted(event)) for event in said]
        ends = [index for index, output in enumerate(scene.outputs) if isinstance(output, TurnEnded)]
        assert messages[0] < ends[0] < messages[1] < ends[1]


async def test_what_nobody_knows_is_kept(stage: Setting) -> None:
    async with stage("0.215", "--misbehave", "strange-keys") as set_:
        scene = await set_.launch()
        await scene.turn("unknown")
        assert [(event.native_kind, event.data["strength"]) for event in scene.events(Other)] == [
            ("telepathy", 3)
        ]
        assert {"mood": "cheerful"}.items() <= (scene.events(AgentMessage)[-1].meta or {}).items()


async def test_a_sign_in_that_is_needed_is_told(stage: Setting) -> None:
    async with stage() as set_:
        scene = await set_.launch()
        await scene.turn("mcp auth")
        (notice,) = [event for event in scene.events(Notice) if event.code == "mcp_auth_required"]
        assert "https://mcp.example.com/authorize" in notice.text


# -- the simulator alone


@asynccontextmanager
async def simulator(tmp_path: Path, profile: str, *options: str) -> AsyncIterator[DroidProcess]:
    async with droid("exec", command=[install(tmp_path, profile, *options)]) as client:
        yield client


async def test_it_answers_twice_without_a_session(home: Path, tmp_path: Path) -> None:
    async with simulator(tmp_path, "0.215") as client:
        await client.send("add_user_message", {"text": "hi"})
        first, second = await client.next(), await client.next()
        assert first["result"] == {}
        assert (second["id"], second["error"]["code"]) == (first["id"], -32603)


async def test_it_ends_by_itself_after_close_session(home: Path, tmp_path: Path) -> None:
    async with simulator(tmp_path, "0.215") as client:
        await client.initialize(tmp_path)
        assert await client.ask("close_session", {"reason": "other"}) == {}
        assert await client.ended() == 0


async def test_a_turn_goes_on_after_the_last_line(home: Path, tmp_path: Path) -> None:
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


async def test_old_words_are_ignored_by_the_new_and_refused_by_the_old(home: Path, tmp_path: Path) -> None:
    async with simulator(tmp_path, "0.215") as client:
        settings = (await client.initialize(tmp_path, autonomyLevel="spec"))["settings"]
        assert (settings["interactionMode"], settings["autonomyLevel"]) == ("auto", "off")
    async with simulator(tmp_path, "0.57") as client:
        settings = (await client.initialize(tmp_path, autonomyLevel="spec"))["settings"]
        assert settings["autonomyLevel"] == "spec"
        answer = await client.call("update_session_settings", {"autonomyLevel": "low"})
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
