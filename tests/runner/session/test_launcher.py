"""A session's process: started in advance unseen, renewed once for many changes, set right once."""

from __future__ import annotations

import msgspec
import pytest

from farsteer.agents.base import EventEmitted, Registered
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import SessionStatus
from farsteer.core.launch import LaunchMode
from farsteer.core.modes import ReasoningEffort
from farsteer.core.queue import ItemState
from tests.runner.conftest import SessionHarness
from tests.runner.scripted import ScriptedLaunch
from tests.runner.session.test_actor import in_turn, item, ready
from tests.support.eventually import eventually


async def crash(harness: SessionHarness, launch: ScriptedLaunch) -> None:
    await launch.exit(9, "killed")
    await harness.out.until(ev.LaunchEnd)


async def test_after_a_crash_the_next_process_is_there_before_it_is_needed_and_nobody_sees_it(
    harness: SessionHarness,
) -> None:
    actor, launch = await ready(harness)
    await launch.emit(Registered(native_id="n"))
    await crash(harness, launch)
    seen = len(harness.out.entries)
    prewarmed = await harness.adapter.launch()
    assert prewarmed.plan.decision.start is LaunchMode.RESUME
    await prewarmed.emit(EventEmitted(ev.Notice(text="hello from the prewarmed one")))
    assert len(harness.out.entries) == seen
    assert actor.state.status is SessionStatus.STOPPED
    await actor.execute(commands.Send(item=item("1")))
    await prewarmed.prompt()
    kinds = harness.out.kinds()[seen:]
    assert kinds[:5] == ["queue_update", "launch_start", "status_update", "notice", "status_update"]
    assert len(harness.adapter.plans) == 2


async def test_prewarming_is_given_up_after_repeated_failures_and_a_message_tries_again(
    harness: SessionHarness,
) -> None:
    actor, launch = await ready(harness)
    harness.adapter.start_error = AgentError("broken")
    await crash(harness, launch)
    seen = len(harness.out.entries)
    await eventually(lambda: len(harness.adapter.plans) == 4)
    await actor.execute(commands.Prewarm())
    assert len(harness.adapter.plans) == 4
    assert len(harness.out.entries) == seen
    await actor.execute(commands.Send(item=item("1")))
    await harness.out.until(ev.QueueUpdate, state=ItemState.FAILED)
    assert len(harness.adapter.plans) == 5


async def test_a_prewarmed_process_registers_nothing_before_it_is_used(harness: SessionHarness) -> None:
    actor, launch = await ready(harness)
    await crash(harness, launch)
    prewarmed = await harness.adapter.launch()
    await prewarmed.emit(Registered(native_id="n"))
    await actor.execute(commands.Configure(title="a step later"))
    assert not actor.state.registered
    await actor.execute(commands.Resume())
    assert actor.state.registered


async def test_a_burst_of_changes_restarts_once_and_an_equal_one_never(harness: SessionHarness) -> None:
    actor, launch = await ready(harness)
    for effort in ReasoningEffort:
        await actor.execute(commands.Configure(effort=effort))
    await harness.out.until(ev.LaunchEnd)
    renewed = await harness.adapter.launch()
    assert renewed.plan.effort is list(ReasoningEffort)[-1]
    await actor.execute(commands.Configure(effort=list(ReasoningEffort)[-1]))
    await actor.execute(commands.Send(item=item("1")))
    await renewed.prompt()
    assert len(harness.adapter.plans) == 2
    assert launch.gone


async def test_a_turn_ends_with_the_configuration_it_began_with(harness: SessionHarness) -> None:
    actor, launch, prompt = await in_turn(harness)
    await actor.execute(commands.Configure(effort=ReasoningEffort.HIGH))
    await actor.execute(commands.Send(item=item("2")))
    await launch.finish(prompt)
    renewed = await harness.adapter.launch()
    assert (await renewed.prompt()).text == "hello"
    assert renewed.plan.effort is ReasoningEffort.HIGH
    assert len(harness.adapter.plans) == 2


async def test_a_message_right_after_a_change_is_not_killed_by_the_old_timer(harness: SessionHarness) -> None:
    harness.limits = msgspec.structs.replace(harness.limits, prewarm_delay=0.2)
    actor, _ = await ready(harness)
    await actor.execute(commands.Configure(effort=ReasoningEffort.HIGH))
    await actor.execute(commands.Send(item=item("1")))
    renewed = await harness.adapter.launch()
    await renewed.prompt()
    with pytest.raises(TimeoutError):
        await eventually(lambda: renewed.gone, 0.4)


@pytest.mark.parametrize(
    ("code", "registered", "then"),
    [
        (ErrorCode.CONVERSATION_IN_USE, False, LaunchMode.RESUME),
        (ErrorCode.CONVERSATION_MISSING, True, LaunchMode.CREATE),
    ],
)
async def test_an_agent_that_knows_better_sets_our_row_right_once(
    harness: SessionHarness, code: ErrorCode, registered: bool, then: LaunchMode
) -> None:
    actor, launch = await ready(harness)
    if registered:
        await launch.emit(Registered(native_id=actor.state.id))
    await actor.execute(commands.Stop())
    session, native = actor.state.id, actor.state.native_id
    harness.adapter.start_errors = [AgentError("no", code=code)]
    await actor.execute(commands.Send(item=item("1")))
    await (await harness.adapter.launch()).prompt()
    assert [plan.decision.start for plan in harness.adapter.plans][-1] is then
    assert len(harness.adapter.plans) == 3
    assert (actor.state.id, actor.state.native_id) == (session, native)


async def test_what_cannot_be_set_right_fails_after_one_more_try(harness: SessionHarness) -> None:
    actor, _ = await ready(harness)
    await actor.execute(commands.Stop())
    gone: list[Exception] = [AgentError("no", code=ErrorCode.CONVERSATION_IN_USE) for _ in range(9)]
    harness.adapter.start_errors = gone
    await actor.execute(commands.Send(item=item("1")))
    await harness.out.until(ev.QueueUpdate, state=ItemState.FAILED)
    assert len(gone) == 7
    assert actor.state.status is SessionStatus.FAILED


async def test_an_id_that_the_agent_chose_itself_is_recorded_and_resumed(harness: SessionHarness) -> None:
    harness.adapter.reported_id = "another-name"
    actor, launch = await ready(harness)
    await launch.emit(Registered(native_id="another-name"))
    await actor.execute(commands.Stop())
    await actor.execute(commands.Resume())
    assert harness.adapter.plans[-1].decision.native_id == "another-name"
    assert actor.state.id != "another-name"


async def test_stop_ends_a_prewarmed_process_too(harness: SessionHarness) -> None:
    actor, launch = await ready(harness)
    await crash(harness, launch)
    prewarmed = await harness.adapter.launch()
    await actor.execute(commands.Stop())
    assert prewarmed.gone
    assert len(harness.out.of(ev.LaunchEnd)) == 1


async def test_a_prewarmed_process_that_nobody_needs_is_not_kept_for_ever(harness: SessionHarness) -> None:
    harness.limits = msgspec.structs.replace(harness.limits, prewarm_keep=0.05)
    actor, launch = await ready(harness)
    await crash(harness, launch)
    prewarmed = await harness.adapter.launch()
    await eventually(lambda: prewarmed.gone)
    await actor.execute(commands.Send(item=item("1")))
    await (await harness.adapter.launch()).prompt()
    with pytest.raises(TimeoutError):
        await eventually(lambda: not harness.adapter.launches.empty(), 0.2)
