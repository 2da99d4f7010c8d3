"""The process of a session: prewarming, restarts after a change of configuration, and recovery."""

from __future__ import annotations

import msgspec
import pytest

from farsteer.agents.base import EventEmitted, Registered
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.errors import AgentError, BadRequest, ErrorCode, QuotaExceeded
from farsteer.core.events import SessionStatus
from farsteer.core.launch import LaunchMode
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import ItemState
from farsteer.runner.agent_places import AgentPlaces
from tests.runner.harness import SPEC, SessionHarness, item, start_session, start_turn
from tests.runner.scripted import ScriptedLaunch
from tests.support.eventually import eventually


async def crash(harness: SessionHarness, launch: ScriptedLaunch) -> None:
    await launch.exit(9, "killed")
    await harness.out.until(ev.LaunchEnd)


async def test_after_a_crash_a_process_is_prewarmed_and_clients_do_not_see_it(
    harness: SessionHarness,
) -> None:
    actor, launch = await start_session(harness)
    await launch.emit(Registered(native_id="n"))
    await crash(harness, launch)
    seen = len(harness.out.entries)
    prewarmed = await harness.adapter.launch()
    assert prewarmed.plan.decision.start is LaunchMode.RESUME
    await prewarmed.emit(EventEmitted(ev.Notice(text="hello from the prewarmed process")))
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
    actor, launch = await start_session(harness)
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
    actor, launch = await start_session(harness)
    await crash(harness, launch)
    prewarmed = await harness.adapter.launch()
    await prewarmed.emit(Registered(native_id="n"))
    await actor.execute(commands.Configure(title="a step later"))
    assert not actor.state.registered
    await actor.execute(commands.Resume())
    assert actor.state.registered


async def test_a_burst_of_changes_restarts_once_and_an_equal_one_never(harness: SessionHarness) -> None:
    # Longer than four commits take on a busy machine: the burst must be over before the timer fires.
    harness.limits = msgspec.structs.replace(harness.limits, prewarm_delay=0.5)
    actor, launch = await start_session(harness)
    for effort in ReasoningEffort:
        await actor.execute(commands.Configure(effort=effort))
    await harness.out.until(ev.LaunchEnd)
    restarted = await harness.adapter.launch()
    assert restarted.plan.effort is list(ReasoningEffort)[-1]
    await actor.execute(commands.Configure(effort=list(ReasoningEffort)[-1]))
    await actor.execute(commands.Send(item=item("1")))
    await restarted.prompt()
    assert len(harness.adapter.plans) == 2
    assert launch.gone


async def test_a_turn_ends_with_the_configuration_it_began_with(harness: SessionHarness) -> None:
    actor, launch, prompt = await start_turn(harness)
    await actor.execute(commands.Configure(effort=ReasoningEffort.HIGH))
    await actor.execute(commands.Send(item=item("2")))
    await launch.finish(prompt)
    restarted = await harness.adapter.launch()
    assert (await restarted.prompt()).text == "hello"
    assert restarted.plan.effort is ReasoningEffort.HIGH
    assert len(harness.adapter.plans) == 2


async def test_a_message_right_after_a_change_is_not_killed_by_the_old_timer(harness: SessionHarness) -> None:
    harness.limits = msgspec.structs.replace(harness.limits, prewarm_delay=0.2)
    actor, _ = await start_session(harness)
    await actor.execute(commands.Configure(effort=ReasoningEffort.HIGH))
    await actor.execute(commands.Send(item=item("1")))
    restarted = await harness.adapter.launch()
    await restarted.prompt()
    with pytest.raises(TimeoutError):
        await eventually(lambda: restarted.gone, 0.4)


@pytest.mark.parametrize(
    ("code", "registered", "then"),
    [
        (ErrorCode.CONVERSATION_IN_USE, False, LaunchMode.RESUME),
        (ErrorCode.CONVERSATION_MISSING, True, LaunchMode.CREATE),
    ],
)
async def test_the_launch_row_is_corrected_when_the_agent_contradicts_it(
    harness: SessionHarness, code: ErrorCode, registered: bool, then: LaunchMode
) -> None:
    actor, launch = await start_session(harness)
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


async def test_a_start_that_cannot_be_recovered_fails_after_one_retry(harness: SessionHarness) -> None:
    actor, _ = await start_session(harness)
    await actor.execute(commands.Stop())
    gone: list[Exception] = [AgentError("no", code=ErrorCode.CONVERSATION_IN_USE) for _ in range(9)]
    harness.adapter.start_errors = gone
    await actor.execute(commands.Send(item=item("1")))
    await harness.out.until(ev.QueueUpdate, state=ItemState.FAILED)
    assert len(gone) == 7
    assert actor.state.status is SessionStatus.FAILED


async def test_an_id_that_the_agent_chose_is_recorded_and_resumed(harness: SessionHarness) -> None:
    harness.adapter.reported_id = "another-name"
    actor, launch = await start_session(harness)
    await launch.emit(Registered(native_id="another-name"))
    await actor.execute(commands.Stop())
    await actor.execute(commands.Resume())
    assert harness.adapter.plans[-1].decision.native_id == "another-name"
    assert actor.state.id != "another-name"


async def test_stop_ends_a_prewarmed_process_too(harness: SessionHarness) -> None:
    actor, launch = await start_session(harness)
    await crash(harness, launch)
    prewarmed = await harness.adapter.launch()
    await actor.execute(commands.Stop())
    assert prewarmed.gone
    assert len(harness.out.of(ev.LaunchEnd)) == 1


async def test_a_prewarmed_process_that_is_not_needed_is_stopped(harness: SessionHarness) -> None:
    harness.limits = msgspec.structs.replace(harness.limits, prewarm_keep=0.05)
    actor, launch = await start_session(harness)
    await crash(harness, launch)
    prewarmed = await harness.adapter.launch()
    await eventually(lambda: prewarmed.gone)
    await actor.execute(commands.Send(item=item("1")))
    await (await harness.adapter.launch()).prompt()
    with pytest.raises(TimeoutError):
        await eventually(lambda: not harness.adapter.launches.empty(), 0.2)


async def test_a_launch_on_a_full_machine_fails_visibly_and_the_next_one_may_succeed(
    harness: SessionHarness,
) -> None:
    harness.places = AgentPlaces(1)
    harness.places.take("another session")
    actor = await harness.create()
    with pytest.raises(QuotaExceeded) as refused:
        await actor.execute(commands.Create(spec=SPEC))
    assert "live_agents" in refused.value.message
    assert actor.state.status is SessionStatus.FAILED
    assert harness.adapter.plans == []
    await actor.execute(commands.Send(item=item("1")))
    await harness.out.until(ev.QueueUpdate, state=ItemState.FAILED)
    harness.places.release("another session")
    await actor.execute(commands.Send(item=item("2")))
    launch = await harness.adapter.launch()
    await launch.prompt()
    with pytest.raises(QuotaExceeded):
        harness.places.take("another session")
    await actor.execute(commands.Stop())
    harness.places.take("another session")


async def test_prewarming_does_not_take_the_last_place(harness: SessionHarness) -> None:
    harness.places = AgentPlaces(2)
    actor, _ = await start_session(harness)
    await actor.execute(commands.Stop())
    harness.places.take("another session")
    await actor.execute(commands.Prewarm())
    assert len(harness.adapter.plans) == 1
    harness.places.release("another session")
    await actor.execute(commands.Prewarm())
    await harness.adapter.launch()
    assert len(harness.adapter.plans) == 2


async def test_a_model_that_a_stopped_agent_does_not_have_is_refused_at_once(harness: SessionHarness) -> None:
    actor, _ = await start_session(harness)
    await actor.execute(commands.Stop())
    harness.adapter.set_models(("small", "large"), {"large": ("low",)})
    # One that also takes what it does not list.
    await actor.execute(commands.Configure(model="unlisted"))
    assert actor.state.model == "unlisted"

    harness.adapter.capabilities = msgspec.structs.replace(harness.adapter.capabilities, closed_models=True)
    with pytest.raises(BadRequest) as model:
        await actor.execute(commands.Configure(model="huge", permission_mode=PermissionMode.YOLO))
    assert (model.value.code, model.value.details["models"]) == (ErrorCode.MODEL_UNKNOWN, ["small", "large"])
    await actor.execute(commands.Configure(model="large"))
    with pytest.raises(BadRequest) as effort:
        await actor.execute(commands.Configure(effort=ReasoningEffort.HIGH))
    assert (effort.value.code, effort.value.details["efforts"]) == (ErrorCode.EFFORT_UNKNOWN, ["low"])
    assert (actor.state.model, actor.state.effort) == ("large", None)
    assert actor.state.permission_mode is PermissionMode.DEFAULT
