"""How turns and processes of the real Droid end before their time, and how a conversation goes on after that."""

from __future__ import annotations

import json
import os
import signal

import psutil
import pytest

from farsteer.agents.base import DeltaEmitted
from farsteer.agents.conformance.stage import Scene, Stage
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import AgentMessage, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode
from tests.support.eventually import eventually
from tests.support.model import ScriptedModel

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]

HANGS = "[[say:begun]][[hang]]"


async def history(scene: Scene) -> list[list[str]]:
    """What the model is shown of the conversation."""
    await scene.turn("[[history]]")
    return json.loads(scene.events(AgentMessage)[-1].text)["history"]


async def streaming(scene: Scene) -> str:
    """A turn in which the model has begun to speak and will never end."""
    before = len(scene.of(DeltaEmitted))
    turn_id = await scene.begin(HANGS)
    await scene.until(lambda: len(scene.of(DeltaEmitted)) > before)
    return turn_id


async def running(stage: Stage, scene: Scene) -> str:
    """A turn in which a command runs that will not end by itself."""
    turn_id = await scene.begin("[[bash:sleep 300]]")
    await eventually(lambda: _sleeping(stage), scene.patience)
    return turn_id


async def test_an_interrupt_in_the_stream_keeps_what_was_said(stage: Stage, model: ScriptedModel) -> None:
    scene = await stage.launch()
    turn_id = await streaming(scene)
    await scene.launch.interrupt()
    assert (await scene.end(turn_id)).reason is TurnEndReason.CANCELLED
    assert [(event.text, event.partial) for event in scene.events(AgentMessage)] == [("begun", True)]
    assert (await model.log.wait(lambda seen: seen.script == HANGS and seen.outcome == "gone")).outcome
    told = await history(scene)
    assert ["user", HANGS] in told
    assert told[-1] == ["user", "[[history]]"]


async def test_an_interrupt_in_a_tool_ends_the_command(stage: Stage) -> None:
    scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
    turn_id = await running(stage, scene)
    await scene.launch.interrupt()
    assert (await scene.end(turn_id)).reason is TurnEndReason.CANCELLED
    await eventually(lambda: not _sleeping(stage))
    assert (await scene.turn("go on")).reason is TurnEndReason.END_TURN


async def test_stop_in_a_tool_leaves_no_command_behind(stage: Stage) -> None:
    scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
    turn_id = await running(stage, scene)
    await scene.launch.stop()
    assert (await scene.end(turn_id)).reason is TurnEndReason.CANCELLED
    assert stage.leftovers() == []


async def test_a_conversation_goes_on_in_a_new_process(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("The password is DOLPHIN-2288")
    again = await stage.again(scene)
    assert again.launch.native_id == scene.launch.native_id
    assert again.launch.pid != scene.launch.pid
    assert await history(again) == [
        ["user", "The password is DOLPHIN-2288"],
        ["assistant", "echo: The password is DOLPHIN-2288"],
        ["user", "[[history]]"],
    ]


async def test_another_key_resumes_the_same_conversation(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await stage.launch()
    await scene.turn("remember this")
    os.kill(scene.launch.pid, signal.SIGKILL)
    await scene.exited()
    monkeypatch.setenv("FACTORY_API_KEY", "fk-another")
    again = await stage.again(scene)
    assert psutil.Process(again.launch.pid).environ()["FACTORY_API_KEY"] == "fk-another"
    assert again.launch.native_id == scene.launch.native_id
    assert await history(again) == [
        ["user", "remember this"],
        ["assistant", "echo: remember this"],
        ["user", "[[history]]"],
    ]


async def test_a_conversation_that_never_was_cannot_be_resumed(stage: Stage) -> None:
    with pytest.raises(AgentError) as caught:
        await stage.launch(stage.plan(resume=new_id()))
    assert caught.value.code is ErrorCode.CONVERSATION_MISSING
    assert stage.leftovers() == []


async def test_kill_9_in_the_stream_ends_the_turn_and_loses_no_message(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("before")
    turn_id = await streaming(scene)
    os.kill(scene.launch.pid, signal.SIGKILL)
    assert (await scene.end(turn_id)).reason is TurnEndReason.CRASHED
    assert (await scene.exited()).exit_code == -signal.SIGKILL
    said = scene.events(AgentMessage)[-1]
    assert (said.text, said.partial) == ("begun", True)
    told = await history(await stage.again(scene))
    assert ["user", "before"] in told
    assert ["user", HANGS] in told


async def test_kill_9_in_a_tool_leaves_no_command_and_the_conversation_goes_on(stage: Stage) -> None:
    """The old version's commands run in a session of their own and have nobody who looks after them."""
    scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
    turn_id = await running(stage, scene)
    commands = [process for process in stage.leftovers() if process.pid != scene.launch.pid]
    assert any(_name(process) == "sleep" for process in commands)
    os.kill(scene.launch.pid, signal.SIGKILL)
    assert (await scene.end(turn_id)).reason is TurnEndReason.CRASHED
    await scene.exited()
    assert [process for process in commands if _alive(process)] == []
    again = await stage.again(scene)
    assert (await again.turn("go on")).reason is TurnEndReason.END_TURN


def _sleeping(stage: Stage) -> bool:
    return any(_name(process) == "sleep" for process in stage.leftovers())


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
