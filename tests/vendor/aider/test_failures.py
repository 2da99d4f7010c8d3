"""Errors of the model, interrupts, kills and restarts of the real aider."""

from __future__ import annotations

import asyncio
import os
import signal
from itertools import pairwise

import pytest

from farsteer.agents.base import DeltaEmitted
from farsteer.agents.conformance.harness import Harness
from farsteer.core.events import AgentMessage, Notice, TurnEndReason
from farsteer.core.modes import PermissionMode
from tests.support.model import ScriptedModel
from tests.vendor.aider.conftest import edit, model_history

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


@pytest.mark.parametrize("status", [400, 401])
async def test_an_error_that_stays_fails_the_turn_and_not_the_session(harness: Harness, status: int) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn(f"[[error:{status}]]")
    assert ended.reason is TurnEndReason.FAILED
    assert f"scripted {status}" in (ended.error or "")
    assert (await agent.run_turn("[[say:well]]")).reason is TurnEndReason.END_TURN


@pytest.mark.parametrize("status", [429, 500])
async def test_an_error_that_passes_is_retried(harness: Harness, model: ScriptedModel, status: int) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn(f"[[error:{status}:3]][[say:recovered]]")
    assert ended.reason is TurnEndReason.END_TURN
    assert agent.events_of(AgentMessage)[-1].text == "recovered"


@pytest.mark.parametrize("status", [429, 500])
async def test_an_interrupt_ends_the_retries(harness: Harness, status: int) -> None:
    agent = await harness.launch()
    turn_id = await agent.send(f"[[error:{status}]]")
    await agent.wait_until(lambda: any("Retrying" in one.text for one in agent.events_of(Notice)))
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    assert (await agent.run_turn("[[say:well]]")).reason is TurnEndReason.END_TURN
    roles = [role for role, _ in await model_history(agent)]
    assert all(one != other for one, other in pairwise(roles)), "every question has an answer"


async def test_an_interrupt_closes_the_connection_and_keeps_what_was_said(
    harness: Harness, model: ScriptedModel
) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("[[say:so far ]][[hang]]")
    await agent.wait_until(lambda: any("far" in out.delta.text for out in agent.outputs_of(DeltaEmitted)))
    await agent.launch.interrupt()
    await model.log.wait(lambda seen: seen.outcome == "gone")
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    message = agent.events_of(AgentMessage)[-1]
    assert (message.text, message.partial) == ("so far ", True)
    texts = [text for _, text in await model_history(agent)]
    assert any("so far" in text for text in texts)


async def test_a_broken_connection_is_retried_and_what_was_streamed_is_kept_apart(harness: Harness) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn("[[say:lost ]][[drop:1]][[say:found]]")
    assert ended.reason is TurnEndReason.END_TURN
    assert "found" in agent.events_of(AgentMessage)[-1].text


async def test_kill_9_during_a_turn_and_the_next_process_knows_the_conversation(
    harness: Harness, model: ScriptedModel
) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.ACCEPT_EDITS))
    await agent.run_turn("[[say:remember the dolphin]]" + edit("made.txt", "", "hello"))
    turn_id = await agent.send_and_wait("[[say:and the walrus]][[hang]]")
    os.kill(agent.launch.pid, signal.SIGKILL)
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CRASHED
    await agent.wait_for_exit()
    resumed = await harness.relaunch(agent)
    texts = [text for _, text in await model_history(resumed)]
    assert any(text.startswith("remember the dolphin") for text in texts)
    assert "[[say:and the walrus]][[hang]]" in texts, "also the message that was never answered"
    assert sum("dolphin" in text for text in texts) == 2, "the message and the answer, each once"


async def test_three_sessions_at_once(harness: Harness) -> None:
    agents = await asyncio.gather(*(harness.launch() for _ in range(3)))
    words = ("apricot", "walnut", "cherry")
    ended = await asyncio.gather(
        *(
            agent.run_turn(f"[[say:{word} ]][[meet:all:3]][[say:done]]")
            for agent, word in zip(agents, words, strict=True)
        )
    )
    assert {one.reason for one in ended} == {TurnEndReason.END_TURN}
    for agent, word in zip(agents, words, strict=True):
        assert agent.events_of(AgentMessage)[-1].text == f"{word} done"
