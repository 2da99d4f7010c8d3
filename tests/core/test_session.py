"""The state of a session is a function of its log."""

import msgspec

from farsteer.core import events as ev
from farsteer.core.approvals import Approval, ApprovalKind, Outcome
from farsteer.core.events import SessionEvent, SessionStatus, TurnEndReason
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import ItemState, QueueItem
from farsteer.core.session import SessionState, add_abandoned, apply

START = SessionState(id="s", agent="demo", directory="/tmp")
ITEM = QueueItem(id="i", text="do it", created_at=1)


def after(*events: SessionEvent, start: SessionState = START) -> SessionState:
    state = start
    for event in events:
        state = apply(state, event)
    return state


def approval(name: str) -> Approval:
    return Approval(id=name, kind=ApprovalKind.PERMISSION, title="may I?", created_at=1)


def test_a_turn_works_waits_and_becomes_idle() -> None:
    turn = (ev.TurnStart(turn_id="t", item_id="i"), ev.ApprovalRequested(approval=approval("a")))
    waiting = after(*turn)
    assert (waiting.status, [a.id for a in waiting.approvals]) == (SessionStatus.WAITING, ["a"])
    working = after(ev.ApprovalResolved(approval_id="a", outcome=Outcome.APPROVED), start=waiting)
    assert (working.status, working.approvals) == (SessionStatus.WORKING, ())
    idle = after(ev.TurnEnd(turn_id="t", reason=TurnEndReason.END_TURN), start=working)
    assert (idle.status, idle.turn_id, idle.turn_item) == (SessionStatus.IDLE, None, None)


def test_two_approvals_wait_until_both_are_answered() -> None:
    both = after(
        ev.TurnStart(turn_id="t"),
        ev.ApprovalRequested(approval=approval("a")),
        ev.ApprovalRequested(approval=approval("b")),
        ev.ApprovalResolved(approval_id="b", outcome=Outcome.DENIED),
    )
    assert both.status is SessionStatus.WAITING
    assert [a.id for a in both.approvals] == ["a"]


def test_the_end_of_another_turn_changes_nothing() -> None:
    working = after(ev.TurnStart(turn_id="t"))
    assert after(ev.TurnEnd(turn_id="old", reason=TurnEndReason.END_TURN), start=working) is working


def test_the_end_of_a_dead_launch_changes_nothing() -> None:
    living = after(ev.LaunchStart(generation=2, resumed=True), ev.StatusUpdate(status=SessionStatus.IDLE))
    assert after(ev.LaunchEnd(generation=1, reason="late"), start=living) is living
    assert after(ev.LaunchEnd(generation=2, reason="exit"), start=living).status is SessionStatus.STOPPED


def test_the_queue_holds_an_item_until_its_outcome() -> None:
    queued = after(ev.QueueUpdate(item_id="i", state=ItemState.QUEUED, item=ITEM))
    assert [(i.id, i.state) for i in queued.queue] == [("i", ItemState.QUEUED)]
    for outcome in (ItemState.DELIVERED, ItemState.CANCELLED, ItemState.FAILED, ItemState.UNKNOWN):
        assert after(ev.QueueUpdate(item_id="i", state=outcome), start=queued).queue == ()


def test_a_title_given_by_a_person_stays() -> None:
    named = after(ev.UserMessage(item_id="i", text="Fix the bug\nplease"))
    assert named.title == "Fix the bug"
    renamed = after(
        ev.TitleUpdate(title="Mine", by_user=True), ev.TitleUpdate(title="agent's idea"), start=named
    )
    assert renamed.title == "Mine"


def test_modes_change_one_at_a_time() -> None:
    state = after(
        ev.ModeUpdate(permission_mode=PermissionMode.PLAN), ev.ModeUpdate(model="large"), ev.ModeUpdate()
    )
    assert (state.permission_mode, state.model, state.effort) == (PermissionMode.PLAN, "large", None)


def test_usage_adds_up_and_context_is_the_latest() -> None:
    state = after(
        ev.UsageUpdate(input_tokens=10, output_tokens=5, context_used=100, context_size=1000, cost_usd=0.5),
        ev.UsageUpdate(input_tokens=1, context_used=90),
    )
    usage = state.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (11, 5, 0.5)
    assert (usage.context_used, usage.context_size) == (90, 1000)


def test_an_unknown_event_changes_nothing() -> None:
    assert after(ev.Other(native_kind="hologram", data={"x": 1})) is START


def test_a_state_survives_its_encoding() -> None:
    state = after(
        ev.QueueUpdate(item_id="i", state=ItemState.QUEUED, item=ITEM),
        ev.TurnStart(turn_id="t", item_id="i"),
        ev.ApprovalRequested(approval=approval("a")),
    )
    assert msgspec.json.decode(msgspec.json.encode(state), type=SessionState) == state


def test_every_name_a_conversation_had_is_remembered_once_and_not_for_ever() -> None:
    state = SessionState(id="s", agent="a", directory="/", native_id="one")
    assert add_abandoned(state, "one") == ()
    assert add_abandoned(state, "two") == ("one", "two")
    state = msgspec.structs.replace(state, left_behind=("one", "two"))
    assert add_abandoned(state, "two") == ("one", "two")
    state = msgspec.structs.replace(state, left_behind=tuple(map(str, range(100))))
    assert add_abandoned(state, "new")[-2:] == ("one", "new")
    assert len(add_abandoned(state, "new")) == 100
