"""Contracts of a turn."""

from __future__ import annotations

import time

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
from farsteer.agents.conformance.contract import Conformance, contract, given
from farsteer.agents.conformance.stage import Stage
from farsteer.core.errors import NotCapable
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

_WORK = (AgentMessage, AgentThought, ToolCall, ToolCallUpdate, Plan)


def _of_the_turn(output: Output) -> bool:
    """What belongs to a turn and not to the session: a title, usage or mode may be told at any time."""
    if isinstance(output, EventEmitted):
        return isinstance(output.event, _WORK)
    return isinstance(output, DeltaEmitted | ApprovalAsked | ApprovalWithdrawn | TurnEnded)


class TurnContracts(Conformance):
    turns: int = 100
    """How many turns one process must stand."""

    @contract
    async def test_a_turn_says_something_and_then_ends(self, stage: Stage) -> None:
        scene = await stage.launch()
        ended = await scene.turn(stage.script.answer)
        assert ended.reason is TurnEndReason.END_TURN
        assert scene.events(AgentMessage), "the answer is a message of the log"
        after = scene.outputs[scene.outputs.index(ended) + 1 :]
        assert not any(map(_of_the_turn, after)), "the end comes after everything of the turn"

    @contract
    async def test_what_is_streamed_is_what_is_said(self, stage: Stage) -> None:
        scene = await stage.launch()
        await scene.turn(stage.script.answer)
        messages = {event.message_id for event in (*scene.events(AgentMessage), *scene.events(AgentThought))}
        streamed = {fragment.delta.message_id for fragment in scene.of(DeltaEmitted)}
        assert streamed & messages or not streamed, "a fragment belongs to a message that is said whole"

    @contract
    async def test_one_process_serves_many_turns(self, stage: Stage) -> None:
        scene = await stage.launch()
        pid = scene.launch.pid
        for _ in range(self.turns):
            assert (await scene.turn(stage.script.answer)).reason is TurnEndReason.END_TURN
        assert scene.launch.pid == pid

    @contract
    async def test_an_interrupt_ends_the_turn_and_not_the_session(self, stage: Stage) -> None:
        scene = await stage.launch()
        turn_id = await scene.working(stage.script.long)
        begun = time.monotonic()
        await scene.launch.interrupt()
        assert (await scene.end(turn_id)).reason is TurnEndReason.CANCELLED
        assert time.monotonic() - begun < stage.patience
        assert (await scene.turn(stage.script.answer)).reason is TurnEndReason.END_TURN

    @contract
    async def test_an_interrupt_between_turns_does_nothing(self, stage: Stage) -> None:
        scene = await stage.launch()
        await scene.launch.interrupt()
        assert (await scene.turn(stage.script.answer)).reason is TurnEndReason.END_TURN

    @contract
    async def test_a_message_into_a_running_turn_is_heard_or_refused(self, stage: Stage) -> None:
        scene = await stage.launch()
        turn_id = await scene.working(stage.script.long)
        prompt = Prompt(turn_id=turn_id, text=stage.script.answer)
        if stage.adapter.capabilities.steer:
            await scene.launch.steer(prompt)
        else:
            with pytest.raises(NotCapable):
                await scene.launch.steer(prompt)
        await scene.launch.interrupt()
        await scene.end(turn_id)

    @contract
    async def test_an_end_that_comes_early_is_still_the_only_one(self, stage: Stage) -> None:
        scene = await stage.launch()
        turn_id = await scene.begin(given(stage.script.ends_early))
        await scene.end(turn_id)
        said = len(scene.events(AgentMessage))
        await scene.turn(stage.script.answer)
        assert len(scene.events(AgentMessage)) > said, "what was said after the end is kept"

    @contract
    async def test_what_an_agent_repeats_is_said_once(self, stage: Stage) -> None:
        scene = await stage.launch()
        await scene.turn(given(stage.script.repeats))
        await scene.turn(stage.script.answer)

    @contract
    async def test_what_the_adapter_has_no_word_for_is_kept(self, stage: Stage) -> None:
        scene = await stage.launch()
        await scene.turn(given(stage.script.unknown))
        assert scene.events(Other), "an unknown kind travels as `Other`"

    @contract
    async def test_garbage_is_noted_and_not_fatal(self, stage: Stage) -> None:
        scene = await stage.launch()
        await scene.turn(given(stage.script.garbage))
        assert scene.events(Notice), "a person should know that the agent wrote garbage"
        assert (await scene.turn(stage.script.answer)).reason is TurnEndReason.END_TURN
