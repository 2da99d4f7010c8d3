"""Launches of the simulated Claude Code: what the conformance suite does not ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from farsteer.agents.base import DeltaEmitted, Prompt
from farsteer.agents.claude.adapter import ClaudeAdapter
from farsteer.agents.claude.translator import SESSION_START
from farsteer.agents.conformance.harness import Harness, Prompts
from farsteer.core.approvals import Outcome
from farsteer.core.errors import BadRequest
from farsteer.core.events import (
    AgentMessage,
    CommandsUpdate,
    ModeUpdate,
    Notice,
    Other,
    ToolCall,
    TurnEndReason,
    UsageUpdate,
)
from farsteer.core.ids import new_id
from farsteer.core.mcp import McpServer
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import Attachment
from tests.support.claude_simulator import install

pytestmark = pytest.mark.slow


@pytest.fixture
async def harness(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    for name in ("CLAUDE_CONFIG_DIR", "CLAUDE_EXECUTABLE"):
        monkeypatch.delenv(name, raising=False)
    harness = Harness(ClaudeAdapter(install(tmp_path)), Prompts(answer="", long=""), tmp_path, 20.0)
    yield harness
    await harness.close()


async def test_the_version_is_asked_of_a_program_that_is_no_package(harness: Harness) -> None:
    info = await harness.adapter.detect()
    assert (info.available, info.version, info.warning) == (True, "2.1.326", None)


async def test_commands_and_models_are_learned_at_the_start(harness: Harness) -> None:
    agent = await harness.launch()
    (update,) = agent.events_of(CommandsUpdate)
    assert [command.name for command in update.commands] == ["compact"]
    assert (await harness.adapter.detect()).models == ("default", "sim-1", "sim-2")


async def test_settings_reach_the_process_at_the_start_and_while_it_runs(harness: Harness) -> None:
    plan = msgspec.structs.replace(
        harness.plan(mode=PermissionMode.PLAN), model="sim-2", effort=ReasoningEffort.LOW
    )
    agent = await harness.launch(plan)
    await agent.run_turn("settings")
    await agent.launch.set_model("sim-1")
    await agent.launch.set_effort(ReasoningEffort.HIGH)
    await agent.launch.set_permission_mode(PermissionMode.ACCEPT_EDITS)
    await agent.launch.set_permission_mode(PermissionMode.READ_ONLY)
    await agent.run_turn("settings")
    assert [event.text for event in agent.events_of(AgentMessage)] == ["plan sim-2 low", "default sim-1 high"]
    assert agent.events_of(ModeUpdate) == [], "what the runner sets is not reported back"


async def test_a_sub_agent_is_nested_and_not_streamed(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("sub-agent")
    (call,) = agent.events_of(ToolCall)
    said = {event.text: event.parent_tool_call_id for event in agent.events_of(AgentMessage)}
    assert said == {"The sub-agent answers.": call.tool_call_id, "The agent answers.": None}
    assert {one.delta.text for one in agent.outputs_of(DeltaEmitted)} == {"The agent answers."}


async def test_a_failure_is_the_reason_of_the_end_and_its_retry_a_notice(harness: Harness) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn("fail 529")
    assert (ended.reason, ended.error) == (TurnEndReason.FAILED, "API Error: 529 the model failed")
    assert [notice.code for notice in agent.events_of(Notice)] == ["retry"]
    assert (await agent.run_turn("think hm")).reason is TurnEndReason.END_TURN


async def test_usage_is_counted_for_each_turn_also_after_a_resume(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("one")
    resumed = await harness.relaunch(agent)
    await resumed.run_turn("two")
    updates = [*agent.events_of(UsageUpdate), *resumed.events_of(UsageUpdate)]
    assert [(update.input_tokens, update.output_tokens) for update in updates] == [(100, 10)] * 2


async def test_a_steered_message_is_taken_in_the_same_turn(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("write made.txt hello")
    (approval,) = await agent.wait_for_approvals()
    message_id = new_id()
    await agent.launch.steer(Prompt(turn_id=turn_id, text="and be quick", message_id=message_id))
    await agent.answer(approval, Outcome.APPROVED)
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
    await agent.run_turn("recall")
    assert "and be quick" in agent.events_of(AgentMessage)[-1].text


async def test_a_steered_message_that_is_taken_back_is_told(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send_and_wait("work")
    message_id = new_id()
    await agent.launch.steer(Prompt(turn_id=turn_id, text="never", message_id=message_id))
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    assert [(notice.code, notice.meta) for notice in agent.events_of(Notice)] == [
        ("steer_lost", {"messageIds": [message_id]})
    ]


async def test_the_source_is_in_the_payload_of_the_hook(harness: Harness) -> None:
    agent = await harness.launch(msgspec.structs.replace(harness.plan(), source="my-tool"))
    await agent.run_turn("hello")
    (event,) = [event for event in agent.events_of(Other) if event.native_kind == SESSION_START]
    assert (event.data["hapi_source"], event.data["source"]) == ("my-tool", "startup")


async def test_mcp_servers_are_set_before_the_first_message(harness: Harness) -> None:
    server = McpServer(name="echo", command="/bin/true")
    agent = await harness.launch(msgspec.structs.replace(harness.plan(), mcp_servers=(server,)))
    assert (await agent.run_turn("hello")).reason is TurnEndReason.END_TURN


async def test_a_message_with_an_attachment_that_is_refused_begins_no_turn(harness: Harness) -> None:
    agent = await harness.launch()
    archive = Attachment(name="a.zip", mime_type="application/zip", data="//4=")
    with pytest.raises(BadRequest):
        await agent.launch.send(Prompt(turn_id=new_id(), text="look", attachments=(archive,)))
    assert (await agent.run_turn("hello")).reason is TurnEndReason.END_TURN
