"""Turns of the real Droid."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest

from farsteer.agents.base import ApprovalAsked, DeltaEmitted, Prompt
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
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


async def info(agent: RecordedLaunch) -> dict[str, Any]:
    """Return the model, effort and other properties of the request to the model."""
    await agent.run_turn("[[info]]")
    return json.loads(agent.events_of(AgentMessage)[-1].text)


async def test_thoughts_and_text_are_streamed_and_then_emitted_whole(harness: Harness) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn("[[think:Let me see.]][[say:Hello brave new world]]")
    assert ended.reason is TurnEndReason.END_TURN
    assert [event.text for event in agent.events_of(AgentThought)] == ["Let me see."]
    (message,) = agent.events_of(AgentMessage)
    assert (message.text, message.partial) == ("Hello brave new world", False)
    deltas = [output.delta for output in agent.outputs_of(DeltaEmitted)]
    assert {delta.kind for delta in deltas} == {DeltaKind.THOUGHT, DeltaKind.MESSAGE}


async def test_the_session_gets_a_title_and_every_token_is_counted(
    harness: Harness, droid: Pin, model: ScriptedModel
) -> None:
    agent = await harness.launch()
    await agent.run_turn("a title, please")

    def titles() -> list[str]:
        return [event.title for event in agent.events_of(TitleUpdate)]

    # Droid reports titles in its own time, also after the end of the turn.
    await agent.wait_until(lambda: "a title, please" in titles())
    await agent.wait_until(lambda: SIDE in titles())
    await agent.run_turn("more")

    def counted() -> tuple[int, int]:
        usage = agent.events_of(UsageUpdate)
        return sum(one.input_tokens for one in usage), sum(one.output_tokens for one in usage)

    # Only the new version counts the tokens of the title.
    counts = ("answered", "side") if droid == DROID else ("answered",)
    asked = len([seen for seen in model.log.seen if seen.outcome in counts])
    await agent.wait_until(lambda: counted() == (100 * asked, 10 * asked))


async def test_a_tool_is_shown_with_its_input_and_its_result(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await agent.run_turn("[[bash:echo wonderful; exit 3]][[say:failed as planned]]")
    call = agent.events_of(ToolCall)[0]
    assert call.tool_kind is ToolKind.EXECUTE
    final = [update for update in agent.events_of(ToolCallUpdate) if update.status and update.status.final]
    assert [(update.tool_call_id, update.status) for update in final] == [
        (call.tool_call_id, ToolStatus.FAILED)
    ]
    assert "wonderful" in agent.text()
    assert agent.events_of(AgentMessage)[-1].text == "failed as planned"


async def test_two_tools_of_one_answer_both_run(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await agent.run_turn("[[bash:touch one.txt]][[and]][[bash:touch two.txt]][[say:both]]")
    assert {path.name for path in harness.directory.iterdir()} == {"one.txt", "two.txt"}
    assert len({call.tool_call_id for call in agent.events_of(ToolCall)}) == 2


async def test_two_sessions_work_at_the_same_time_and_independently(harness: Harness) -> None:
    one, two = await asyncio.gather(harness.launch(), harness.launch())
    # The model answers only after both have asked.
    await asyncio.gather(
        one.run_turn("[[meet:here:2]][[say:first]]"), two.run_turn("[[meet:here:2]][[say:second]]")
    )
    assert [event.text for event in one.events_of(AgentMessage)] == ["first"]
    assert [event.text for event in two.events_of(AgentMessage)] == ["second"]
    assert one.launch.native_id != two.launch.native_id


async def test_model_and_effort_change_for_the_next_turn(harness: Harness, droid: Pin) -> None:
    agent = await harness.launch(msgspec.structs.replace(harness.plan(), model=FAKE))
    assert (await info(agent))["model"] == "fake-1"
    await agent.launch.set_model(OTHER[droid.version])
    assert (await info(agent))["model"] == "fake-2"
    await agent.launch.set_model(SONNET)
    for effort in (ReasoningEffort.HIGH, ReasoningEffort.LOW):
        await agent.launch.set_effort(effort)
        told = await info(agent)
        assert (told["model"], told["effort"]) == (SONNET, effort.value)


async def test_model_and_effort_of_the_plan_hold_from_the_first_turn(harness: Harness) -> None:
    plan = msgspec.structs.replace(harness.plan(), model=SONNET, effort=ReasoningEffort.MEDIUM)
    told = await info(await harness.launch(plan))
    assert (told["model"], told["effort"]) == (SONNET, "medium")


async def test_the_permission_mode_changes_while_it_runs(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await agent.run_turn("[[bash:touch unasked.txt]]")
    assert agent.outputs_of(ApprovalAsked) == []
    await agent.launch.set_permission_mode(PermissionMode.DEFAULT)
    turn_id = await agent.send("[[bash:touch asked.txt]]")
    await agent.wait_for_approvals()
    await agent.launch.interrupt()
    await agent.wait_for_end(turn_id)
    assert [path.name for path in harness.directory.iterdir()] == ["unasked.txt"]


async def test_an_image_reaches_the_model(harness: Harness) -> None:
    agent = await harness.launch(msgspec.structs.replace(harness.plan(), model=SONNET))
    turn_id = new_id()
    image = Attachment(name="dot.png", mime_type="image/png", data=DOT)
    await agent.launch.send(Prompt(turn_id=turn_id, text="[[info]]", attachments=(image,)))
    agent.turn_ids.append(turn_id)
    await agent.wait_for_end(turn_id)
    assert json.loads(agent.events_of(AgentMessage)[-1].text)["images"] == 1


@only_new
async def test_a_message_of_a_megabyte_comes_back_whole(harness: Harness) -> None:
    agent = await harness.launch()
    text = " ".join(map(str, range(150_000)))
    await agent.run_turn(text)
    assert agent.events_of(AgentMessage)[-1].text == f"echo: {text}"


async def test_a_text_file_reaches_the_model(harness: Harness, model: ScriptedModel) -> None:
    agent = await harness.launch()
    turn_id = new_id()
    file = Attachment(name="notes.txt", mime_type="text/plain", data=b64encode(b"dolphins are fine").decode())
    await agent.launch.send(Prompt(turn_id=turn_id, text="[[say:read it]]", attachments=(file,)))
    agent.turn_ids.append(turn_id)
    await agent.wait_for_end(turn_id)
    assert "dolphins are fine" in json.dumps(model.log.turns[-1].body)
