"""A session of a runner that has lost its lease."""

from __future__ import annotations

import asyncio

from farsteer.core import commands
from tests.runner.harness import SessionHarness, item, start_turn
from tests.support.eventually import eventually


async def test_a_runner_without_its_lease_starts_nothing(harness: SessionHarness) -> None:
    actor, launch, prompt = await start_turn(harness)
    await actor.execute(commands.Send(item=item("2")))
    await harness.lease.refuse("another runner has it")
    await launch.finish(prompt)
    await eventually(lambda: actor.state.turn_id is None)
    await launch.exit(1, "it died")
    await eventually(lambda: actor._launcher.current is None)
    # Longer than the prewarm delay.
    await asyncio.sleep(5 * harness.limits.prewarm_delay)
    assert actor._launcher.current is None
    assert [one.id for one in actor.state.queue] == ["2"]
    await harness.lease.grant(2)
    actor.resume_work()
    await (await harness.adapter.launch()).prompt()
    assert actor.state.turn_id is not None
