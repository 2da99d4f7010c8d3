"""A session goes on with another agent that shares its conversations."""

from __future__ import annotations

import pytest

from farsteer.agents.base import Adapter, Registered, Takeover
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.errors import Conflict, NotCapable
from farsteer.core.launch import LaunchMode
from tests.runner.harness import SESSION, SessionHarness, item, start_session, start_turn
from tests.runner.scripted import ScriptedAdapter


class OtherAdapter(ScriptedAdapter):
    name = "other"

    def __init__(self, answer: Takeover) -> None:
        super().__init__()
        self.answer = answer

    def takeover(self, other: Adapter) -> Takeover:
        assert other.name == "scripted"
        return self.answer


def add_other(harness: SessionHarness, answer: Takeover) -> OtherAdapter:
    other = OtherAdapter(answer)
    harness.others = {"other": other, "scripted": harness.adapter}
    return other


async def test_an_agent_that_shares_conversations_resumes_the_same_one(harness: SessionHarness) -> None:
    other = add_other(harness, Takeover.RESUMED)
    actor, first, prompt = await start_turn(harness)
    await first.emit(Registered(native_id=SESSION))
    await first.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    await actor.execute(commands.SwitchAgent(agent="other", model="big"))
    assert (actor.state.agent, actor.state.model) == ("other", "big")
    await actor.execute(commands.Send(item=item("2", "and now")))
    launch = await other.launches.get()
    assert (await launch.prompt()).text == "and now"
    assert launch.plan.decision.start is LaunchMode.RESUME
    assert (launch.plan.decision.native_id, launch.plan.model) == (SESSION, "big")
    assert len(harness.adapter.plans) == 1


async def test_an_agent_that_cannot_use_the_conversation_starts_anew_and_the_log_says_so(
    harness: SessionHarness,
) -> None:
    other = add_other(harness, Takeover.ANEW)
    actor, first, prompt = await start_turn(harness)
    await first.emit(Registered(native_id=SESSION))
    await first.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    await actor.execute(commands.SwitchAgent(agent="other"))
    switched = await harness.out.until(ev.AgentSwitched)
    assert switched.anew
    await actor.execute(commands.Send(item=item("2")))
    launch = await other.launches.get()
    assert launch.plan.decision.start is LaunchMode.CREATE
    assert launch.plan.decision.native_id == switched.native_id != SESSION
    assert actor.state.id == SESSION
    assert SESSION in actor.state.left_behind, "it is deleted with the session"


async def test_an_agent_with_other_conversations_is_refused_and_nothing_changes(
    harness: SessionHarness,
) -> None:
    add_other(harness, Takeover.REFUSED)
    actor, _launch = await start_session(harness)
    before = actor.state
    with pytest.raises(NotCapable):
        await actor.execute(commands.SwitchAgent(agent="other"))
    assert actor.state == before


async def test_the_agent_is_not_switched_during_a_turn(harness: SessionHarness) -> None:
    add_other(harness, Takeover.RESUMED)
    actor, _launch, _prompt = await start_turn(harness)
    with pytest.raises(Conflict):
        await actor.execute(commands.SwitchAgent(agent="other"))
    assert actor.state.agent == "scripted"


async def test_the_same_agent_again_changes_nothing(harness: SessionHarness) -> None:
    add_other(harness, Takeover.RESUMED)
    actor, _launch = await start_session(harness)
    before = actor.state
    await actor.execute(commands.SwitchAgent(agent="scripted"))
    assert actor.state == before


async def test_a_restarted_runner_goes_on_with_the_agent_that_was_switched_to(
    harness: SessionHarness,
) -> None:
    other = add_other(harness, Takeover.RESUMED)
    actor, _launch = await start_session(harness)
    await actor.execute(commands.SwitchAgent(agent="other"))
    await actor.close("a restart")
    (stored,) = await harness.journal.load()
    assert stored.state.agent == other.name
