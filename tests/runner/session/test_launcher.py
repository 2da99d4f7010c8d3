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
from tests.runner.conftest import Bench
from tests.runner.scripted import ScriptedLaunch
from tests.runner.session.test_actor import in_turn, item, ready
from tests.support.eventually import eventually


async def crash(bench: Bench, launch: ScriptedLaunch) -> None:
    await launch.exit(9, "killed")
    await bench.out.until(ev.LaunchEnd)


async def test_after_a_crash_the_next_process_is_there_before_it_is_needed_and_nobody_sees_it(
    bench: Bench,
) -> None:
    actor, launch = await ready(bench)
    await launch.say(Registered(native_id="n"))
    await crash(bench, launch)
    seen = len(bench.out.entries)
    warm = await bench.adapter.launch()
    assert warm.plan.decision.start is LaunchMode.RESUME
    await warm.say(EventEmitted(ev.Notice(text="hello from the warm one")))
    assert len(bench.out.entries) == seen
    assert actor.state.status is SessionStatus.STOPPED
    await actor.ask(commands.Send(item=item("1")))
    await warm.prompt()
    kinds = bench.out.kinds()[seen:]
    assert kinds[:5] == ["queue_update", "launch_start", "status_update", "notice", "status_update"]
    assert len(bench.adapter.plans) == 2


async def test_a_warm_process_that_keeps_dying_is_given_up_and_a_message_tries_again(bench: Bench) -> None:
    actor, launch = await ready(bench)
    bench.adapter.start_error = AgentError("broken")
    await crash(bench, launch)
    seen = len(bench.out.entries)
    await eventually(lambda: len(bench.adapter.plans) == 4)
    await actor.ask(commands.Prewarm())
    assert len(bench.adapter.plans) == 4
    assert len(bench.out.entries) == seen
    await actor.ask(commands.Send(item=item("1")))
    await bench.out.until(ev.QueueUpdate, state=ItemState.FAILED)
    assert len(bench.adapter.plans) == 5


async def test_a_warm_process_registers_nothing_before_it_is_used(bench: Bench) -> None:
    actor, launch = await ready(bench)
    await crash(bench, launch)
    warm = await bench.adapter.launch()
    await warm.say(Registered(native_id="n"))
    await actor.ask(commands.Configure(title="a step later"))
    assert not actor.state.registered
    await actor.ask(commands.Resume())
    assert actor.state.registered


async def test_a_burst_of_changes_restarts_once_and_an_equal_one_never(bench: Bench) -> None:
    actor, launch = await ready(bench)
    for effort in ReasoningEffort:
        await actor.ask(commands.Configure(effort=effort))
    await bench.out.until(ev.LaunchEnd)
    renewed = await bench.adapter.launch()
    assert renewed.plan.effort is list(ReasoningEffort)[-1]
    await actor.ask(commands.Configure(effort=list(ReasoningEffort)[-1]))
    await actor.ask(commands.Send(item=item("1")))
    await renewed.prompt()
    assert len(bench.adapter.plans) == 2
    assert launch.gone


async def test_a_turn_ends_with_the_configuration_it_began_with(bench: Bench) -> None:
    actor, launch, prompt = await in_turn(bench)
    await actor.ask(commands.Configure(effort=ReasoningEffort.HIGH))
    await actor.ask(commands.Send(item=item("2")))
    await launch.finish(prompt)
    renewed = await bench.adapter.launch()
    assert (await renewed.prompt()).text == "hello"
    assert renewed.plan.effort is ReasoningEffort.HIGH
    assert len(bench.adapter.plans) == 2


async def test_a_message_right_after_a_change_is_not_killed_by_the_old_timer(bench: Bench) -> None:
    bench.limits = msgspec.structs.replace(bench.limits, warm_delay=0.2)
    actor, _ = await ready(bench)
    await actor.ask(commands.Configure(effort=ReasoningEffort.HIGH))
    await actor.ask(commands.Send(item=item("1")))
    renewed = await bench.adapter.launch()
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
    bench: Bench, code: ErrorCode, registered: bool, then: LaunchMode
) -> None:
    actor, launch = await ready(bench)
    if registered:
        await launch.say(Registered(native_id=actor.state.id))
    await actor.ask(commands.Stop())
    session, native = actor.state.id, actor.state.native_id
    bench.adapter.start_errors = [AgentError("no", code=code)]
    await actor.ask(commands.Send(item=item("1")))
    await (await bench.adapter.launch()).prompt()
    assert [plan.decision.start for plan in bench.adapter.plans][-1] is then
    assert len(bench.adapter.plans) == 3
    assert (actor.state.id, actor.state.native_id) == (session, native)


async def test_what_cannot_be_set_right_fails_after_one_more_try(bench: Bench) -> None:
    actor, _ = await ready(bench)
    await actor.ask(commands.Stop())
    gone: list[Exception] = [AgentError("no", code=ErrorCode.CONVERSATION_IN_USE) for _ in range(9)]
    bench.adapter.start_errors = gone
    await actor.ask(commands.Send(item=item("1")))
    await bench.out.until(ev.QueueUpdate, state=ItemState.FAILED)
    assert len(gone) == 7
    assert actor.state.status is SessionStatus.FAILED


async def test_an_id_that_the_agent_chose_itself_is_recorded_and_resumed(bench: Bench) -> None:
    bench.adapter.reported_id = "another-name"
    actor, launch = await ready(bench)
    await launch.say(Registered(native_id="another-name"))
    await actor.ask(commands.Stop())
    await actor.ask(commands.Resume())
    assert bench.adapter.plans[-1].decision.native_id == "another-name"
    assert actor.state.id != "another-name"


async def test_stop_ends_a_warm_process_too(bench: Bench) -> None:
    actor, launch = await ready(bench)
    await crash(bench, launch)
    warm = await bench.adapter.launch()
    await actor.ask(commands.Stop())
    assert warm.gone
    assert len(bench.out.of(ev.LaunchEnd)) == 1


async def test_a_warm_process_that_nobody_needs_is_not_kept_for_ever(bench: Bench) -> None:
    bench.limits = msgspec.structs.replace(bench.limits, warm_keep=0.05)
    actor, launch = await ready(bench)
    await crash(bench, launch)
    warm = await bench.adapter.launch()
    await eventually(lambda: warm.gone)
    await actor.ask(commands.Send(item=item("1")))
    await (await bench.adapter.launch()).prompt()
    with pytest.raises(TimeoutError):
        await eventually(lambda: not bench.adapter.launches.empty(), 0.2)
