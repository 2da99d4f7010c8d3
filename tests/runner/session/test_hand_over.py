"""An agent that does not take a message keeps nobody from ending its turn."""

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
from tests.runner.conftest import SESSION, Bench
from tests.runner.scripted import ScriptedAdapter, ScriptedLaunch

SPEC = SessionSpec(id=SESSION, machine_id="m", directory="/")


def item(name: str) -> QueueItem:
    return QueueItem(id=name, text=name, created_at=1)


class DeafLaunch(ScriptedLaunch):
    async def send(self, prompt: Prompt) -> None:
        self.prompts.put_nowait(prompt)
        await self.release.wait()


class DeafAdapter(ScriptedAdapter):
    """Its first process takes no message."""

    async def start(self, plan: LaunchPlan, sink: Sink) -> ScriptedLaunch:
        self.plans.append(plan)
        launch = (DeafLaunch if len(self.plans) == 1 else ScriptedLaunch)(plan, sink)
        self.launches.put_nowait(launch)
        return launch


@pytest.fixture
async def handing(bench: Bench) -> AsyncIterator[SessionActor]:
    """A session that is handing a message over, and has another one."""
    bench.adapter = DeafAdapter()
    actor = await bench.create()
    await actor.ask(commands.Create(spec=SPEC))
    deaf = await bench.adapter.launch()
    await actor.ask(commands.Send(item=item("first")))
    await deaf.prompt()
    yield actor
    deaf.release.set()


async def test_abort_ends_the_turn_and_not_the_one_after_it(bench: Bench, handing: SessionActor) -> None:
    second = asyncio.create_task(handing.ask(commands.Send(item=item("second"))))
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await handing.ask(commands.Abort())
        await second
    end = await bench.out.until(ev.TurnEnd)
    assert isinstance(end, ev.TurnEnd)
    assert end.reason is TurnEndReason.CANCELLED
    await bench.out.until(ev.QueueUpdate, item_id="first", state=ItemState.UNKNOWN)
    assert (await (await bench.adapter.launch()).prompt()).text == "second"


async def test_stop_ends_it_and_no_process_follows(bench: Bench, handing: SessionActor) -> None:
    async with asyncio.timeout(5):
        await handing.ask(commands.Stop())
    assert handing.state.status is SessionStatus.STOPPED
    assert not handing._timers.is_running("prewarm")
    assert len(bench.adapter.plans) == 1


async def test_who_waits_for_nothing_urgent_waits_for_the_agent(bench: Bench, handing: SessionActor) -> None:
    renaming = asyncio.create_task(handing.ask(commands.Configure(title="patience")))
    done, _ = await asyncio.wait({renaming}, timeout=3 * bench.limits.interrupt)
    assert not done
    await handing.ask(commands.Abort())
    await renaming
