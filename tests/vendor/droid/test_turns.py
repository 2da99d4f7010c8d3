"""Turns of the real Droid."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from farsteer.agents.base import ApprovalAsked, DeltaEmitted, Prompt
from farsteer.agents.conformance.stage import Scene, Stage
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    DeltaKind,
    TitleUpdate,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
    UsageUpdate,
)
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode, ReasoningEffort, ToolKind
from farsteer.core.queue import Attachment
from tests.support.model import SIDE, ScriptedModel
from tests.vendor.droid.conftest import FAKE, OTHER, SONNET, only_new
from tests.vendor.pins import DROID, Pin

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel."""


async def info(scene: Scene) -> dict[str, Any]:
    """What the model says it was asked with."""
    await scene.turn("[[info]]")
    return json.loads(scene.events(AgentMessage)[-1].text)


async def test_thoughts_and_words_are_streamed_and_then_said(stage: Stage) -> None:
    scene = await stage.launch()
    ended = await scene.turn("[[think:Let me see.]][[say:Hello brave new world]]")
    assert ended.reason is TurnEndReason.END_TURN
    assert [event.text for event in scene.events(AgentThought)] == ["Let me see."]
    (message,) = scene.events(AgentMessage)
    assert (message.text, message.partial) == ("Hello brave new world", False)
    fragments = [fragment.delta for fragment in scene.of(DeltaEmitted)]
    assert {delta.kind for delta in fragments} == {DeltaKind.THOUGHT, DeltaKind.MESSAGE}


async def test_the_session_gets_a_title_and_every_token_is_counted(
    stage: Stage, droid: Pin, model: ScriptedModel
) -> None:
    scene = await stage.launch()
    await scene.turn("a title, please")
    assert "a title, please" in [event.title for event in scene.events(TitleUpdate)]
    await scene.until(lambda: SIDE in [event.title for event in scene.events(TitleUpdate)])
    await scene.turn("more")

    def counted() -> tuple[int, int]:
        usage = scene.events(UsageUpdate)
        return sum(one.input_tokens for one in usage), sum(one.output_tokens for one in usage)

    # What making the title cost is counted by the new version only.
    counts = ("answered", "side") if droid == DROID else ("answered",)
    asked = len([seen for seen in model.log.seen if seen.outcome in counts])
    await scene.until(lambda: counted() == (100 * asked, 10 * asked))


async def test_a_tool_is_shown_with_its_input_and_its_result(stage: Stage) -> None:
    scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
    await scene.turn("[[bash:echo wonderful; exit 3]][[say:failed as planned]]")
    call = scene.events(ToolCall)[0]
    assert call.tool_kind is ToolKind.EXECUTE
    final = [update for update in scene.events(ToolCallUpdate) if update.status and update.status.final]
    assert [(update.tool_call_id, update.status) for update in final] == [
        (call.tool_call_id, ToolStatus.FAILED)
    ]
    assert "wonderful" in scene.words()
    assert scene.events(AgentMessage)[-1].text == "failed as planned"


async def test_two_tools_of_one_answer_both_run(stage: Stage) -> None:
    scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
    await scene.turn("[[bash:touch one.txt]][[and]][[bash:touch two.txt]][[say:both]]")
    assert {path.name for path in stage.directory.iterdir()} == {"one.txt", "two.txt"}
    assert len({call.tool_call_id for call in scene.events(ToolCall)}) == 2


async def test_two_sessions_work_at_once_and_apart(stage: Stage) -> None:
    one, two = await asyncio.gather(stage.launch(), stage.launch())
    # The model answers neither before both have asked.
    await asyncio.gather(one.turn("[[meet:here:2]][[say:first]]"), two.turn("[[meet:here:2]][[say:second]]"))
    assert [event.text for event in one.events(AgentMessage)] == ["first"]
    assert [event.text for event in two.events(AgentMessage)] == ["second"]
    assert one.launch.native_id != two.launch.native_id


async def test_model_and_effort_change_for_the_next_turn(stage: Stage, droid: Pin) -> None:
    scene = await stage.launch(msgspec.structs.replace(stage.plan(), model=FAKE))
    assert (await info(scene))["model"] == "fake-1"
    await scene.launch.set_model(OTHER[droid.version])
    assert (await info(scene))["model"] == "fake-2"
    await scene.launch.set_model(SONNET)
    for effort in (ReasoningEffort.HIGH, ReasoningEffort.LOW):
        await scene.launch.set_effort(effort)
        told = await info(scene)
        assert (told["model"], told["effort"]) == (SONNET, effort.value)


async def test_model_and_effort_of_the_plan_hold_from_the_first_turn(stage: Stage) -> None:
    plan = msgspec.structs.replace(stage.plan(), model=SONNET, effort=ReasoningEffort.MEDIUM)
    told = await info(await stage.launch(plan))
    assert (told["model"], told["effort"]) == (SONNET, "medium")


async def test_the_permission_mode_changes_while_it_runs(stage: Stage) -> None:
    scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
    await scene.turn("[[bash:touch unasked.txt]]")
    assert scene.of(ApprovalAsked) == []
    await scene.launch.set_permission_mode(PermissionMode.DEFAULT)
    turn_id = await scene.begin("[[bash:touch asked.txt]]")
    await scene.asked()
    await scene.launch.interrupt()
    await scene.end(turn_id)
    assert [path.name for path in stage.directory.iterdir()] == ["unasked.txt"]


async def test_an_image_reaches_the_model(stage: Stage) -> None:
    scene = await stage.launch(msgspec.structs.replace(stage.plan(), model=SONNET))
    turn_id = new_id()
    image = Attachment(name="dot.png", mime_type="image/png", data=DOT)
    await scene.launch.send(Prompt(turn_id=turn_id, text="[[info]]", attachments=(image,)))
    scene.sent.append(turn_id)
    await scene.end(turn_id)
    assert json.loads(scene.events(AgentMessage)[-1].text)["images"] == 1


@only_new
async def test_a_message_of_a_megabyte_comes_back_whole(stage: Stage) -> None:
    scene = await stage.launch()
    text = " ".join(map(str, range(150_000)))
    await scene.turn(text)
    assert scene.events(AgentMessage)[-1].text == f"echo: {text}"
