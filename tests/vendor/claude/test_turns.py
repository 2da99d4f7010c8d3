"""Turns of the real Claude Code."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest

from farsteer.agents.base import ApprovalAsked, DeltaEmitted, Prompt, Registered, TurnBegun
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    CommandsUpdate,
    Compacted,
    DeltaKind,
    DiffBlock,
    Notice,
    Plan,
    PlanEntry,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
    UsageUpdate,
)
from farsteer.core.ids import new_id
from farsteer.core.mcp import McpServer
from farsteer.core.modes import PermissionMode, ReasoningEffort, ToolKind
from farsteer.core.queue import Attachment
from tests.support.model import ScriptedModel
from tests.vendor.claude.conftest import ECHO_SERVER, model_history

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel."""


async def info(agent: RecordedLaunch) -> dict[str, Any]:
    """Return the model, effort and other properties of the request to the model."""
    await agent.run_turn("[[info]]")
    return json.loads(agent.events_of(AgentMessage)[-1].text)


async def send(agent: RecordedLaunch, prompt: Prompt) -> None:
    await agent.launch.send(prompt)
    agent.turn_ids.append(prompt.turn_id)
    await agent.wait_for_end(prompt.turn_id)


async def test_thoughts_text_and_tool_input_are_streamed_and_then_emitted_whole(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    ended = await agent.run_turn("[[think:Let me see.]][[say:Hello brave new world]][[bash:true]]")
    assert ended.reason is TurnEndReason.END_TURN
    assert [event.text for event in agent.events_of(AgentThought)] == ["Let me see."]
    first = agent.events_of(AgentMessage)[0]
    assert (first.text, first.partial) == ("Hello brave new world", False)
    deltas = [output.delta for output in agent.outputs_of(DeltaEmitted)]
    assert {delta.kind for delta in deltas} == {DeltaKind.THOUGHT, DeltaKind.MESSAGE, DeltaKind.TOOL_INPUT}
    (call,) = agent.events_of(ToolCall)
    assert call.tool_call_id in {delta.message_id for delta in deltas if delta.kind is DeltaKind.TOOL_INPUT}


async def test_tokens_and_cost_are_counted_for_each_turn_also_after_a_resume(
    harness: Harness, model: ScriptedModel
) -> None:
    agent = await harness.launch()
    await agent.run_turn("one")
    await agent.run_turn("two")
    resumed = await harness.relaunch(agent)
    await resumed.run_turn("three")
    updates = [*agent.events_of(UsageUpdate), *resumed.events_of(UsageUpdate)]
    assert [(update.input_tokens, update.output_tokens) for update in updates] == [(100, 10)] * 3
    assert len({update.cost_usd for update in updates}) == 1
    assert updates[0].cost_usd
    assert {update.model for update in updates} == {model.log.turns[-1].body["model"]}
    assert updates[-1].context_size
    assert updates[-1].context_used


async def test_a_tool_is_shown_with_its_input_and_its_result(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await agent.run_turn("[[bash:echo wonderful; exit 3]][[say:failed as planned]]")
    (call,) = agent.events_of(ToolCall)
    assert (call.tool_kind, call.title) == (ToolKind.EXECUTE, "echo wonderful; exit 3")
    (final,) = agent.events_of(ToolCallUpdate)
    assert (final.tool_call_id, final.status) == (call.tool_call_id, ToolStatus.FAILED)
    assert "wonderful" in agent.text()


async def test_an_edit_has_a_diff(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.ACCEPT_EDITS))
    path = harness.directory / "poem.txt"
    path.write_text("a rose\nis a rose\n")
    edit = json.dumps({"file_path": str(path), "old_string": "is a rose", "new_string": "is a tulip"})
    await agent.run_turn(f"[[read:{path}]][[tool:Edit:{edit}]]")
    call = agent.events_of(ToolCall)[-1]
    assert (call.tool_kind, call.locations[0].path) == (ToolKind.EDIT, str(path))
    assert call.content == (DiffBlock(path=str(path), new_text="is a tulip", old_text="is a rose"),)
    assert agent.events_of(ToolCallUpdate)[-1].content == (
        DiffBlock(path=str(path), new_text="a rose\nis a tulip\n", old_text="a rose\nis a rose\n"),
    )
    assert path.read_text() == "a rose\nis a tulip\n"


async def test_what_a_sub_agent_does_names_its_tool_call(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    task = {
        "description": "look", "prompt": "[[say:sub speaks]][[bash:touch sub.txt]]",
        "subagent_type": "general-purpose", "run_in_background": False,
    }  # fmt: skip
    await agent.run_turn(f"[[tool:Task:{json.dumps(task)}]][[say:main speaks]]")
    outer, inner = agent.events_of(ToolCall)
    assert (outer.parent_tool_call_id, inner.parent_tool_call_id) == (None, outer.tool_call_id)
    said = {event.text: event.parent_tool_call_id for event in agent.events_of(AgentMessage)}
    assert said["sub speaks"] == outer.tool_call_id
    assert said["main speaks"] is None
    assert (harness.directory / "sub.txt").exists()


async def test_a_turn_ends_after_the_sub_agents_in_its_background(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    task = {
        "description": "look", "prompt": "[[bash:sleep 1; touch late.txt]]", "subagent_type": "general-purpose",
        "run_in_background": True,
    }  # fmt: skip
    ended = await agent.run_turn(f"[[tool:Task:{json.dumps(task)}]][[say:main speaks]]")
    assert ended.reason is TurnEndReason.END_TURN
    assert (harness.directory / "late.txt").exists()
    await agent.run_turn("[[say:next]]")
    assert agent.events_of(AgentMessage)[-1].text == "next"


async def test_what_is_said_about_a_command_in_the_background_after_the_turn_is_kept(
    harness: Harness,
) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    command = {
        "command": "until [ -e go ]; do sleep 0.05; done",
        "run_in_background": True,
        "description": "waits",
    }
    await agent.run_turn(f"[[tool:Bash:{json.dumps(command)}]][[say:it runs]]")
    count = len(agent.events_of(AgentMessage))
    (harness.directory / "go").touch()
    await agent.wait_until(lambda: len(agent.events_of(AgentMessage)) > count)
    await agent.run_turn("[[say:next]]")
    assert agent.events_of(AgentMessage)[-1].text == "next"


async def test_a_todo_list_is_a_plan_also_after_a_resume(harness: Harness) -> None:
    # Newer models get no tools for it.
    plan = msgspec.structs.replace(harness.plan(), model="claude-sonnet-4-5")
    agent = await harness.launch(plan)
    first, second = ({"subject": name, "description": f"do {name}"} for name in ("first", "second"))
    await agent.run_turn(
        f"[[tool:TaskCreate:{json.dumps(first)}]][[and]][[tool:TaskCreate:{json.dumps(second)}]]"
        '[[tool:TaskUpdate:{"taskId":"1","status":"completed"}]]'
    )
    assert agent.events_of(Plan)[-1].entries == (
        PlanEntry(content="first", status="completed"),
        PlanEntry(content="second", status="pending"),
    )
    resumed = await harness.relaunch(agent)
    await resumed.launch.set_model("claude-sonnet-4-5")
    await resumed.run_turn('[[tool:TaskUpdate:{"taskId":"2","status":"in_progress"}]]')
    assert resumed.events_of(Plan)[-1].entries == (
        PlanEntry(content="first", status="completed"),
        PlanEntry(content="second", status="in_progress"),
    )


async def test_a_compaction_is_an_event(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("something to remember")
    ended = await agent.run_turn("/compact")
    assert ended.reason is TurnEndReason.END_TURN
    (compacted,) = agent.events_of(Compacted)
    assert compacted.automatic is False
    assert compacted.tokens_before


async def test_commands_and_models_are_discovered(harness: Harness) -> None:
    agent = await harness.launch()
    commands = agent.events_of(CommandsUpdate)[-1].commands
    assert "compact" in {command.name for command in commands}
    assert "opus" in (await harness.adapter.detect()).models


async def test_five_sessions_work_at_the_same_time_and_independently(harness: Harness) -> None:
    agents = await asyncio.gather(*(harness.launch() for _ in range(5)))
    # The model answers only after all have asked.
    await asyncio.gather(
        *(agent.run_turn(f"[[meet:here:5]][[say:I am {index}]]") for index, agent in enumerate(agents))
    )
    for index, agent in enumerate(agents):
        assert [event.text for event in agent.events_of(AgentMessage)] == [f"I am {index}"]
    assert len({agent.launch.native_id for agent in agents}) == 5


async def test_model_and_effort_change_for_the_next_turn(harness: Harness) -> None:
    plan = msgspec.structs.replace(harness.plan(), model="sonnet", effort=ReasoningEffort.MEDIUM)
    agent = await harness.launch(plan)
    told = await info(agent)
    assert ("sonnet" in told["model"], told["effort"]) == (True, "medium")
    await agent.launch.set_model("opus")
    for effort in (ReasoningEffort.HIGH, ReasoningEffort.LOW):
        await agent.launch.set_effort(effort)
        told = await info(agent)
        assert ("opus" in told["model"], told["effort"]) == (True, effort.value)


async def test_the_permission_mode_changes_while_it_runs(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await agent.run_turn("[[bash:touch unasked.txt]]")
    assert agent.outputs_of(ApprovalAsked) == []
    await agent.launch.set_permission_mode(PermissionMode.READ_ONLY)
    await agent.run_turn("[[bash:touch denied.txt]]")
    assert agent.events_of(Notice)[-1].code == "read_only"
    await agent.launch.set_permission_mode(PermissionMode.DEFAULT)
    turn_id = await agent.send("[[bash:touch asked.txt]]")
    await agent.wait_for_approvals()
    await agent.launch.interrupt()
    await agent.wait_for_end(turn_id)
    assert [path.name for path in harness.directory.iterdir()] == ["unasked.txt"]


async def test_an_image_and_a_text_file_reach_the_model(harness: Harness, model: ScriptedModel) -> None:
    agent = await harness.launch()
    image = Attachment(name="dot.png", mime_type="image/png", data=DOT)
    file = Attachment(name="notes.txt", mime_type="text/plain", data=b64encode(b"dolphins are fine").decode())
    await send(agent, Prompt(turn_id=new_id(), text="[[info]]", attachments=(image, file)))
    assert json.loads(agent.events_of(AgentMessage)[-1].text)["images"] == 1
    assert "dolphins are fine" in json.dumps(model.log.turns[-1].body)


async def test_a_message_of_a_megabyte_comes_back_whole(harness: Harness) -> None:
    agent = await harness.launch()
    text = " ".join(map(str, range(150_000)))
    await agent.run_turn(text)
    assert agent.events_of(AgentMessage)[-1].text == f"echo: {text}"


async def test_mcp_servers_and_directories_of_the_session_are_used(harness: Harness) -> None:
    other = harness.directory.parent / "other"
    other.mkdir()
    (other / "secret.txt").write_text("platypus")
    plan = msgspec.structs.replace(
        harness.plan(mode=PermissionMode.YOLO),
        mcp_servers=(ECHO_SERVER,),
        additional_directories=(str(other),),
    )
    agent = await harness.launch(plan)
    await agent.run_turn(f'[[tool:mcp__{ECHO_SERVER.name}__shout:{{"text":"quietly"}}]]')
    assert "QUIETLY" in agent.text()
    await agent.launch.set_permission_mode(PermissionMode.DEFAULT)
    await agent.run_turn(f"[[read:{other}/secret.txt]]")
    assert "platypus" in agent.text()
    assert agent.outputs_of(ApprovalAsked) == []


async def test_an_mcp_server_that_does_not_start_is_told(harness: Harness) -> None:
    broken = McpServer(name="broken", command="/nonexistent/server")
    agent = await harness.launch(msgspec.structs.replace(harness.plan(), mcp_servers=(broken,)))
    ended = await agent.run_turn("[[say:still here]]")
    assert ended.reason is TurnEndReason.END_TURN
    assert "broken" in agent.events_of(Notice)[0].text


async def test_the_agent_of_the_session_is_used(harness: Harness, model: ScriptedModel) -> None:
    folder = harness.directory / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "pirate.md").write_text(
        "---\nname: pirate\ndescription: a pirate\n---\nYou speak like a pirate.\n"
    )
    agent = await harness.launch(msgspec.structs.replace(harness.plan(), options={"claudeAgent": "pirate"}))
    await agent.run_turn("hello")
    assert "You speak like a pirate." in json.dumps(model.log.turns[-1].body["system"])


async def test_a_steered_message_reaches_the_model_in_the_same_turn(
    harness: Harness, model: ScriptedModel
) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    turn_id = await agent.send("[[bash:sleep 1]][[say:done]]")
    await agent.wait_until(lambda: bool(agent.events_of(ToolCall)))
    await agent.launch.steer(Prompt(turn_id=turn_id, text="look at the platypus", message_id=new_id()))
    ended = await agent.wait_for_end(turn_id)
    assert ended.reason is TurnEndReason.END_TURN
    before, after = model.log.turns
    assert "look at the platypus" not in json.dumps(before.body)
    assert "look at the platypus" in json.dumps(after.body)


async def test_a_steered_message_that_comes_too_late_is_answered_in_the_same_turn(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send_and_wait("[[slow:8:0.1]]")
    await agent.launch.steer(Prompt(turn_id=turn_id, text="[[say:second answer]]", message_id=new_id()))
    await agent.wait_for_end(turn_id)
    assert [event.text for event in agent.events_of(AgentMessage)][-1] == "second answer"


async def test_an_interrupt_takes_a_steered_message_back(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send_and_wait("[[say:I begin. ]][[hang]]")
    steered = new_id()
    await agent.launch.steer(Prompt(turn_id=turn_id, text="[[say:never]]", message_id=steered))
    await agent.launch.interrupt()
    ended = await agent.wait_for_end(turn_id)
    assert ended.reason is TurnEndReason.CANCELLED
    lost = [notice for notice in agent.events_of(Notice) if notice.code == "steer_lost"]
    assert [notice.meta for notice in lost] == [{"messageIds": [steered]}]
    await agent.run_turn("[[say:next]]")
    assert agent.events_of(AgentMessage)[-1].text == "next"


async def test_a_cleared_conversation_goes_on_as_a_new_one_also_after_a_resume(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("apricot")
    before = agent.launch.native_id
    await agent.run_turn("/clear")
    assert agent.launch.native_id != before
    await agent.run_turn("walnut")
    registered = [output.native_id for output in agent.outputs_of(Registered)]
    assert registered == [before, agent.launch.native_id]
    resumed = await harness.relaunch(agent)
    told = json.dumps(await model_history(resumed))
    assert "walnut" in told
    assert "apricot" not in told


async def test_a_conversation_that_was_only_cleared_can_be_resumed(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("apricot")
    await agent.run_turn("/clear")
    resumed = await harness.relaunch(agent)
    assert "apricot" not in json.dumps(await model_history(resumed))


async def test_a_turn_that_it_begins_by_itself_has_a_start_and_an_end(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    command = json.dumps({"command": "sleep 1", "run_in_background": True, "description": "wait"})
    await agent.run_turn(f"[[tool:Bash:{command}]][[say:started]]")
    await agent.wait_until(lambda: bool(agent.outputs_of(TurnBegun)))
    (begun,) = agent.outputs_of(TurnBegun)
    assert begun.message is None
    assert (await agent.wait_for_end(begun.turn_id)).reason is TurnEndReason.END_TURN
    assert (await agent.run_turn("[[say:next]]")).reason is TurnEndReason.END_TURN
