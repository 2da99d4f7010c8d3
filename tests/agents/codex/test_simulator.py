"""Turns with the simulated Codex: sub-agents, retries, and the settings of each turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer.agents.codex.adapter import CodexAdapter
from farsteer.agents.conformance.harness import Harness, Prompts
from farsteer.core.events import AgentMessage, Notice, ToolCall, TurnEndReason
from farsteer.core.modes import PermissionMode, ReasoningEffort
from tests.support.codex_simulator import install

pytestmark = pytest.mark.slow


@pytest.fixture
async def harness(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    monkeypatch.delenv("CODEX_HOME", raising=False)
    harness = Harness(CodexAdapter(install(tmp_path)), Prompts(answer="", long=""), tmp_path, 10.0)
    yield harness
    await harness.close()


async def test_a_sub_agent_that_fails_does_not_end_the_turn(harness: Harness) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn("sub-agent")
    assert ended.reason is TurnEndReason.END_TURN
    (call,) = [one for one in agent.events_of(ToolCall) if one.tool == "spawnAgent"]
    child = [one for one in agent.events_of(ToolCall) if one.tool == "sub_agent"]
    assert [one.parent_tool_call_id for one in child] == [call.tool_call_id]
    said = {event.text: event.parent_tool_call_id for event in agent.events_of(AgentMessage)}
    assert said == {"The sub-agent answers.": child[0].tool_call_id, "The agent answers.": None}


async def test_a_retry_is_a_notice_and_the_broken_message_is_partial(harness: Harness) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn("fail unauthorized")
    assert ended.reason is TurnEndReason.FAILED
    assert "codex login" in (ended.error or "")
    assert [notice.code for notice in agent.events_of(Notice)] == ["retry"]
    assert [(event.text, event.partial) for event in agent.events_of(AgentMessage)] == [
        ("broken ", True),
        ("Once more.", False),
    ]


async def test_policy_sandbox_model_and_effort_are_those_of_the_turn(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.launch.set_permission_mode(PermissionMode.SAFE_YOLO)
    await agent.launch.set_model("sim-2")
    await agent.launch.set_effort(ReasoningEffort.LOW)
    await agent.run_turn("settings")
    await agent.launch.set_permission_mode(PermissionMode.YOLO)
    await agent.run_turn("settings")
    assert [event.text for event in agent.events_of(AgentMessage)] == [
        "never workspaceWrite sim-2 low None",
        "never dangerFullAccess sim-2 low None",
    ]
