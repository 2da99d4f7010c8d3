"""How the adapter handles the faults of an agent. The harness checks the output rules at the end of every test."""

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
from farsteer.agents.conformance.harness import Harness, RecordingSink
from farsteer.agents.demo import help_text
from farsteer.agents.demo.faults import START_FAULTS
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

pytestmark = pytest.mark.slow


def plan_with(harness: Harness, how: str, **plan: float) -> LaunchPlan:
    return msgspec.structs.replace(harness.plan(**plan), options={"demo": how})  # pyright: ignore[reportArgumentType]


async def test_a_flood_arrives_whole_and_in_order(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("flood 20000")
    texts = [message.text for message in agent.events_of(AgentMessage)]
    numbers = [int(text.split()[1]) for text in texts]
    assert numbers == list(range(numbers[0], numbers[0] + 20000))


async def test_a_line_of_twenty_megabytes_is_a_message(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("bigline 20")
    assert [len(message.text) for message in agent.events_of(AgentMessage)] == [20_000_000]


async def test_a_line_over_the_limit_causes_a_notice_and_the_turn_goes_on(harness: Harness) -> None:
    agent = await harness.launch()
    assert (await agent.run_turn("bigline 40\nsay still here")).reason is TurnEndReason.END_TURN
    (notice,) = agent.events_of(Notice)
    assert notice.code == ErrorCode.AGENT_PROTOCOL
    assert notice.text.startswith("a line of 40")
    assert [message.text for message in agent.events_of(AgentMessage)] == ["still here"]


async def test_a_crash_reports_its_signal_and_the_end_of_stderr(harness: Harness) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn("crash mid")
    assert (ended.reason, ended.error) == (
        TurnEndReason.CRASHED,
        "the agent's process ended: killed by SIGKILL",
    )
    (message,) = agent.events_of(AgentMessage)
    assert (message.text, message.partial) == ("This message will never be ", True)
    exited = await agent.wait_for_exit()
    assert (exited.exit_code, exited.reason) == (-9, "killed by SIGKILL")
    assert exited.stderr == "the demo agent crashes in mid-message, as you asked"


async def test_a_crash_closes_the_tool_call_that_was_running(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    turn_id = await agent.send("run echo begun; sleep 300")
    await agent.wait_until(lambda: bool(agent.outputs_of(DeltaEmitted)))
    os.kill(agent.launch.pid, signal.SIGKILL)
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CRASHED
    closed = agent.events_of(ToolCallUpdate)[-1]
    assert closed.status is ToolStatus.FAILED
    assert "begun" in agent.text()


async def test_an_exit_in_a_turn_reports_its_code(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("exit 7")
    assert (await agent.wait_for_exit()).reason == "exit code 7"


async def test_an_exit_is_noticed_at_once_though_an_orphan_holds_the_pipes(harness: Harness) -> None:
    agent = await harness.launch()
    begun = time.monotonic()
    await agent.run_turn("orphan\nexit 3")
    assert (await agent.wait_for_exit()).exit_code == 3
    assert time.monotonic() - begun < 5
    orphan = int(agent.events_of(AgentMessage)[0].text.split()[1])
    await gone(orphan)


async def test_a_message_after_an_early_end_is_kept_outside_of_the_turn(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("end early")
    await agent.wait_until(lambda: len(agent.events_of(AgentMessage)) == 2)
    said = [output for output in agent.outputs if not isinstance(output, DeltaEmitted)]
    kinds = [type(getattr(output, "event", output)).__name__ for output in said]
    assert kinds == ["CommandsUpdate", "Registered", "AgentMessage", "TurnEnded", "AgentMessage"]


async def test_repeated_lines_are_handled_once(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("repeat")
    await agent.run_turn("say done")
    assert [message.text for message in agent.events_of(AgentMessage)] == ["Said once, heard once.", "done"]
    assert "".join(f.delta.text for f in agent.outputs_of(DeltaEmitted)) == "Said once, heard once.done"


async def test_each_line_of_garbage_causes_a_short_notice(harness: Harness) -> None:
    agent = await harness.launch()
    assert (await agent.run_turn("garbage")).reason is TurnEndReason.END_TURN
    notices = agent.events_of(Notice)
    assert len(notices) == 6
    assert {(notice.level, notice.code) for notice in notices} == {("warning", "agent_protocol")}
    assert max(len(notice.text) for notice in notices) <= 500
    assert "something that is no JSON" in notices[0].text


async def test_unknown_kinds_and_fields_are_kept(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("noise")
    (other,) = agent.events_of(Other)
    assert other.native_kind == "telepathy"
    assert other.data["thought"] == {"of": "you"}
    (message,) = agent.events_of(AgentMessage)
    assert message.meta == {"mood": "cheerful"}


async def test_an_agent_that_ignores_interrupts_can_be_stopped(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send_and_wait("ignore interrupt")
    await agent.launch.interrupt()
    await agent.launch.stop(0.5)
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    assert (await agent.wait_for_exit()).reason == "stopped"


async def test_an_agent_that_hangs_can_be_interrupted(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("hang")
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED


async def test_an_interrupt_that_is_not_acknowledged_times_out(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await harness.launch()
    turn_id = await agent.send_and_wait("hang deaf")
    interrupt = asyncio.create_task(agent.launch.interrupt())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await asyncio.shield(interrupt)
    await agent.launch.stop(0.5)
    await interrupt
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    monkeypatch.setattr("farsteer.agents.demo.launch._CONFIRM_TIMEOUT", 0.3)
    again = await harness.relaunch(agent)
    await again.send_and_wait("hang deaf")
    with pytest.raises(AgentError) as caught:
        await again.launch.interrupt()
    assert caught.value.code is ErrorCode.TIMEOUT


async def test_an_agent_that_is_quiet_goes_on(harness: Harness) -> None:
    agent = await harness.launch()
    assert (await agent.run_turn("quiet 0.1")).reason is TurnEndReason.END_TURN
    assert agent.text() == "I was quiet."


async def test_a_turn_may_end_with_an_error(harness: Harness) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn("fail out of tokens")
    assert (ended.reason, ended.error) == (TurnEndReason.FAILED, "RuntimeError: out of tokens")
    assert (await agent.run_turn("say hello")).reason is TurnEndReason.END_TURN


async def test_an_agent_may_die_between_turns(harness: Harness) -> None:
    agent = await harness.launch()
    assert (await agent.run_turn("crash later")).reason is TurnEndReason.END_TURN
    assert (await agent.wait_for_exit()).reason == "killed by SIGKILL"


async def test_tokens_may_be_counted_after_the_turn(harness: Harness) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn("late usage")
    await agent.wait_until(lambda: bool(agent.events_of(UsageUpdate)))
    (counted,) = [
        output for output in agent.outputs_of(EventEmitted) if isinstance(output.event, UsageUpdate)
    ]
    assert agent.outputs.index(counted) > agent.outputs.index(ended)


async def test_a_helper_does_not_end_the_turn_and_its_later_messages_are_kept(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("background 2")
    await agent.wait_until(lambda: len(agent.events_of(AgentMessage)) == 4)
    ended = agent.outputs.index(agent.outputs_of(TurnEnded)[0])
    own = next(output for output in agent.outputs_of(EventEmitted) if "not done" in str(output.event))
    assert agent.outputs.index(own) < ended, "the helper's end was not the turn's"
    helped = [message.meta for message in agent.events_of(AgentMessage) if message.meta]
    assert len(helped) == 3
    assert len({str(meta["helper"]) for meta in helped}) == 1


async def test_a_process_that_left_the_session_is_ended_with_the_agent(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("escape")
    escaped = int(agent.text().split()[1])
    assert os.getsid(escaped) == escaped
    await agent.launch.stop()
    await gone(escaped)


async def test_a_process_may_leave_the_session_and_have_another_parent(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("escape twice")
    escaped = psutil.Process(int(agent.text().split()[1]))
    assert os.getsid(escaped.pid) != os.getsid(agent.launch.pid)
    assert escaped not in psutil.Process(agent.launch.pid).children(recursive=True)
    escaped.kill()
    await gone(escaped.pid)


async def test_an_agent_that_does_not_confirm_a_message_is_ended(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.agents.demo.launch._CONFIRM_TIMEOUT", 0.3)
    agent = await harness.launch()
    await agent.run_turn("deaf")
    with pytest.raises(AgentError) as caught:
        await agent.launch.send(Prompt(turn_id=new_id(), text="say hello"))
    assert caught.value.code is ErrorCode.TIMEOUT
    assert (await agent.wait_for_exit()).reason == "it did not confirm a message"


async def test_a_message_to_an_agent_that_dies_before_confirming_has_no_turn(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("deaf")
    send = asyncio.create_task(agent.launch.send(Prompt(turn_id=new_id(), text="say hello")))
    await asyncio.sleep(0)
    os.kill(agent.launch.pid, signal.SIGKILL)
    with pytest.raises(AgentError) as caught:
        await send
    # What it has not read, it has not taken.
    assert caught.value.code in (ErrorCode.AGENT_DIED, ErrorCode.MESSAGE_NOT_TAKEN)
    await agent.wait_for_exit()
    assert len(agent.outputs_of(TurnEnded)) == 1, "only the confirmed turn has an end"


async def test_a_crash_at_the_start_reports_its_reason(harness: Harness) -> None:
    with pytest.raises(AgentError) as caught:
        await harness.launch(plan_with(harness, "die-at-start"))
    assert caught.value.code is ErrorCode.AGENT_START_FAILED
    assert "exit code 3" in caught.value.message
    assert caught.value.details["stderr"] == "the demo agent dies at its start, as you asked"
    assert harness.leftover_processes() == []


async def test_a_start_that_hangs_times_out(harness: Harness) -> None:
    with pytest.raises(AgentError, match=r"not ready within 0\.2 s"):
        await harness.launch(plan_with(harness, "hang-at-start", startup_timeout=0.2))
    assert harness.leftover_processes() == []


async def test_an_agent_that_sends_events_but_no_hello_is_not_ready(harness: Harness) -> None:
    recorder = RecordingSink()
    with pytest.raises(AgentError, match=r"not ready within 0\.5 s"):
        await harness.adapter.start(plan_with(harness, "talk-at-start", startup_timeout=0.5), recorder)
    assert recorder.outputs
    assert {str(output) for output in recorder.outputs if "rate_limit" not in str(output)} == set()
    assert harness.leftover_processes() == []


async def test_a_crash_right_after_the_start_is_an_exit(harness: Harness) -> None:
    agent = await harness.launch(plan_with(harness, "die-when-ready"))
    assert (await agent.wait_for_exit()).exit_code == -9


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("in-use", ErrorCode.CONVERSATION_IN_USE),
        ("missing", ErrorCode.CONVERSATION_MISSING),
        ("anchor-unknown", ErrorCode.ANCHOR_UNKNOWN),
    ],
)
async def test_a_refusal_at_the_start_has_its_code_and_may_be_for_one_launch_only(
    harness: Harness, how: str, code: ErrorCode
) -> None:
    plan = plan_with(harness, f"{how}, fine")
    with pytest.raises(AgentError, match="as you asked") as caught:
        await harness.launch(plan)
    assert caught.value.code is code
    for generation in (2, 3):
        agent = await harness.launch(msgspec.structs.replace(plan, generation=generation))
        await agent.launch.stop()


async def test_an_agent_that_opens_another_conversation_is_refused(harness: Harness) -> None:
    with pytest.raises(AgentError) as caught:
        await harness.launch(plan_with(harness, "another-id"))
    assert caught.value.details["reason"] == "wrong_session"
    assert caught.value.code is ErrorCode.AGENT_START_FAILED
    assert harness.leftover_processes() == []


async def test_an_agent_may_choose_the_id_of_its_conversation(harness: Harness) -> None:
    agent = await harness.launch(plan_with(harness, "own-id"))
    native_id = agent.launch.native_id
    assert native_id not in (None, agent.plan.session_id)
    await agent.run_turn("The word is apricot.")
    assert agent.outputs_of(Registered) == [Registered(native_id=str(native_id))]
    assert not harness.has_transcript(agent.plan.session_id)
    again = await harness.relaunch(agent)
    assert again.launch.native_id == native_id
    await again.run_turn("what did I say?")
    assert "apricot" in again.text()


async def test_an_agent_that_ignores_sigterm_from_its_start_can_be_stopped(harness: Harness) -> None:
    agent = await harness.launch(plan_with(harness, "ignore-sigterm"))
    await agent.launch.stop(0.2)
    assert (await agent.wait_for_exit()).exit_code == -9


async def test_an_unknown_start_fault_is_logged(harness: Harness) -> None:
    agent = await harness.launch(plan_with(harness, "no-such-thing"))
    await agent.run_turn("exit 1")
    assert (await agent.wait_for_exit()).stderr == (
        "unknown option demo=no-such-thing\nthe demo agent exits with 1, as you asked"
    )


async def test_every_start_fault_is_in_the_help() -> None:
    for name, start in START_FAULTS.items():
        assert f"  {name} " in help_text()
        assert start.summary in help_text()


@pytest.mark.parametrize("how", ["slow-start", "garbage-at-start"])
async def test_a_slow_or_noisy_start_succeeds(harness: Harness, how: str) -> None:
    agent = await harness.launch(plan_with(harness, how))
    assert (await agent.run_turn("say hello")).reason is TurnEndReason.END_TURN
    assert len(agent.events_of(Notice)) == (how == "garbage-at-start")


async def test_a_conversation_is_created_once_and_resumed_only_if_it_is_there(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("say hello")
    await agent.launch.stop()
    with pytest.raises(AgentError, match="already in use") as caught:
        await harness.launch(harness.plan(session_id=agent.plan.session_id))
    assert caught.value.code is ErrorCode.CONVERSATION_IN_USE
    with pytest.raises(AgentError) as caught:
        await harness.launch(harness.plan(resume=new_id()))
    assert caught.value.code is ErrorCode.CONVERSATION_MISSING
    with pytest.raises(AgentError) as caught:
        await harness.relaunch(agent, cut_at="nowhere")
    assert caught.value.code is ErrorCode.ANCHOR_UNKNOWN
    path = Path(harness.state_dir) / f"{agent.plan.session_id}.jsonl"
    path.write_text("damage\n")
    with pytest.raises(AgentError, match="damaged") as caught:
        await harness.relaunch(agent)
    assert caught.value.code is ErrorCode.AGENT_START_FAILED


async def test_a_message_that_cannot_be_stored_is_refused(harness: Harness) -> None:
    agent = await harness.launch()
    state = Path(agent.plan.state_dir)
    state.rename(state.with_name("moved"))
    with pytest.raises(Conflict, match="could not be stored"):
        await agent.launch.send(Prompt(turn_id=new_id(), text="say hello"))
    state.with_name("moved").rename(state)
    await agent.run_turn("say hello")


async def test_an_id_that_is_a_path_is_refused(harness: Harness) -> None:
    with pytest.raises(BadRequest):
        await harness.launch(harness.plan(resume="../../etc/passwd"))


_RUNNER_SCRIPT = """
import asyncio, os, sys
from pathlib import Path
from farsteer.agents.base import DeltaEmitted
from farsteer.agents.conformance import Prompts
from farsteer.agents.conformance.harness import Harness
from farsteer.agents.demo.adapter import DemoAdapter
from farsteer.core.modes import PermissionMode

async def main():
    harness = Harness(DemoAdapter(), Prompts(answer="", long=""), Path(sys.argv[1]), 10)
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await agent.send("run echo $$; sleep 300")
    await agent.wait_until(lambda: bool(agent.outputs_of(DeltaEmitted)))
    print(agent.launch.pid, agent.outputs_of(DeltaEmitted)[0].delta.text, flush=True)
    await asyncio.sleep(300)

asyncio.run(main())
"""


async def test_a_runner_that_is_killed_takes_agent_and_command_with_it(tmp_path: Path) -> None:
    runner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _RUNNER_SCRIPT, str(tmp_path), stdout=asyncio.subprocess.PIPE
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


async def test_stop_returns_though_the_sink_is_blocked(harness: Harness) -> None:
    unblocked = asyncio.Event()
    unblocked.set()

    class BlockingSink:
        async def put(self, outputs: object) -> None:
            await unblocked.wait()

    launch = await harness.adapter.start(harness.plan(), BlockingSink())
    unblocked.clear()
    begun = time.monotonic()
    await launch.stop(0.3)
    assert time.monotonic() - begun < 3
    assert not psutil.pid_exists(launch.pid)
    unblocked.set()
    await launch._process.wait()  # pyright: ignore[reportAttributeAccessIssue]


async def test_stop_emits_exited(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.launch.stop()
    assert agent.outputs_of(Exited) == [Exited(exit_code=0, reason="stopped")]
