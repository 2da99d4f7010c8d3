"""Interrupts, stops and crashes of the real Droid, and how the conversation goes on."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from farsteer.agents.base import DeltaEmitted
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import AgentMessage, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode
from tests.support.eventually import eventually
from tests.support.model import ScriptedModel
from tests.vendor.droid.conftest import model_history

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]

HANGS = "[[say:begun]][[hang]]"


async def begin_streaming(agent: RecordedLaunch) -> str:
    """Begin a turn in which the model streams a word and then hangs."""
    before = len(agent.outputs_of(DeltaEmitted))
    turn_id = await agent.send(HANGS)
    await agent.wait_until(lambda: len(agent.outputs_of(DeltaEmitted)) > before)
    return turn_id


async def begin_command(harness: Harness, agent: RecordedLaunch) -> str:
    """Begin a turn in which a command runs that does not end by itself."""
    turn_id = await agent.send("[[bash:sleep 300]]")
    await eventually(lambda: _sleeping(harness), agent.step_timeout)
    return turn_id


async def test_an_interrupt_of_a_stream_keeps_the_partial_message(
    harness: Harness, model: ScriptedModel
) -> None:
    agent = await harness.launch()
    turn_id = await begin_streaming(agent)
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    assert [(event.text, event.partial) for event in agent.events_of(AgentMessage)] == [("begun", True)]
    assert (await model.log.wait(lambda seen: seen.script == HANGS and seen.outcome == "gone")).outcome
    messages = await model_history(agent)
    assert ["user", HANGS] in messages
    assert messages[-1] == ["user", "[[history]]"]


async def test_an_interrupt_of_a_tool_ends_the_command(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    turn_id = await begin_command(harness, agent)
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    await eventually(lambda: not _sleeping(harness))
    assert (await agent.run_turn("go on")).reason is TurnEndReason.END_TURN


async def test_stop_during_a_tool_leaves_no_command(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    turn_id = await begin_command(harness, agent)
    await agent.launch.stop()
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    assert harness.leftover_processes() == []


async def test_a_conversation_goes_on_in_a_new_process(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("The password is DOLPHIN-2288")
    again = await harness.relaunch(agent)
    assert again.launch.native_id == agent.launch.native_id
    assert again.launch.pid != agent.launch.pid
    assert await model_history(again) == [
        ["user", "The password is DOLPHIN-2288"],
        ["assistant", "echo: The password is DOLPHIN-2288"],
        ["user", "[[history]]"],
    ]


async def test_another_key_resumes_the_same_conversation(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await harness.launch()
    await agent.run_turn("remember this")
    os.kill(agent.launch.pid, signal.SIGKILL)
    await agent.wait_for_exit()
    monkeypatch.setenv("FACTORY_API_KEY", "fk-another")
    again = await harness.relaunch(agent)
    assert psutil.Process(again.launch.pid).environ()["FACTORY_API_KEY"] == "fk-another"
    assert again.launch.native_id == agent.launch.native_id
    assert await model_history(again) == [
        ["user", "remember this"],
        ["assistant", "echo: remember this"],
        ["user", "[[history]]"],
    ]


async def test_an_unknown_conversation_cannot_be_resumed(harness: Harness) -> None:
    with pytest.raises(AgentError) as caught:
        await harness.launch(harness.plan(resume=new_id()))
    assert caught.value.code is ErrorCode.CONVERSATION_MISSING
    assert harness.leftover_processes() == []


async def test_kill_9_during_a_stream_ends_the_turn_and_loses_no_message(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("before")
    turn_id = await begin_streaming(agent)
    os.kill(agent.launch.pid, signal.SIGKILL)
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CRASHED
    assert (await agent.wait_for_exit()).exit_code == -signal.SIGKILL
    said = agent.events_of(AgentMessage)[-1]
    assert (said.text, said.partial) == ("begun", True)
    messages = await model_history(await harness.relaunch(agent))
    assert ["user", "before"] in messages
    assert ["user", HANGS] in messages


async def test_kill_9_during_a_tool_leaves_no_command_and_the_conversation_goes_on(harness: Harness) -> None:
    """The old version runs commands in a process session of their own, which does not end with Droid."""
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    turn_id = await begin_command(harness, agent)
    commands = [process for process in harness.leftover_processes() if process.pid != agent.launch.pid]
    assert any(_name(process) == "sleep" for process in commands)
    os.kill(agent.launch.pid, signal.SIGKILL)
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CRASHED
    await agent.wait_for_exit()
    assert [process for process in commands if _alive(process)] == []
    again = await harness.relaunch(agent)
    assert (await again.run_turn("go on")).reason is TurnEndReason.END_TURN


def _sleeping(harness: Harness) -> bool:
    return any(_name(process) == "sleep" for process in harness.leftover_processes())


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""
