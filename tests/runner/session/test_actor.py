"""The promises of a session, tested with one actor."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from farsteer.agents.base import (
    ApprovalAsked,
    DeltaEmitted,
    EventEmitted,
    Exited,
    Registered,
    TurnEnded,
)
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.approvals import Answer, Outcome
from farsteer.core.errors import AgentError, AlreadyAnswered, Conflict, ErrorCode, NotFound
from farsteer.core.events import DeltaKind, SessionStatus, TurnEndReason
from farsteer.core.launch import LaunchMode
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import Attachment, ItemState, QueueItem
from tests.runner.harness import SESSION, SPEC, SessionHarness, approval, item, start_session, start_turn
from tests.runner.scripted import ScriptedLaunch


async def test_the_events_of_a_message_from_the_queue_to_the_end_of_its_turn(harness: SessionHarness) -> None:
    actor, launch, prompt = await start_turn(harness)
    await launch.emit(EventEmitted(event=ev.AgentMessage(message_id="m", text="hi")))
    await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    assert harness.out.kinds() == [
        "launch_start", "status_update", "status_update",
        "queue_update", "turn_start", "user_message", "queue_update", "agent_message", "turn_end",
    ]  # fmt: skip
    assert [entry.seq for entry in harness.out.entries] == list(range(1, 10))
    assert harness.out.entries[5].local_id == "local-1"
    assert actor.state.status is SessionStatus.IDLE


async def test_one_process_serves_many_turns_in_the_order_of_the_messages(harness: SessionHarness) -> None:
    actor, launch = await start_session(harness)
    for name in "123":
        await actor.execute(commands.Send(item=item(name, f"text {name}")))
    for name in "123":
        prompt = await launch.prompt()
        assert prompt.text == f"text {name}"
        assert launch.prompts.empty()
        await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd, 3)
    assert len(harness.adapter.plans) == 1


async def test_a_repeated_send_is_the_same_message(harness: SessionHarness) -> None:
    actor, launch, prompt = await start_turn(harness)
    await actor.execute(commands.Send(item=item("1")))
    await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    await actor.execute(commands.Send(item=item("1")))
    assert len(harness.out.of(ev.TurnStart)) == 1


async def test_deltas_are_streamed_and_never_stored(harness: SessionHarness) -> None:
    _, launch, prompt = await start_turn(harness)
    delta = ev.Delta(message_id="m", kind=DeltaKind.MESSAGE, text="h", offset=0)
    await harness.out.until(ev.QueueUpdate, state=ItemState.DELIVERED)
    before = harness.out.entries[-1].seq
    await launch.emit(DeltaEmitted(delta=delta))
    await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    assert harness.out.deltas == [msgspec.structs.replace(delta, after=before)]
    assert "h" not in [getattr(entry.content, "text", None) for entry in harness.out.entries]


async def test_a_delta_says_which_entry_it_follows(harness: SessionHarness) -> None:
    _, launch, prompt = await start_turn(harness)
    await harness.out.until(ev.QueueUpdate, state=ItemState.DELIVERED)
    before = harness.out.entries[-1].seq
    fragment = DeltaEmitted(delta=ev.Delta(message_id="m", kind=DeltaKind.MESSAGE, text="h"))
    await launch.emit(fragment, EventEmitted(ev.AgentMessage(message_id="m", text="h")), fragment)
    await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    assert [delta.after for delta in harness.out.deltas] == [before, before + 1]


async def test_nothing_is_published_before_it_is_in_the_journal(harness: SessionHarness) -> None:
    _, launch, prompt = await start_turn(harness)
    await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    stored = await harness.journal.unconfirmed(SESSION, 0)
    assert [one.seq for one in stored] == [entry.seq for entry in harness.out.entries]


async def test_an_approval_waits_for_a_person_and_a_second_answer_is_refused_with_the_first(
    harness: SessionHarness,
) -> None:
    actor, launch, prompt = await start_turn(harness)
    await launch.emit(ApprovalAsked(approval=approval()))
    await harness.out.until(ev.ApprovalRequested)
    assert actor.state.status is SessionStatus.WAITING
    await actor.execute(
        commands.AnswerApproval(approval_id="a", answer=Answer(outcome=Outcome.APPROVED, by="ann"))
    )
    _, answer = await launch.answers.get()
    assert answer.option_id == "y"
    with pytest.raises(AlreadyAnswered) as second:
        await actor.execute(
            commands.AnswerApproval(approval_id="a", answer=Answer(outcome=Outcome.DENIED, by="bob"))
        )
    assert second.value.details == {"outcome": "approved", "by": "ann", "identity": None}
    assert launch.answers.empty()
    await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd)


async def test_an_unanswered_approval_expires_as_timed_out_and_never_as_yes(harness: SessionHarness) -> None:
    _, launch, _ = await start_turn(harness, permission_timeout=0.02)
    await launch.emit(ApprovalAsked(approval=approval()))
    await harness.out.until(ev.ApprovalResolved, outcome=Outcome.TIMED_OUT)
    _, answer = await launch.answers.get()
    assert not answer.outcome.allows
    assert answer.option_id == "n"


async def test_the_end_of_a_turn_cancels_its_open_approvals_before_it(harness: SessionHarness) -> None:
    actor, launch, prompt = await start_turn(harness)
    await launch.emit(ApprovalAsked(approval=approval()))
    await launch.finish(prompt, TurnEndReason.CANCELLED)
    await harness.out.until(ev.TurnEnd)
    assert harness.out.kinds()[-2:] == ["approval_resolved", "turn_end"]
    with pytest.raises(AlreadyAnswered) as late:
        await actor.execute(commands.AnswerApproval(approval_id="a", answer=Answer(outcome=Outcome.APPROVED)))
    assert late.value.details["outcome"] == "cancelled"
    with pytest.raises(NotFound):
        await actor.execute(
            commands.AnswerApproval(approval_id="never", answer=Answer(outcome=Outcome.APPROVED))
        )


async def test_abort_interrupts_and_the_agent_ends_the_turn(harness: SessionHarness) -> None:
    actor, launch, prompt = await start_turn(harness)
    await actor.execute(commands.Abort())
    await launch.interrupts.get()
    await launch.finish(prompt, TurnEndReason.CANCELLED)
    end = await harness.out.until(ev.TurnEnd)
    assert isinstance(end, ev.TurnEnd)
    assert end.reason is TurnEndReason.CANCELLED


async def test_an_agent_that_ignores_the_interrupt_is_ended_and_the_queue_goes_on(
    harness: SessionHarness,
) -> None:
    actor, _, _ = await start_turn(harness)
    await actor.execute(commands.Send(item=item("2", "next")))
    await actor.execute(commands.Abort())
    end = await harness.out.until(ev.TurnEnd)
    assert isinstance(end, ev.TurnEnd)
    assert end.reason is TurnEndReason.CANCELLED
    second = await harness.adapter.launch()
    assert (await second.prompt()).text == "next"
    assert [plan.generation for plan in harness.adapter.plans] == [1, 2]


async def test_a_crash_ends_the_turn_once_and_the_next_message_resumes(harness: SessionHarness) -> None:
    actor, launch, prompt = await start_turn(harness)
    await launch.emit(
        Registered(native_id=SESSION),
        TurnEnded(turn_id=prompt.turn_id, reason=TurnEndReason.CRASHED, error="exit 137"),
        Exited(exit_code=-9, reason="killed"),
    )
    await harness.out.until(ev.LaunchEnd)
    assert [end.reason for end in harness.out.of(ev.TurnEnd) if isinstance(end, ev.TurnEnd)] == [
        TurnEndReason.CRASHED
    ]
    assert actor.state.status is SessionStatus.STOPPED
    await actor.execute(commands.Send(item=item("2")))
    await harness.adapter.launch()
    assert [plan.decision.start for plan in harness.adapter.plans] == [LaunchMode.CREATE, LaunchMode.RESUME]


async def test_an_exit_without_the_end_of_the_turn_still_ends_it(harness: SessionHarness) -> None:
    _, launch, _ = await start_turn(harness)
    await launch.emit(Exited(exit_code=1, reason="gone"))
    end = await harness.out.until(ev.TurnEnd)
    assert isinstance(end, ev.TurnEnd)
    assert end.reason is TurnEndReason.CRASHED


async def test_create_is_for_a_new_session_only(harness: SessionHarness) -> None:
    actor, _ = await start_session(harness)
    with pytest.raises(Conflict):
        await actor.execute(commands.Create(spec=SPEC))
    await actor.execute(commands.Stop())
    with pytest.raises(Conflict):
        await actor.execute(commands.Create(spec=SPEC))
    await actor.execute(commands.Resume())
    assert len(harness.adapter.plans) == 2


async def test_output_after_the_exit_in_the_same_batch_is_dropped(harness: SessionHarness) -> None:
    _, launch, _ = await start_turn(harness)
    late = EventEmitted(event=ev.AgentMessage(message_id="late", text="late"))
    await launch.emit(Exited(exit_code=1, reason="gone"), late)
    await harness.out.until(ev.LaunchEnd)
    assert harness.out.of(ev.AgentMessage) == []


async def test_output_of_a_dead_launch_is_dropped(harness: SessionHarness) -> None:
    actor, first, prompt = await start_turn(harness)
    await first.emit(Exited(exit_code=1, reason="gone"))
    await harness.out.until(ev.LaunchEnd)
    await actor.execute(commands.Resume())
    before = len(harness.out.entries)
    await first.emit(
        EventEmitted(event=ev.AgentMessage(message_id="late", text="ghost")),
        Registered(native_id="7924d439-b04f-4a34-8f0e-1d2f3a4b5c6d"),
        TurnEnded(turn_id=prompt.turn_id, reason=TurnEndReason.END_TURN),
    )
    await actor.execute(commands.Configure(title="a later step"))
    assert harness.out.kinds()[before:] == ["title_update"]
    assert not actor.state.registered


async def test_a_failed_start_fails_the_waiting_messages_and_the_next_one_tries_again(
    harness: SessionHarness,
) -> None:
    harness.adapter.start_error = AgentError("no such binary")
    actor = await harness.create()
    with pytest.raises(AgentError):
        await actor.execute(commands.Create(spec=SPEC))
    assert actor.state.status is SessionStatus.FAILED
    await actor.execute(commands.Send(item=item("1")))
    failed = await harness.out.until(ev.QueueUpdate, item_id="1", state=ItemState.FAILED)
    assert isinstance(failed, ev.QueueUpdate)
    assert failed.reason == "no such binary"
    harness.adapter.start_error = None
    await actor.execute(commands.Send(item=item("2")))
    assert (await (await harness.adapter.launch()).prompt()).text == "hello"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (RuntimeError("pipe burst"), ItemState.UNKNOWN),
        (AgentError("it died", code=ErrorCode.AGENT_DIED), ItemState.UNKNOWN),
        (AgentError("no pictures, please"), ItemState.FAILED),
    ],
)
async def test_a_message_the_agent_did_not_confirm_is_reported_and_not_sent_again(
    harness: SessionHarness, error: Exception, outcome: ItemState
) -> None:
    actor, launch = await start_session(harness)
    launch.send_error = error
    await actor.execute(commands.Send(item=item("1")))
    await harness.out.until(ev.QueueUpdate, item_id="1", state=outcome)
    end = await harness.out.until(ev.TurnEnd)
    assert isinstance(end, ev.TurnEnd)
    assert end.reason is TurnEndReason.FAILED
    assert launch.prompts.empty()


async def test_output_is_handled_during_a_call_and_cannot_block_a_command(
    harness: SessionHarness,
) -> None:
    """An agent may write any amount of output before it answers a call."""
    actor, launch, prompt = await start_turn(harness)
    flood = asyncio.create_task(_flood(launch, 50))
    launch.answers_after = flood
    await actor.execute(commands.Abort())
    assert flood.done()
    await launch.finish(prompt, TurnEndReason.CANCELLED)
    await harness.out.until(ev.TurnEnd)
    assert len(harness.out.of(ev.AgentMessage)) == 50


async def _flood(launch: ScriptedLaunch, batches: int) -> None:
    for number in range(batches):
        await launch.emit(EventEmitted(event=ev.AgentMessage(message_id=str(number), text="x")))


async def test_a_turn_that_ends_before_its_hand_over_returns_was_delivered(harness: SessionHarness) -> None:
    actor, launch = await start_session(harness)
    launch.ends_in_send = TurnEndReason.END_TURN
    await actor.execute(commands.Send(item=item("1")))
    await harness.out.until(ev.TurnEnd)
    launch.release.set()
    await actor.execute(commands.Resume())
    assert harness.out.kinds()[-2:] == ["queue_update", "turn_end"]
    assert actor.state.queue == ()


async def test_a_crash_during_the_hand_over_gives_an_unknown_outcome(harness: SessionHarness) -> None:
    actor, launch = await start_session(harness)
    launch.ends_in_send = TurnEndReason.CRASHED
    await actor.execute(commands.Send(item=item("1")))
    await harness.out.until(ev.QueueUpdate, item_id="1", state=ItemState.UNKNOWN)
    await harness.out.until(ev.TurnEnd)
    launch.release.set()
    await actor.execute(commands.Resume())
    states = [one.state for one in harness.out.of(ev.QueueUpdate) if isinstance(one, ev.QueueUpdate)]
    assert states == [ItemState.QUEUED, ItemState.UNKNOWN]


async def test_cancel_removes_a_waiting_message_and_refuses_a_delivered_one(harness: SessionHarness) -> None:
    actor, launch, prompt = await start_turn(harness)
    await actor.execute(commands.Send(item=item("2")))
    await actor.execute(commands.Cancel(item_id="2"))
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.CANCELLED)
    await actor.execute(commands.Cancel(item_id="2"))
    with pytest.raises(Conflict) as refusal:
        await actor.execute(commands.Cancel(item_id="1"))
    assert refusal.value.details == {"state": "delivered"}
    await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    assert launch.prompts.empty()


async def test_a_message_that_is_cancelled_before_it_arrives_is_never_delivered(
    harness: SessionHarness,
) -> None:
    actor, launch = await start_session(harness)
    await actor.execute(commands.Cancel(item_id="1"))
    result = await actor.execute(commands.Send(item=item("1")))
    assert result == commands.KnownOutcome(ItemState.CANCELLED)
    await actor.execute(commands.Send(item=item("2", "second")))
    assert (await launch.prompt()).text == "second"
    assert [update.state for update in harness.out.of(ev.QueueUpdate) if update.item_id == "1"] == [
        ItemState.CANCELLED
    ]


@pytest.mark.parametrize(
    ("checked", "entries"),
    [
        pytest.param(0, 1, id="its entry is on the way to the hub"),
        pytest.param(99, 2, id="the hub's log does not have it"),
    ],
)
async def test_the_runner_s_outcome_counts_and_is_told_again_only_if_the_hub_s_log_lacks_it(
    harness: SessionHarness, checked: int, entries: int
) -> None:
    actor, _, _ = await start_turn(harness)
    await harness.out.until(ev.QueueUpdate, state=ItemState.DELIVERED)
    for _ in range(2):
        await actor.execute(commands.Settle("1", ItemState.CANCELLED, checked))
        checked = min(checked, actor.state.seq - 1)
    outcomes = [update.state for update in harness.out.of(ev.QueueUpdate) if update.state.final]
    assert outcomes == [ItemState.DELIVERED] * entries


async def test_an_outcome_of_the_hub_enters_the_log_once_also_after_a_restart(
    harness: SessionHarness,
) -> None:
    actor, _, _ = await start_turn(harness)
    await actor.execute(commands.Send(item=item("waits")))
    for name in ("never sent", "waits"):
        settle = commands.Settle(name, ItemState.FAILED, 1, "no such agent", item(name))
        await actor.execute(settle)
        await actor.execute(settle)
    await actor.close("restart")
    actor = await harness.reload()
    for name in ("never sent", "waits"):
        await actor.execute(commands.Settle(name, ItemState.FAILED, 1, "no such agent", item(name)))
        found = [
            update
            for update in harness.out.of(ev.QueueUpdate)
            if update.item_id == name and update.state.final
        ]
        assert [(one.state, one.reason) for one in found] == [(ItemState.FAILED, "no such agent")]
    assert actor.state.queue == ()


async def test_a_message_sent_while_starting_is_delivered_once(harness: SessionHarness) -> None:
    harness.adapter.gate.clear()
    actor = await harness.create()
    await actor.execute(commands.Send(item=item("1")))
    harness.adapter.gate.set()
    launch = await harness.adapter.launch()
    await launch.finish(await launch.prompt())
    await harness.out.until(ev.TurnEnd)
    assert launch.prompts.empty()


async def test_abort_while_starting_cancels_the_message(harness: SessionHarness) -> None:
    harness.adapter.gate.clear()
    actor = await harness.create()
    await actor.execute(commands.Send(item=item("1")))
    await actor.execute(commands.Abort())
    await harness.out.until(ev.QueueUpdate, item_id="1", state=ItemState.CANCELLED)
    harness.adapter.gate.set()
    launch = await harness.adapter.launch()
    await harness.out.until(ev.StatusUpdate, status=SessionStatus.IDLE)
    assert launch.prompts.empty()


async def test_stop_while_starting_leaves_no_launch(harness: SessionHarness) -> None:
    harness.adapter.gate.clear()
    actor = await harness.create()
    creating = asyncio.create_task(actor.execute(commands.Create(spec=SPEC)))
    await harness.out.until(ev.LaunchStart)
    await actor.execute(commands.Stop())
    with pytest.raises(AgentError):
        await creating
    assert actor.state.status is SessionStatus.STOPPED
    assert harness.adapter.launches.empty()


async def test_stop_ends_the_turn_the_queue_and_the_process_and_keeps_the_session(
    harness: SessionHarness,
) -> None:
    actor, launch, _ = await start_turn(harness)
    await actor.execute(commands.Send(item=item("2")))
    await actor.execute(commands.Stop())
    assert launch.gone
    assert actor.state.status is SessionStatus.STOPPED
    assert actor.state.queue == ()
    end = await harness.out.until(ev.TurnEnd)
    assert isinstance(end, ev.TurnEnd)
    assert end.reason is TurnEndReason.CANCELLED
    await actor.execute(commands.Resume())
    assert actor.state.status is SessionStatus.IDLE


async def test_a_live_mode_is_set_at_once_and_any_other_change_restarts_after_the_turn(
    harness: SessionHarness,
) -> None:
    actor, launch, prompt = await start_turn(harness)
    await actor.execute(commands.Configure(permission_mode=PermissionMode.YOLO, model="large"))
    assert launch.modes == [PermissionMode.YOLO]
    assert not launch.gone
    await launch.finish(prompt)
    await harness.out.until(ev.LaunchEnd)
    await actor.execute(commands.Send(item=item("2")))
    await harness.adapter.launch()
    assert [plan.model for plan in harness.adapter.plans] == [None, "large"]
    assert actor.state.permission_mode is PermissionMode.YOLO


async def test_the_same_configuration_again_changes_nothing(harness: SessionHarness) -> None:
    actor, launch = await start_session(harness)
    await actor.execute(commands.Configure(permission_mode=PermissionMode.DEFAULT))
    assert launch.modes == []
    assert harness.out.of(ev.ModeUpdate) == []


async def test_after_a_kill_during_a_turn_the_turn_is_lost_and_nothing_runs_twice(
    harness: SessionHarness,
) -> None:
    """A killed runner leaves only what is in the journal."""
    actor, launch, _ = await start_turn(harness)
    await launch.emit(Registered(native_id=SESSION), ApprovalAsked(approval=approval()))
    await actor.execute(commands.Send(item=item("2", "waiting")))
    await harness.out.until(ev.ApprovalRequested)
    before = actor.state.seq
    first = actor
    actor = await harness.reload()
    second = await harness.adapter.launch()
    end = await harness.out.until(ev.TurnEnd)
    assert isinstance(end, ev.TurnEnd)
    assert end.reason is TurnEndReason.LOST
    assert harness.out.entries[-1].seq > before
    assert (await second.prompt()).text == "waiting"
    assert second.plan.decision.start is LaunchMode.RESUME
    await actor.execute(commands.Send(item=item("1")))
    assert [start.item_id for start in harness.out.of(ev.TurnStart) if isinstance(start, ev.TurnStart)] == [
        "1",
        "2",
    ]
    launch.gone = True
    first._task.cancel()  # pyright: ignore[reportOptionalMemberAccess]


async def test_attachments_reach_the_agent_and_only_their_names_the_log(harness: SessionHarness) -> None:
    picture = Attachment(name="a.png", mime_type="image/png", data="aGVsbG8=", size=5)
    actor, launch, _ = await start_turn(harness)
    await actor.execute(
        commands.Send(item=QueueItem(id="2", text="look", created_at=1, attachments=(picture,)))
    )
    one = actor
    actor = await harness.reload()
    second = await harness.adapter.launch()
    prompt = await second.prompt()
    assert prompt.attachments == (picture,)
    await harness.out.until(ev.UserMessage, 2)
    told = b"".join([bytes(item.body) for item in await harness.journal.unconfirmed(SESSION, 0)])
    assert b"a.png" in told
    assert b"aGVsbG8" not in told
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.DELIVERED)
    (stored,) = await harness.journal.load()
    assert stored.message_sizes == {}
    launch.gone = True
    one._task.cancel()  # pyright: ignore[reportOptionalMemberAccess]


async def test_a_closing_session_refuses_commands(harness: SessionHarness) -> None:
    actor, _ = await start_session(harness)
    await actor.execute(commands.Delete())
    with pytest.raises(Conflict) as refused:
        await actor.execute(commands.Send(item=item("1")))
    assert refused.value.code is ErrorCode.CONFLICT
