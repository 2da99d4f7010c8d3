"""Turns, settings and several sessions at once."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import msgspec
import pytest

from farsteer.agents.base import ApprovalAsked, DeltaEmitted, Prompt
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.core.approvals import Approval, Outcome
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    CommandsUpdate,
    DeltaKind,
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
from tests.vendor.catalog.fixtures import STEP_TIMEOUT, model_info
from tests.vendor.catalog.profile import Profile

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel."""
ECHO_SERVER = McpServer(
    name="echo", command=sys.executable, args=(str(Path(__file__).parents[1] / "droid" / "echo_server.py"),)
)


class Turns:
    async def test_thoughts_and_text_are_streamed_and_then_emitted_whole(self, harness: Harness) -> None:
        agent = await harness.launch()
        ended = await agent.run_turn("[[think:Hm.]][[say:Hello brave new world]]")
        assert ended.reason is TurnEndReason.END_TURN
        (thought,) = agent.events_of(AgentThought)
        assert thought.text.endswith("Hm.")
        (message,) = agent.events_of(AgentMessage)
        assert (message.text, message.partial) == ("Hello brave new world", False)
        deltas = [output.delta for output in agent.outputs_of(DeltaEmitted)]
        assert {delta.kind for delta in deltas} == {DeltaKind.THOUGHT, DeltaKind.MESSAGE}

    async def test_text_arrives_before_the_model_has_finished(
        self, harness: Harness, model: ScriptedModel
    ) -> None:
        agent = await harness.launch()
        turn_id = await agent.send("[[say:first part ]][[meet:here:2]][[say:second part]]")
        await agent.wait_until(
            lambda: any("first" in one.delta.text for one in agent.outputs_of(DeltaEmitted))
        )
        model.meet("here")
        assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
        assert agent.events_of(AgentMessage)[-1].text == "first part second part"

    async def test_tokens_are_counted_as_far_as_they_are_told(self, harness: Harness, cli: Profile) -> None:
        agent = await harness.launch()
        await agent.run_turn("one")
        await agent.run_turn("two")
        updates = agent.events_of(UsageUpdate)
        counted = [(one.input_tokens, one.output_tokens) for one in updates if one.input_tokens]
        assert counted == ([(100, 10)] * 2 if cli.tokens else [])

    async def test_a_tool_is_shown_with_its_command_and_its_end(self, harness: Harness, cli: Profile) -> None:
        agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
        await agent.run_turn("[[bash:sh -c 'echo wonderful > made.txt']][[say:as planned]]")
        assert (harness.directory / "made.txt").read_text() == "wonderful\n"
        (call,) = agent.events_of(ToolCall)
        assert call.tool_kind is (ToolKind.EXECUTE if cli.names_kinds else ToolKind.OTHER)
        updates = [one for one in agent.events_of(ToolCallUpdate) if one.tool_call_id == call.tool_call_id]
        titles = [call.title, *(one.title for one in updates)]
        assert any("echo wonderful" in title for title in titles if title)
        assert updates[-1].status is ToolStatus.COMPLETED
        assert agent.events_of(AgentMessage)[-1].text == "as planned"

    async def test_an_edit_names_its_file(self, harness: Harness, cli: Profile) -> None:
        agent = await harness.launch(harness.plan(mode=PermissionMode.ACCEPT_EDITS))
        path = harness.directory / "poem.txt"
        await agent.run_turn(f"[[write:{path}:is a tulip]][[say:well]]")
        assert path.read_text().strip() == "is a tulip"
        (call,) = agent.events_of(ToolCall)
        assert call.tool_kind is (ToolKind.EDIT if cli.names_kinds else ToolKind.OTHER)
        located = [*call.locations]
        for update in agent.events_of(ToolCallUpdate):
            located += update.locations
        assert {location.path for location in located} == {str(path)}
        assert agent.outputs_of(ApprovalAsked) == []

    async def test_commands_are_discovered(self, harness: Harness) -> None:
        agent = await harness.launch()
        await agent.wait_until(lambda: bool(agent.events_of(CommandsUpdate)))
        assert agent.events_of(CommandsUpdate)[-1].commands

    async def test_five_sessions_work_at_the_same_time_and_independently(self, harness: Harness) -> None:
        agents = await asyncio.gather(*(harness.launch() for _ in range(5)))
        # The model answers only after all have asked.
        await asyncio.gather(
            *(agent.run_turn(f"[[meet:here:5]][[say:I am {index}]]") for index, agent in enumerate(agents))
        )
        for index, agent in enumerate(agents):
            assert [event.text for event in agent.events_of(AgentMessage)] == [f"I am {index}"]
        assert len({agent.launch.native_id for agent in agents}) == 5

    async def test_the_model_changes_for_the_next_turn(self, harness: Harness, cli: Profile) -> None:
        first, second = cli.models
        agent = await harness.launch(msgspec.structs.replace(harness.plan(), model=second))
        assert (await model_info(agent))["model"] == cli.seen_models[1]
        await agent.launch.set_model(first)
        assert (await model_info(agent))["model"] == cli.seen_models[0]
        assert {*cli.models} <= {*harness.adapter.models}

    async def test_the_effort_changes_for_the_next_turn(self, harness: Harness, cli: Profile) -> None:
        assert harness.adapter.capabilities.live_effort == bool(cli.efforts)
        agent = await harness.launch()
        seen: list[object] = []
        for effort in cli.efforts:
            await agent.launch.set_effort(ReasoningEffort(effort))
            seen.append((await model_info(agent))["effort"])
        assert seen == [*cli.efforts]

    async def test_the_permission_mode_changes_while_it_runs(self, harness: Harness, cli: Profile) -> None:
        agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
        await agent.run_turn("[[bash:touch unasked.txt]]")
        assert agent.outputs_of(ApprovalAsked) == []
        await agent.launch.set_permission_mode(PermissionMode.READ_ONLY)
        await agent.run_turn(f"[[new]]{cli.scripts.command.format(name='denied.txt')}")
        assert agent.outputs_of(ApprovalAsked) == []
        await agent.launch.set_permission_mode(PermissionMode.DEFAULT)
        turn_id = await agent.send("[[new]][[bash:sh -c 'touch asked.txt']]")
        await agent.wait_for_approvals()
        await agent.launch.interrupt()
        await agent.wait_for_end(turn_id)
        assert [path.name for path in harness.directory.iterdir()] == ["unasked.txt"]

    async def test_an_image_reaches_the_model_or_is_refused(
        self, harness: Harness, model: ScriptedModel
    ) -> None:
        agent = await harness.launch()
        image = Attachment(name="dot.png", mime_type="image/png", data=DOT)
        prompt = Prompt(turn_id=new_id(), text="[[info]]", attachments=(image,))
        if not harness.adapter.capabilities.images:
            with pytest.raises(Exception, match=r"(?i)image"):
                await agent.launch.send(prompt)
            assert model.log.turns == []
            return
        await agent.launch.send(prompt)
        agent.turn_ids.append(prompt.turn_id)
        await agent.wait_for_end(prompt.turn_id)
        assert json.loads(agent.events_of(AgentMessage)[-1].text)["images"] == 1

    async def test_a_long_message_comes_back_whole(self, harness: Harness) -> None:
        agent = await harness.launch()
        text = " ".join(map(str, range(15_000)))
        await agent.run_turn(text)
        assert agent.events_of(AgentMessage)[-1].text == f"echo: {text}"

    async def test_an_mcp_server_of_the_session_is_used(self, harness: Harness, cli: Profile) -> None:
        plan = msgspec.structs.replace(harness.plan(), mcp_servers=(ECHO_SERVER,))
        agent = await harness.launch(plan)
        approval: Approval | None = None
        turn_id = ""
        async with asyncio.timeout(STEP_TIMEOUT):
            # A CLI connects its servers in the background. Until then there is no such tool, and the turn ends.
            while approval is None:
                turn_id = await agent.send(f'[[new]][[tool:{cli.mcp_tool}:{{"text":"quietly"}}]]')
                approval = await approval_or_end(agent, turn_id)
        assert "QUIETLY" not in agent.text()
        await agent.answer(approval, Outcome.APPROVED)
        await agent.wait_for_end(turn_id)
        assert "QUIETLY" in agent.text()


async def approval_or_end(agent: RecordedLaunch, turn_id: str) -> Approval | None:
    """Return what the agent asks, None if its turn ends without a question."""
    await agent.wait_until(lambda: bool(agent.outputs_of(ApprovalAsked)) or agent.has_ended(turn_id))
    asked = agent.outputs_of(ApprovalAsked)
    assert len(asked) <= 1
    return asked[0].approval if asked else None
