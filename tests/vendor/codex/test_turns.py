"""Turns with the real Codex: streaming, edits, interruptions, failures, settings, steering, resuming."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
from pathlib import Path

import msgspec
import pytest

from farsteer.agents.base import DeltaEmitted, Prompt, Registered
from farsteer.agents.conformance.harness import Harness
from farsteer.core.approvals import Outcome
from farsteer.core.errors import AgentError, Conflict, ErrorCode
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    DeltaKind,
    DiffBlock,
    Notice,
    Plan,
    TextBlock,
    ToolCall,
    ToolCallUpdate,
    TurnEndReason,
    UsageUpdate,
)
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode, ReasoningEffort, ToolKind
from farsteer.core.queue import Attachment
from tests.support.eventually import eventually
from tests.support.model import ScriptedModel
from tests.vendor.codex.conftest import (
    CODE_MODE_MODEL,
    MODEL,
    QUESTION,
    STEP_TIMEOUT,
    model_history,
    model_info,
)

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(120)]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def test_text_and_thoughts_are_streamed_and_emitted_whole(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("[[think:let me see]][[say:hello dear reader]]")
    assert [event.text for event in agent.events_of(AgentThought)] == ["let me see"]
    (message,) = agent.events_of(AgentMessage)
    deltas = [output.delta for output in agent.outputs_of(DeltaEmitted)]
    streamed = "".join(delta.text for delta in deltas if delta.kind is DeltaKind.MESSAGE)
    assert message.text == streamed == "hello dear reader"
    assert message.anchor is not None


async def test_a_thread_without_a_message_is_not_registered(harness: Harness) -> None:
    agent = await harness.launch()
    assert agent.launch.native_id is not None
    assert agent.launch.native_id != agent.plan.session_id
    assert agent.outputs_of(Registered) == []
    await agent.launch.stop()
    with pytest.raises(AgentError) as caught:
        await harness.launch(harness.plan(resume=agent.launch.native_id))
    assert caught.value.code is ErrorCode.CONVERSATION_MISSING


@pytest.mark.parametrize("model_name", [MODEL, CODE_MODE_MODEL])
async def test_an_edit_is_a_tool_call_with_its_diff(harness: Harness, model_name: str) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await agent.launch.set_model(model_name)
    await agent.run_turn("[[write:made.txt:hello]]")
    assert (harness.directory / "made.txt").read_text() == "hello\n"
    (call,) = agent.events_of(ToolCall)
    assert call.content == (DiffBlock(path=str(harness.directory / "made.txt"), new_text="hello\n"),)
    assert call.locations[0].path == str(harness.directory / "made.txt")


async def test_a_changed_file_shows_old_and_new_lines(harness: Harness) -> None:
    (harness.directory / "poem.txt").write_text("one\ntwo\nthree\n")
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    patch = "*** Begin Patch\\n*** Update File: poem.txt\\n@@\\n one\\n-two\\n+zwei\\n three\\n*** End Patch"
    await agent.run_turn(f'[[tool:apply_patch:{{"input":"{patch}"}}]]')
    assert (harness.directory / "poem.txt").read_text() == "one\nzwei\nthree\n"
    (block,) = agent.events_of(ToolCallUpdate)[-1].content
    assert isinstance(block, DiffBlock)
    assert (block.old_text, block.new_text) == ("one\ntwo\nthree\n", "one\nzwei\nthree\n")


async def test_the_output_of_a_command_is_streamed(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await agent.run_turn("[[bash:echo first; sleep 0.5; echo second]]")
    (call,) = agent.events_of(ToolCall)
    streamed = [
        one.delta.text for one in agent.outputs_of(DeltaEmitted) if one.delta.message_id == call.tool_call_id
    ]
    # Codex may report the first output with the result only.
    assert streamed[-1] == "second\n"
    (result,) = agent.events_of(ToolCallUpdate)
    assert result.content == (TextBlock(text="first\nsecond\n"),)


async def test_usage_is_what_each_turn_added(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("[[say:one]]")
    await agent.run_turn("[[say:two]]")
    resumed = await harness.relaunch(agent)
    await resumed.run_turn("[[say:three]]")
    updates = [*agent.events_of(UsageUpdate), *resumed.events_of(UsageUpdate)]
    assert [(one.input_tokens, one.output_tokens) for one in updates] == [(100, 10)] * 3
    assert updates[0].context_used == 110
    assert updates[0].context_size is not None


async def test_model_and_effort_switch_with_the_next_turn(harness: Harness) -> None:
    agent = await harness.launch()
    assert (await model_info(agent))["model"] == MODEL
    await agent.launch.set_model(CODE_MODE_MODEL)
    await agent.launch.set_effort(ReasoningEffort.XHIGH)
    told = await model_info(agent)
    assert (told["model"], told["effort"]) == (CODE_MODE_MODEL, "xhigh")
    assert MODEL in (await harness.adapter.detect()).models


async def test_images_and_text_files_reach_the_model(harness: Harness) -> None:
    agent = await harness.launch()
    text = base64.b64encode(b"a note").decode()
    turn_id = new_id()
    attachments = (
        Attachment(name="dot.png", mime_type="image/png", data=PIXEL),
        Attachment(name="note.txt", mime_type="text/plain", data=text),
    )
    await agent.launch.send(Prompt(turn_id=turn_id, text="[[info]]", attachments=attachments))
    agent.turn_ids.append(turn_id)
    await agent.wait_for_end(turn_id)
    assert '"images": 1' in agent.events_of(AgentMessage)[-1].text
    assert any("a note" in text for _, text in await model_history(agent))


async def test_a_steered_message_is_seen_by_the_model_in_the_same_turn(
    harness: Harness, model: ScriptedModel
) -> None:
    agent = await harness.launch()
    turn_id = await agent.send_and_wait("[[say:first]][[meet:steer:2]]")
    await agent.launch.steer(Prompt(turn_id=turn_id, text="[[say:steered]]", message_id=new_id()))
    model.meet("steer")
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
    assert [event.text for event in agent.events_of(AgentMessage)] == ["first", "steered"]
    with pytest.raises(Conflict):
        await agent.launch.steer(Prompt(turn_id=turn_id, text="too late"))


async def test_a_steered_message_before_an_interrupt_is_in_the_conversation_or_reported(
    harness: Harness,
) -> None:
    agent = await harness.launch()
    turn_id = await agent.send_and_wait("[[say:first]][[hang]]")
    await agent.launch.steer(Prompt(turn_id=turn_id, text="lost", message_id=new_id()))
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    is_reported = any(event.code == "steer_lost" for event in agent.events_of(Notice))
    is_known = any("lost" in text for _, text in await model_history(agent))
    assert is_reported is not is_known


async def test_an_interrupt_ends_a_running_command(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    # Codex gives the model what a long command has written so far: then the model must not end the turn.
    turn_id = await agent.send("[[bash:touch begun.txt; sleep 60; touch late.txt]][[hang]]")
    await eventually((harness.directory / "begun.txt").exists, STEP_TIMEOUT)
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    assert (await agent.run_turn("[[say:again]]")).reason is TurnEndReason.END_TURN
    assert not (harness.directory / "late.txt").exists()


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
async def test_a_model_error_fails_the_turn_with_its_reason(harness: Harness, status: int) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn(f"[[error:{status}]]")
    assert ended.reason is TurnEndReason.FAILED
    assert ended.error
    if status == 401:
        assert "codex login" in ended.error
    if status == 500:
        assert "retry" in [event.code for event in agent.events_of(Notice)]
    assert (await agent.run_turn("[[new]][[say:well again]]")).reason is TurnEndReason.END_TURN


async def test_a_resumed_thread_shows_the_model_its_history(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("remember apricot")
    history = await model_history(await harness.relaunch(agent))
    assert ["user", "remember apricot"] in history
    assert ["assistant", "echo: remember apricot"] in history


async def test_a_killed_agent_is_resumed_with_what_it_had(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("remember apricot")
    turn_id = await agent.send_and_wait("[[say:half a ]][[hang]]")
    os.kill(agent.launch.pid, signal.SIGKILL)
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CRASHED
    assert agent.events_of(AgentMessage)[-1].partial
    await agent.wait_for_exit()
    resumed = await harness.relaunch(agent)
    assert ["user", "remember apricot"] in await model_history(resumed)


async def test_five_sessions_work_at_once(harness: Harness) -> None:
    agents = await asyncio.gather(*(harness.launch() for _ in range(5)))
    await asyncio.gather(
        *(agent.run_turn(f"[[meet:all:5]][[say:I am {n}]]") for n, agent in enumerate(agents))
    )
    assert [agent.events_of(AgentMessage)[0].text for agent in agents] == [f"I am {n}" for n in range(5)]
    assert len({agent.launch.native_id for agent in agents}) == 5


@pytest.mark.parametrize("is_added", [True, False])
async def test_an_additional_directory_can_be_written(
    harness: Harness, outside: Path, is_added: bool
) -> None:
    plan = harness.plan(mode=PermissionMode.SAFE_YOLO)
    added = (str(outside),) if is_added else ()
    agent = await harness.launch(msgspec.structs.replace(plan, additional_directories=added))
    await agent.run_turn(f"[[bash:touch {outside}/made.txt]]")
    assert (outside / "made.txt").exists() is is_added


async def test_a_question_in_plan_mode_is_answered(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    turn_id = await agent.send(f"[[tool:request_user_input:{json.dumps(QUESTION)}]]")
    (approval,) = await agent.wait_for_approvals()
    assert approval.questions[0].choices == ("Red", "Blue")
    await agent.answer(approval, Outcome.APPROVED, {"q": ["Blue"]})
    await agent.wait_for_end(turn_id)
    assert '"Blue"' in agent.events_of(AgentMessage)[-1].text


async def test_a_proposed_plan_is_a_message(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    await agent.run_turn("[[say:<proposed_plan>\n# The plan\n</proposed_plan>\n]]")
    assert any("# The plan" in event.text for event in agent.events_of(AgentMessage))


async def test_a_web_search_is_a_tool_call(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("[[search:platypus habitat]][[say:in rivers]]")
    (call,) = agent.events_of(ToolCall)
    assert (call.tool, call.tool_kind) == ("web_search", ToolKind.FETCH)
    assert "platypus habitat" in call.title


async def test_a_task_list_is_a_plan(harness: Harness, codex: Path) -> None:
    with (codex / "config.toml").open("a") as config:
        config.write("[tools.update_plan]\nenabled = true\n")
    agent = await harness.launch()
    steps = [{"step": "first", "status": "completed"}, {"step": "second", "status": "in_progress"}]
    await agent.run_turn(f"[[tool:update_plan:{json.dumps({'plan': steps})}]]")
    (plan,) = agent.events_of(Plan)
    assert [(entry.content, entry.status) for entry in plan.entries] == [
        ("first", "completed"),
        ("second", "in_progress"),
    ]


async def test_the_tokens_of_a_turn_after_a_rewind_are_counted(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("[[say:one]]")
    await agent.run_turn("[[say:two]]")
    rewound = await harness.relaunch(agent, cut_at=agent.events_of(AgentMessage)[0].anchor)
    await rewound.run_turn("[[bash:true]][[say:three]]")
    assert [one.input_tokens for one in rewound.events_of(UsageUpdate)] == [100, 100]


async def test_what_a_sub_agent_does_names_its_call_and_does_not_end_the_turn(harness: Harness) -> None:
    plan = msgspec.structs.replace(harness.plan(mode=PermissionMode.YOLO), model=CODE_MODE_MODEL)
    agent = await harness.launch(plan)
    spawn = {"message": "[[say:sub speaks]][[bash:touch sub.txt]]", "task_name": "look", "fork_turns": "none"}
    ended = await agent.run_turn(
        f"[[tool:collaboration/spawn_agent:{json.dumps(spawn)}]][[tool:collaboration/wait_agent:{{}}]]"
        "[[say:main speaks]]"
    )
    assert ended.reason is TurnEndReason.END_TURN
    said = {event.text: event.parent_tool_call_id for event in agent.events_of(AgentMessage)}
    (call,) = [one for one in agent.events_of(ToolCall) if one.tool == "sub_agent"]
    assert (said["sub speaks"], said["main speaks"]) == (call.tool_call_id, None)
    assert (harness.directory / "sub.txt").exists()
