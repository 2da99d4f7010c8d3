"""An agent that does not accept a message cannot prevent the end of its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from farsteer.agents.base import LaunchPlan, Prompt, Sink
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.events import SessionStatus, TurnEndReason
from farsteer.core.queue import ItemState, QueueItem
from farsteer.core.session import SessionSpec
from farsteer.runner.session.actor import SessionActor
from tests.runner.conftest import SESSION, SessionHarness
from tests.runner.scripted import ScriptedAdapter, ScriptedLaunch

SPEC = SessionSpec(id=SESSION, machine_id="m", directory="/")


def item(name: str) -> QueueItem:
    return QueueItem(id=name, text=name, created_at=1)


class UnresponsiveLaunch(ScriptedLaunch):
    async def send(self, prompt: Prompt) -> None:
        self.prompts.put_nowait(prompt)
        await self.release.wait()


class UnresponsiveAdapter(ScriptedAdapter):
    """Its first process accepts no message."""

    async def start(self, plan: LaunchPlan, sink: Sink) -> ScriptedLaunch:
        self.plans.append(plan)
        launch = (UnresponsiveLaunch if len(self.plans) == 1 else ScriptedLaunch)(plan, sink)
        self.launches.put_nowait(launch)
        return launch


@pytest.fixture
async def session(harness: SessionHarness) -> AsyncIterator[SessionActor]:
    """A session that is session over a message."""
    harness.adapter = UnresponsiveAdapter()
    actor = await harness.create()
    await actor.execute(commands.Create(spec=SPEC))
    unresponsive = await harness.adapter.launch()
    await actor.execute(commands.Send(item=item("first")))
    await unresponsive.prompt()
    yield actor
    unresponsive.release.set()


async def test_abort_ends_the_turn_and_not_the_one_after_it(
    harness: SessionHarness, session: SessionActor
) -> None:
    second = asyncio.create_task(session.execute(commands.Send(item=item("second"))))
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await session.execute(commands.Abort())
        await second
    end = await harness.out.until(ev.TurnEnd)
    assert isinstance(end, ev.TurnEnd)
    assert end.reason is TurnEndReason.CANCELLED
    await harness.out.until(ev.QueueUpdate, item_id="first", state=ItemState.UNKNOWN)
    assert (await (await harness.adapter.launch()).prompt()).text == "second"


async def test_stop_ends_it_and_no_process_follows(harness: SessionHarness, session: SessionActor) -> None:
    async with asyncio.timeout(5):
        await session.execute(commands.Stop())
    assert session.state.status is SessionStatus.STOPPED
    assert not session._timers.is_running("prewarm")
    assert len(harness.adapter.plans) == 1


async def test_who_waits_for_nothing_urgent_waits_for_the_agent(
    harness: SessionHarness, session: SessionActor
) -> None:
    renaming = asyncio.create_task(session.execute(commands.Configure(title="renamed")))
    done, _ = await asyncio.wait({renaming}, timeout=3 * harness.limits.interrupt)
    assert not done
    await session.execute(commands.Abort())
    await renaming
