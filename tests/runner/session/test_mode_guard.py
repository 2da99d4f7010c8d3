"""An agent that loosens its own permission mode is put back, and the log tells of it."""

from __future__ import annotations

import pytest

from farsteer.agents.base import ApprovalAsked, EventEmitted
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.approvals import Answer, Approval, ApprovalKind, Option, OptionKind, Outcome
from farsteer.core.capabilities import Capabilities
from farsteer.core.errors import AgentError, BadRequest
from farsteer.core.events import SessionStatus, TurnEndReason
from farsteer.core.modes import PermissionMode
from tests.runner.harness import SessionHarness, item, start_session, start_turn
from tests.runner.scripted import ScriptedLaunch
from tests.support.eventually import eventually

RAISED = PermissionMode.SAFE_YOLO


async def report(launch: ScriptedLaunch, mode: PermissionMode, **fields: object) -> None:
    await launch.emit(EventEmitted(ev.ModeUpdate(permission_mode=mode, **fields)))  # pyright: ignore[reportArgumentType]


def restored(harness: SessionHarness) -> list[ev.Notice]:
    return [notice for notice in harness.out.of(ev.Notice) if notice.code == "mode_restored"]


async def test_a_mode_that_the_agent_loosens_by_itself_is_put_back_and_told_of(
    harness: SessionHarness,
) -> None:
    actor, launch, prompt = await start_turn(harness)
    await report(launch, PermissionMode.YOLO, model="big")
    await eventually(lambda: launch.modes == [PermissionMode.DEFAULT])
    # The log is published after its commit, and the agent is called before that.
    await eventually(lambda: len(restored(harness)) == 1)
    (notice,) = restored(harness)
    assert notice.meta == {"mode": "yolo", "restored": "default"}
    assert notice.level == "warning"
    assert actor.state.permission_mode is PermissionMode.DEFAULT
    assert actor.state.model == "big", "the rest of the report counts"
    await launch.finish(prompt)
    await eventually(lambda: actor.state.status is SessionStatus.IDLE)


async def test_an_agent_may_become_stricter_and_undo_that(harness: SessionHarness) -> None:
    actor, launch = await start_session(harness)
    await actor.execute(commands.Configure(permission_mode=RAISED))
    for mode in (PermissionMode.PLAN, RAISED):
        await report(launch, mode)
        await eventually(lambda mode=mode: actor.state.permission_mode is mode)
    assert launch.modes == [RAISED]
    assert restored(harness) == []


async def test_a_stricter_mode_that_a_person_confirms_is_not_undone(harness: SessionHarness) -> None:
    actor, launch = await start_session(harness)
    await actor.execute(commands.Configure(permission_mode=RAISED))
    await report(launch, PermissionMode.PLAN)
    await eventually(lambda: actor.state.permission_mode is PermissionMode.PLAN)
    await actor.execute(commands.Configure(permission_mode=PermissionMode.PLAN))
    await report(launch, RAISED)
    await eventually(lambda: launch.modes[-1] is PermissionMode.PLAN)
    await eventually(lambda: len(restored(harness)) == 1)


async def test_a_mode_that_a_person_sets_stays(harness: SessionHarness) -> None:
    actor, launch = await start_session(harness)
    await actor.execute(commands.Configure(permission_mode=PermissionMode.YOLO))
    await report(launch, PermissionMode.YOLO)
    await report(launch, PermissionMode.BYPASS)
    await eventually(lambda: actor.state.permission_mode is PermissionMode.BYPASS)
    assert launch.modes == [PermissionMode.YOLO]
    assert restored(harness) == []


def always(mode: PermissionMode | None) -> Approval:
    return Approval(
        id="a", kind=ApprovalKind.PERMISSION, title="edit", created_at=1,
        options=(
            Option(id="once", name="Once", kind=OptionKind.ALLOW_ONCE),
            Option(id="always", name="Always", kind=OptionKind.ALLOW_ALWAYS, mode=mode),
            Option(id="no", name="No", kind=OptionKind.REJECT_ONCE),
        ),
    )  # fmt: skip


async def test_a_mode_that_an_answer_grants_stays_and_one_above_it_does_not(harness: SessionHarness) -> None:
    actor, launch, prompt = await start_turn(harness)
    await launch.emit(ApprovalAsked(approval=always(PermissionMode.ACCEPT_EDITS)))
    await eventually(lambda: bool(actor.state.approvals))
    answer = Answer(outcome=Outcome.APPROVED_FOR_SESSION, option_id="always")
    await actor.execute(commands.AnswerApproval(approval_id="a", answer=answer))
    await report(launch, PermissionMode.ACCEPT_EDITS)
    await eventually(lambda: actor.state.permission_mode is PermissionMode.ACCEPT_EDITS)
    assert restored(harness) == []
    await report(launch, PermissionMode.YOLO)
    await eventually(lambda: launch.modes == [PermissionMode.ACCEPT_EDITS])
    await launch.finish(prompt)
    await actor.execute(commands.Send(item=item("2")))
    second = await launch.prompt()
    await report(launch, PermissionMode.ACCEPT_EDITS)
    await launch.finish(second)
    await eventually(lambda: actor.state.turn_id is None)
    await eventually(lambda: len(restored(harness)) == 1)


@pytest.mark.parametrize(
    ("option", "outcome"),
    [("once", Outcome.APPROVED), ("no", Outcome.DENIED)],
)
async def test_an_answer_that_grants_no_mode_opens_nothing(
    option: str, outcome: Outcome, harness: SessionHarness
) -> None:
    actor, launch, _ = await start_turn(harness)
    await launch.emit(ApprovalAsked(approval=always(PermissionMode.YOLO)))
    await eventually(lambda: bool(actor.state.approvals))
    answer = Answer(outcome=outcome, option_id=option)
    await actor.execute(commands.AnswerApproval(approval_id="a", answer=answer))
    await report(launch, PermissionMode.YOLO)
    await eventually(lambda: launch.modes == [PermissionMode.DEFAULT])


async def test_an_approved_plan_lets_the_agent_leave_plan_mode_and_no_further(
    harness: SessionHarness,
) -> None:
    actor, launch, _ = await start_turn(harness)
    await actor.execute(commands.Configure(permission_mode=PermissionMode.PLAN))
    await report(launch, PermissionMode.DEFAULT)
    await eventually(lambda: launch.modes == [PermissionMode.PLAN, PermissionMode.PLAN])
    plan = Approval(id="p", kind=ApprovalKind.PLAN, title="plan", created_at=1, plan="do it")
    await launch.emit(ApprovalAsked(approval=plan))
    await eventually(lambda: bool(actor.state.approvals))
    yes = Answer(outcome=Outcome.APPROVED)
    await actor.execute(commands.AnswerApproval(approval_id="p", answer=yes))
    await report(launch, PermissionMode.YOLO)
    await eventually(lambda: launch.modes[-1] is PermissionMode.DEFAULT)
    assert actor.state.permission_mode is PermissionMode.DEFAULT
    await report(launch, PermissionMode.DEFAULT)


async def test_a_grant_ends_with_the_turn(harness: SessionHarness) -> None:
    actor, launch, prompt = await start_turn(harness)
    await launch.emit(ApprovalAsked(approval=always(PermissionMode.YOLO)))
    await eventually(lambda: bool(actor.state.approvals))
    answer = Answer(outcome=Outcome.APPROVED_FOR_SESSION, option_id="always")
    await actor.execute(commands.AnswerApproval(approval_id="a", answer=answer))
    await launch.finish(prompt)
    await actor.execute(commands.Send(item=item("2")))
    await launch.prompt()
    await report(launch, PermissionMode.YOLO)
    await eventually(lambda: launch.modes == [PermissionMode.DEFAULT])


async def test_an_agent_that_insists_is_stopped(harness: SessionHarness) -> None:
    actor, launch, _ = await start_turn(harness)
    await actor.execute(commands.Send(item=item("2")))
    for _ in range(4):
        before = len(launch.modes)
        await report(launch, PermissionMode.YOLO)
        await eventually(lambda before=before: len(launch.modes) > before or launch.gone)
    end = await harness.out.until(ev.TurnEnd)
    assert end.reason is TurnEndReason.FAILED
    assert "does not stay in the permission mode" in (end.error or "")
    assert len(launch.modes) == 3
    assert actor.state.queue == ()
    assert len(harness.adapter.plans) == 1


async def test_an_agent_that_cannot_be_put_back_while_it_runs_is_restarted(harness: SessionHarness) -> None:
    harness.adapter.capabilities = Capabilities(caller_chosen_id=True, resume=True, approvals=True)
    _, launch, _ = await start_turn(harness)
    await report(launch, PermissionMode.YOLO)
    end = await harness.out.until(ev.TurnEnd)
    assert end.reason is TurnEndReason.FAILED
    again = await harness.adapter.launch()
    assert again.plan.permission_mode is PermissionMode.DEFAULT
    assert launch.gone


async def test_an_agent_that_loosens_itself_at_every_start_is_not_started_for_ever(
    harness: SessionHarness,
) -> None:
    harness.adapter.capabilities = Capabilities(caller_chosen_id=True, resume=True, approvals=True)
    actor = await harness.create()
    harness.adapter.at_start = EventEmitted(ev.ModeUpdate(permission_mode=PermissionMode.YOLO))
    await actor.execute(commands.Send(item=item("1")))
    # The message fails before its turn or in it, depending on what arrives first.
    await eventually(lambda: not actor.state.queue and actor.state.turn_id is None)
    assert len(harness.adapter.plans) <= 5


async def test_a_refused_restoration_stops_the_agent(harness: SessionHarness) -> None:
    _, launch, _ = await start_turn(harness)
    launch.mode_error = AgentError("no")
    await report(launch, PermissionMode.YOLO)
    assert (await harness.out.until(ev.TurnEnd)).reason is TurnEndReason.FAILED
    assert launch.gone


async def test_a_mode_that_could_not_be_set_is_not_allowed_afterwards(harness: SessionHarness) -> None:
    actor, launch, _ = await start_turn(harness)
    launch.mode_error = BadRequest("no")
    with pytest.raises(BadRequest):
        await actor.execute(commands.Configure(permission_mode=PermissionMode.YOLO))
    launch.mode_error = None
    await report(launch, PermissionMode.YOLO)
    await eventually(lambda: launch.modes == [PermissionMode.DEFAULT])
