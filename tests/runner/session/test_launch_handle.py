"""A launch always reports its end to the mailbox, whatever the adapter does."""

from __future__ import annotations

import asyncio
from pathlib import Path

from farsteer.agents.base import LaunchPlan
from farsteer.core.launch import LaunchDecision, LaunchMode
from farsteer.runner.session.context import ActorContext, SessionAgent, TimeLimits
from farsteer.runner.session.launch_handle import LaunchHandle
from farsteer.runner.session.mailbox import LaunchFailed, LaunchStopped, Mailbox
from tests.runner.harness import SESSION
from tests.runner.scripted import ScriptedAdapter, ScriptedLaunch


def plan(directory: Path) -> LaunchPlan:
    decision = LaunchDecision(start=LaunchMode.CREATE, native_id=SESSION)
    return LaunchPlan(session_id=SESSION, directory=str(directory), generation=1, decision=decision)


def context(adapter: ScriptedAdapter, **limits: float) -> ActorContext:
    return ActorContext(SessionAgent(adapter, ""), TimeLimits(**limits))


async def test_a_start_that_is_cancelled_before_its_first_step_is_reported(tmp_path: Path) -> None:
    adapter, mailbox = ScriptedAdapter(), Mailbox()
    handle = LaunchHandle(context(adapter), plan(tmp_path), mailbox)
    handle.start()
    handle.stop("the session was deleted")
    async with asyncio.timeout(5):
        mail = await mailbox.receive()
    assert isinstance(mail, LaunchFailed)
    assert adapter.plans == []


async def test_an_agent_that_never_stops_is_waited_for_in_bounded_time(tmp_path: Path) -> None:
    class Endless(ScriptedLaunch):
        async def stop(self, grace: float = 3.0) -> None:
            await asyncio.Event().wait()

    mailbox = Mailbox()
    handle = LaunchHandle(context(ScriptedAdapter(), stop=0.05), plan(tmp_path), mailbox)
    handle.set_launch(Endless(handle.plan, mailbox.sink(1)))
    handle.stop("stopped")
    async with asyncio.timeout(5):
        assert isinstance(await mailbox.receive(), LaunchStopped)
