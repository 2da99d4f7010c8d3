"""Contracts of a turn, and of settings that change between turns."""

from __future__ import annotations

import time
from collections.abc import Awaitable

import pytest

from farsteer.agents.base import (
    ApprovalAsked,
    ApprovalWithdrawn,
    DeltaEmitted,
    EventEmitted,
    Output,
    Prompt,
    TurnEnded,
)
from farsteer.agents.conformance.harness import Harness
from farsteer.agents.conformance.suite import ConformanceSuite, contract, require_prompt
from farsteer.core.approvals import Outcome
from farsteer.core.errors import BadRequest, ErrorCode, NotCapable
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Notice,
    Other,
    Plan,
    ToolCall,
    ToolCallUpdate,
    TurnEndReason,
)
from farsteer.core.modes import PermissionMode, ReasoningEffort

_TURN_EVENTS = (AgentMessage, AgentThought, ToolCall, ToolCallUpdate, Plan)


def _belongs_to_turn(output: Output) -> bool:
    """Whether an output must not follow `TurnEnded`. A title, usage or mode may be emitted at any time."""
    if isinstance(output, EventEmitted):
        return isinstance(output.event, _TURN_EVENTS)
    return isinstance(output, DeltaEmitted | ApprovalAsked | ApprovalWithdrawn | TurnEnded)


class TurnContracts(ConformanceSuite):
    turn_count: int = 100
    """How many turns one process must serve."""

    @contract
    async def test_a_turn_emits_a_message_and_then_ends(self, harness: Harness) -> None:
        agent = await harness.launch()
        ended = await agent.run_turn(harness.prompts.answer)
        assert ended.reason is TurnEndReason.END_TURN
        assert agent.events_of(AgentMessage), "the answer must be emitted as a message"
        after = agent.outputs[agent.outputs.index(ended) + 1 :]
        assert not any(map(_belongs_to_turn, after)), "`TurnEnded` must be the last output of the turn"

    @contract
    async def test_deltas_belong_to_a_message_that_is_emitted_whole(self, harness: Harness) -> None:
        agent = await harness.launch()
        await agent.run_turn(harness.prompts.answer)
        messages = {
            event.message_id for event in (*agent.events_of(AgentMessage), *agent.events_of(AgentThought))
        }
        streamed = {output.delta.message_id for output in agent.outputs_of(DeltaEmitted)}
        assert streamed & messages or not streamed, "a delta must belong to a message that is emitted whole"

    @contract
    async def test_one_process_serves_many_turns(self, harness: Harness) -> None:
        agent = await harness.launch()
        pid = agent.launch.pid
        for _ in range(self.turn_count):
            assert (await agent.run_turn(harness.prompts.answer)).reason is TurnEndReason.END_TURN
        assert agent.launch.pid == pid

    @contract
    async def test_an_interrupt_ends_the_turn_and_not_the_session(self, harness: Harness) -> None:
        agent = await harness.launch()
        turn_id = await agent.send_and_wait(harness.prompts.long)
        begun = time.monotonic()
        await agent.launch.interrupt()
        assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
        assert time.monotonic() - begun < harness.step_timeout
        assert (await agent.run_turn(harness.prompts.answer)).reason is TurnEndReason.END_TURN

    @contract
    async def test_an_interrupt_between_turns_does_nothing(self, harness: Harness) -> None:
        agent = await harness.launch()
        await agent.launch.interrupt()
        assert (await agent.run_turn(harness.prompts.answer)).reason is TurnEndReason.END_TURN

    @contract
    async def test_a_message_can_be_sent_into_a_running_turn_or_is_refused(self, harness: Harness) -> None:
        agent = await harness.launch()
        turn_id = await agent.send_and_wait(harness.prompts.long)
        prompt = Prompt(turn_id=turn_id, text=harness.prompts.answer)
        if harness.adapter.capabilities.steer:
            await agent.launch.steer(prompt)
        else:
            with pytest.raises(NotCapable):
                await agent.launch.steer(prompt)
        await agent.launch.interrupt()
        await agent.wait_for_end(turn_id)

    @contract
    async def test_a_turn_ends_once_if_the_agent_reports_its_end_too_early(self, harness: Harness) -> None:
        agent = await harness.launch()
        turn_id = await agent.send(require_prompt(harness.prompts.ends_early))
        await agent.wait_for_end(turn_id)
        count = len(agent.events_of(AgentMessage))
        await agent.run_turn(harness.prompts.answer)
        assert len(agent.events_of(AgentMessage)) > count, "what the agent sends after the end must be kept"

    @contract
    async def test_a_repeated_message_is_emitted_once(self, harness: Harness) -> None:
        agent = await harness.launch()
        await agent.run_turn(require_prompt(harness.prompts.repeats))
        await agent.run_turn(harness.prompts.answer)

    @contract
    async def test_an_event_of_an_unknown_kind_is_kept(self, harness: Harness) -> None:
        agent = await harness.launch()
        await agent.run_turn(require_prompt(harness.prompts.unknown))
        assert agent.events_of(Other), "an unknown kind must be emitted as `Other`"

    @contract
    async def test_garbage_causes_a_notice_and_the_agent_goes_on(self, harness: Harness) -> None:
        agent = await harness.launch()
        await agent.run_turn(require_prompt(harness.prompts.garbage))
        assert agent.events_of(Notice), "garbage must be reported as a `Notice`"
        assert (await agent.run_turn(harness.prompts.answer)).reason is TurnEndReason.END_TURN


class SettingsContracts(ConformanceSuite):
    """Changes of settings while the agent runs are applied, or refused if the capability is not declared."""

    @contract
    async def test_the_model_changes_or_is_refused(self, harness: Harness) -> None:
        agent = await harness.launch()
        models = (await harness.adapter.detect()).models
        change = agent.launch.set_model(models[-1] if models else "some-model")
        await _check_done_or_refused(change, able=harness.adapter.capabilities.live_model)
        await agent.run_turn(harness.prompts.answer)

    @contract
    async def test_the_effort_changes_or_is_refused(self, harness: Harness) -> None:
        agent = await harness.launch()
        change = agent.launch.set_effort(ReasoningEffort.HIGH)
        await _check_done_or_refused(change, able=harness.adapter.capabilities.live_effort)
        await agent.run_turn(harness.prompts.answer)

    @contract
    async def test_the_permission_mode_changes_or_is_refused(self, harness: Harness) -> None:
        agent = await harness.launch()
        change = agent.launch.set_permission_mode(PermissionMode.YOLO)
        await _check_done_or_refused(change, able=harness.adapter.capabilities.live_mode)
        await agent.run_turn(harness.prompts.answer)

    @contract
    async def test_a_changed_permission_mode_applies_to_the_next_tool(self, harness: Harness) -> None:
        if not harness.adapter.capabilities.live_mode:
            pytest.skip("the adapter does not declare live_mode")
        agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
        await agent.launch.set_permission_mode(PermissionMode.DEFAULT)
        turn_id = await agent.send(require_prompt(harness.prompts.tool))
        (approval,) = await agent.wait_for_approvals()
        await agent.answer(approval, Outcome.DENIED)
        await agent.wait_for_end(turn_id)
        await agent.launch.set_permission_mode(PermissionMode.YOLO)
        await agent.run_turn(require_prompt(harness.prompts.tool))
        assert len(agent.outputs_of(ApprovalAsked)) == 1


async def _check_done_or_refused(change: Awaitable[None], *, able: bool) -> None:
    if able:
        try:
            await change
        except BadRequest as error:
            # The present model may have no such effort. Whoever asks is told, and nothing changes.
            if error.code not in (ErrorCode.MODEL_UNKNOWN, ErrorCode.EFFORT_UNKNOWN):
                raise
    else:
        with pytest.raises(NotCapable):
            await change
