"""What the adapter makes of an agent that misbehaves. That each turn ends once and last is audited in every test."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from farsteer.agents.base import DeltaEmitted, EventEmitted, Exited, LaunchPlan, Prompt, Registered, TurnEnded
from farsteer.agents.conformance.stage import Recorder, Stage
from farsteer.agents.demo import help_text
from farsteer.agents.demo.starting import STARTS
from farsteer.core.errors import AgentError, BadRequest, Conflict, ErrorCode
from farsteer.core.events import (
    AgentMessage,
    Notice,
    Other,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
    UsageUpdate,
)
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode
from tests.agents.conftest import gone


def misbehaving(stage: Stage, how: str, **plan: float) -> LaunchPlan:
    return msgspec.structs.replace(stage.plan(**plan), options={"demo": how})  # pyright: ignore[reportArgumentType]


async def test_a_flood_arrives_whole_and_in_order(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("flood 20000")
    texts = [message.text for message in scene.events(AgentMessage)]
    numbers = [int(text.split()[1]) for text in texts]
    assert numbers == list(range(numbers[0], numbers[0] + 20000))


async def test_a_line_of_twenty_megabytes_is_a_message(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("bigline 20")
    assert [len(message.text) for message in scene.events(AgentMessage)] == [20_000_000]


async def test_a_line_over_the_limit_is_noted_and_the_turn_goes_on(stage: Stage) -> None:
    scene = await stage.launch()
    assert (await scene.turn("bigline 40\nsay still here")).reason is TurnEndReason.END_TURN
    (notice,) = scene.events(Notice)
    assert notice.code == ErrorCode.AGENT_PROTOCOL
    assert notice.text.startswith("a line of 40")
    assert [message.text for message in scene.events(AgentMessage)] == ["still here"]


async def test_a_crash_tells_its_signal_and_its_last_words(stage: Stage) -> None:
    scene = await stage.launch()
    ended = await scene.turn("crash mid")
    assert (ended.reason, ended.error) == (
        TurnEndReason.CRASHED,
        "the agent's process ended: killed by SIGKILL",
    )
    (message,) = scene.events(AgentMessage)
    assert (message.text, message.partial) == ("This message will never be ", True)
    exited = await scene.exited()
    assert (exited.exit_code, exited.reason) == (-9, "killed by SIGKILL")
    assert exited.stderr == "the demo agent crashes in mid-message, as you asked"


async def test_a_crash_closes_the_tool_call_that_was_running(stage: Stage) -> None:
    scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
    turn_id = await scene.begin("run echo begun; sleep 300")
    await scene.until(lambda: bool(scene.of(DeltaEmitted)))
    os.kill(scene.launch.pid, signal.SIGKILL)
    assert (await scene.end(turn_id)).reason is TurnEndReason.CRASHED
    closed = scene.events(ToolCallUpdate)[-1]
    assert closed.status is ToolStatus.FAILED
    assert "begun" in scene.words()


async def test_an_exit_in_a_turn_gives_its_code(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("exit 7")
    assert (await scene.exited()).reason == "exit code 7"


async def test_an_exit_is_noticed_at_once_though_an_orphan_holds_the_pipes(stage: Stage) -> None:
    scene = await stage.launch()
    begun = time.monotonic()
    await scene.turn("orphan\nexit 3")
    assert (await scene.exited()).exit_code == 3
    assert time.monotonic() - begun < 5
    orphan = int(scene.events(AgentMessage)[0].text.split()[1])
    await gone(orphan)


async def test_what_is_said_after_an_early_end_stands_outside_of_the_turn(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("end early")
    await scene.until(lambda: len(scene.events(AgentMessage)) == 2)
    said = [output for output in scene.outputs if not isinstance(output, DeltaEmitted)]
    kinds = [type(getattr(output, "event", output)).__name__ for output in said]
    assert kinds == ["CommandsUpdate", "Registered", "AgentMessage", "TurnEnded", "AgentMessage"]


async def test_everything_said_twice_is_heard_once(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("repeat")
    await scene.turn("say done")
    assert [message.text for message in scene.events(AgentMessage)] == ["Said once, heard once.", "done"]
    assert "".join(f.delta.text for f in scene.of(DeltaEmitted)) == "Said once, heard once.done"


async def test_garbage_is_noted_line_by_line_and_bounded(stage: Stage) -> None:
    scene = await stage.launch()
    assert (await scene.turn("garbage")).reason is TurnEndReason.END_TURN
    notices = scene.events(Notice)
    assert len(notices) == 6
    assert {(notice.level, notice.code) for notice in notices} == {("warning", "agent_protocol")}
    assert max(len(notice.text) for notice in notices) <= 500
    assert "something that is no JSON" in notices[0].text


async def test_unknown_kinds_and_fields_are_kept(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("noise")
    (other,) = scene.events(Other)
    assert other.native_kind == "telepathy"
    assert other.data["thought"] == {"of": "you"}
    (message,) = scene.events(AgentMessage)
    assert message.meta == {"mood": "cheerful"}


async def test_an_agent_that_ignores_interrupts_can_be_stopped(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.working("ignore interrupt")
    await scene.launch.interrupt()
    await scene.launch.stop(0.5)
    assert (await scene.end(turn_id)).reason is TurnEndReason.CANCELLED
    assert (await scene.exited()).reason == "stopped"


async def test_an_agent_that_hangs_can_be_interrupted(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.begin("hang")
    await scene.launch.interrupt()
    assert (await scene.end(turn_id)).reason is TurnEndReason.CANCELLED


async def test_an_interrupt_that_is_not_acknowledged_does_not_return(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await stage.launch()
    turn_id = await scene.working("hang deaf")
    interrupt = asyncio.create_task(scene.launch.interrupt())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await asyncio.shield(interrupt)
    await scene.launch.stop(0.5)
    await interrupt
    assert (await scene.end(turn_id)).reason is TurnEndReason.CANCELLED
    monkeypatch.setattr("farsteer.agents.demo.launch._CONFIRM_TIMEOUT", 0.3)
    again = await stage.again(scene)
    await again.working("hang deaf")
    with pytest.raises(AgentError) as caught:
        await again.launch.interrupt()
    assert caught.value.code is ErrorCode.TIMEOUT


async def test_an_agent_that_is_quiet_goes_on(stage: Stage) -> None:
    scene = await stage.launch()
    assert (await scene.turn("quiet 0.1")).reason is TurnEndReason.END_TURN
    assert scene.words() == "I was quiet."


async def test_a_turn_may_end_with_an_error(stage: Stage) -> None:
    scene = await stage.launch()
    ended = await scene.turn("fail out of tokens")
    assert (ended.reason, ended.error) == (TurnEndReason.FAILED, "RuntimeError: out of tokens")
    assert (await scene.turn("say hello")).reason is TurnEndReason.END_TURN


async def test_an_agent_may_die_between_turns(stage: Stage) -> None:
    scene = await stage.launch()
    assert (await scene.turn("crash later")).reason is TurnEndReason.END_TURN
    assert (await scene.exited()).reason == "killed by SIGKILL"


async def test_tokens_may_be_counted_after_the_turn(stage: Stage) -> None:
    scene = await stage.launch()
    ended = await scene.turn("late usage")
    await scene.until(lambda: bool(scene.events(UsageUpdate)))
    (counted,) = [output for output in scene.of(EventEmitted) if isinstance(output.event, UsageUpdate)]
    assert scene.outputs.index(counted) > scene.outputs.index(ended)


async def test_a_helper_ends_no_turn_and_is_heard_after_it(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("background 2")
    await scene.until(lambda: len(scene.events(AgentMessage)) == 4)
    ended = scene.outputs.index(scene.of(TurnEnded)[0])
    own = next(output for output in scene.of(EventEmitted) if "not done" in str(output.event))
    assert scene.outputs.index(own) < ended, "the helper's end was not the turn's"
    helped = [message.meta for message in scene.events(AgentMessage) if message.meta]
    assert len(helped) == 3
    assert len({str(meta["helper"]) for meta in helped}) == 1


async def test_a_process_that_left_the_session_is_ended_with_the_agent(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("escape")
    escaped = int(scene.words().split()[1])
    assert os.getsid(escaped) == escaped
    await scene.launch.stop()
    await gone(escaped)


async def test_a_process_may_escape_so_far_that_it_is_nobodys_child(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("escape twice")
    escaped = psutil.Process(int(scene.words().split()[1]))
    assert os.getsid(escaped.pid) != os.getsid(scene.launch.pid)
    assert escaped not in psutil.Process(scene.launch.pid).children(recursive=True)
    escaped.kill()
    await gone(escaped.pid)


async def test_an_agent_that_does_not_confirm_a_message_is_ended(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.agents.demo.launch._CONFIRM_TIMEOUT", 0.3)
    scene = await stage.launch()
    await scene.turn("deaf")
    with pytest.raises(AgentError) as caught:
        await scene.launch.send(Prompt(turn_id=new_id(), text="say hello"))
    assert caught.value.code is ErrorCode.TIMEOUT
    assert (await scene.exited()).reason == "it did not confirm a message"


async def test_a_message_to_an_agent_that_dies_unseen_has_no_turn(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("deaf")
    send = asyncio.create_task(scene.launch.send(Prompt(turn_id=new_id(), text="say hello")))
    await asyncio.sleep(0)
    os.kill(scene.launch.pid, signal.SIGKILL)
    with pytest.raises(AgentError) as caught:
        await send
    assert caught.value.code is ErrorCode.AGENT_DIED
    await scene.exited()
    assert len(scene.of(TurnEnded)) == 1, "only the turn that the agent had has an end"


async def test_a_death_at_the_start_tells_why(stage: Stage) -> None:
    with pytest.raises(AgentError) as caught:
        await stage.launch(misbehaving(stage, "die-at-start"))
    assert caught.value.code is ErrorCode.AGENT_START_FAILED
    assert "exit code 3" in caught.value.message
    assert caught.value.details["stderr"] == "the demo agent dies at its start, as you asked"
    assert stage.leftovers() == []


async def test_a_start_that_never_ends_is_ended(stage: Stage) -> None:
    with pytest.raises(AgentError, match=r"not ready within 0\.2 s"):
        await stage.launch(misbehaving(stage, "hang-at-start", startup_timeout=0.2))
    assert stage.leftovers() == []


async def test_saying_something_is_not_being_ready(stage: Stage) -> None:
    recorder = Recorder()
    with pytest.raises(AgentError, match=r"not ready within 0\.5 s"):
        await stage.adapter.start(misbehaving(stage, "talk-at-start", startup_timeout=0.5), recorder)
    assert recorder.outputs
    assert {str(output) for output in recorder.outputs if "rate_limit" not in str(output)} == set()
    assert stage.leftovers() == []


async def test_a_death_right_after_the_start_is_an_exit(stage: Stage) -> None:
    scene = await stage.launch(misbehaving(stage, "die-when-ready"))
    assert (await scene.exited()).exit_code == -9


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("in-use", ErrorCode.CONVERSATION_IN_USE),
        ("missing", ErrorCode.CONVERSATION_MISSING),
        ("anchor-unknown", ErrorCode.ANCHOR_UNKNOWN),
    ],
)
async def test_a_refusal_at_the_start_has_its_code_and_may_be_for_one_launch_only(
    stage: Stage, how: str, code: ErrorCode
) -> None:
    plan = misbehaving(stage, f"{how}, fine")
    with pytest.raises(AgentError, match="as you asked") as caught:
        await stage.launch(plan)
    assert caught.value.code is code
    for generation in (2, 3):
        scene = await stage.launch(msgspec.structs.replace(plan, generation=generation))
        await scene.launch.stop()


async def test_an_agent_that_opens_another_conversation_is_refused(stage: Stage) -> None:
    with pytest.raises(AgentError) as caught:
        await stage.launch(misbehaving(stage, "another-id"))
    assert caught.value.details["reason"] == "wrong_session"
    assert caught.value.code is ErrorCode.AGENT_START_FAILED
    assert stage.leftovers() == []


async def test_an_agent_may_name_its_conversation_itself(stage: Stage) -> None:
    scene = await stage.launch(misbehaving(stage, "own-id"))
    native_id = scene.launch.native_id
    assert native_id not in (None, scene.plan.session_id)
    await scene.turn("The word is apricot.")
    assert scene.of(Registered) == [Registered(native_id=str(native_id))]
    assert not stage.has_transcript(scene.plan.session_id)
    again = await stage.again(scene)
    assert again.launch.native_id == native_id
    await again.turn("what did I say?")
    assert "apricot" in again.words()


async def test_an_agent_that_ignores_sigterm_from_its_start_can_be_stopped(stage: Stage) -> None:
    scene = await stage.launch(misbehaving(stage, "ignore-sigterm"))
    await scene.launch.stop(0.2)
    assert (await scene.exited()).exit_code == -9


async def test_a_wish_that_it_does_not_know_is_noted(stage: Stage) -> None:
    scene = await stage.launch(misbehaving(stage, "no-such-thing"))
    await scene.turn("exit 1")
    assert (await scene.exited()).stderr == (
        "unknown option demo=no-such-thing\nthe demo agent exits with 1, as you asked"
    )


async def test_every_wish_is_in_the_help() -> None:
    for name, start in STARTS.items():
        assert f"  {name} " in help_text()
        assert start.summary in help_text()


@pytest.mark.parametrize("how", ["slow-start", "garbage-at-start"])
async def test_a_clumsy_start_is_a_start(stage: Stage, how: str) -> None:
    scene = await stage.launch(misbehaving(stage, how))
    assert (await scene.turn("say hello")).reason is TurnEndReason.END_TURN
    assert len(scene.events(Notice)) == (how == "garbage-at-start")


async def test_a_conversation_is_created_once_and_resumed_only_if_it_is_there(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("say hello")
    await scene.launch.stop()
    with pytest.raises(AgentError, match="already in use") as caught:
        await stage.launch(stage.plan(session_id=scene.plan.session_id))
    assert caught.value.code is ErrorCode.CONVERSATION_IN_USE
    with pytest.raises(AgentError) as caught:
        await stage.launch(stage.plan(resume=new_id()))
    assert caught.value.code is ErrorCode.CONVERSATION_MISSING
    with pytest.raises(AgentError) as caught:
        await stage.again(scene, cut_at="nowhere")
    assert caught.value.code is ErrorCode.ANCHOR_UNKNOWN
    path = Path(stage.state_dir) / f"{scene.plan.session_id}.jsonl"
    path.write_text("damage\n")
    with pytest.raises(AgentError, match="damaged") as caught:
        await stage.again(scene)
    assert caught.value.code is ErrorCode.AGENT_START_FAILED


async def test_a_message_that_cannot_be_stored_is_refused(stage: Stage) -> None:
    scene = await stage.launch()
    state = Path(scene.plan.state_dir)
    state.rename(state.with_name("moved"))
    with pytest.raises(Conflict, match="could not be stored"):
        await scene.launch.send(Prompt(turn_id=new_id(), text="say hello"))
    state.with_name("moved").rename(state)
    await scene.turn("say hello")


async def test_an_id_that_is_a_path_is_refused(stage: Stage) -> None:
    with pytest.raises(BadRequest):
        await stage.launch(stage.plan(resume="../../etc/passwd"))


_RUNNER = """
import asyncio, os, sys
from pathlib import Path
from farsteer.agents.base import DeltaEmitted
from farsteer.agents.conformance import Script
from farsteer.agents.conformance.stage import Stage
from farsteer.agents.demo.adapter import DemoAdapter
from farsteer.core.modes import PermissionMode

async def main():
    stage = Stage(DemoAdapter(), Script(answer="", long=""), Path(sys.argv[1]), 10)
    scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
    await scene.begin("run echo $$; sleep 300")
    await scene.until(lambda: bool(scene.of(DeltaEmitted)))
    print(scene.launch.pid, scene.of(DeltaEmitted)[0].delta.text, flush=True)
    await asyncio.sleep(300)

asyncio.run(main())
"""


async def test_a_runner_that_is_killed_takes_agent_and_command_with_it(tmp_path: Path) -> None:
    runner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _RUNNER, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert runner.stdout is not None
    try:
        agent, command = map(int, (await runner.stdout.readline()).split())
        assert psutil.pid_exists(agent)
        assert psutil.pid_exists(command)
    finally:
        runner.kill()
        await runner.wait()
    await gone(agent)
    await gone(command)


async def test_stop_returns_though_nobody_takes_what_is_left(stage: Stage) -> None:
    taken = asyncio.Event()
    taken.set()

    class Stuck:
        async def put(self, outputs: object) -> None:
            await taken.wait()

    launch = await stage.adapter.start(stage.plan(), Stuck())
    taken.clear()
    begun = time.monotonic()
    await launch.stop(0.3)
    assert time.monotonic() - begun < 3
    assert not psutil.pid_exists(launch.pid)
    taken.set()
    await launch._process.wait()  # pyright: ignore[reportAttributeAccessIssue]


async def test_exited_is_told_by_stop_itself(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.launch.stop()
    assert scene.of(Exited) == [Exited(exit_code=0, reason="stopped")]
