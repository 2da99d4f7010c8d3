"""The hub changes an item on its own only while no link has claimed it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from farsteer.core.errors import Conflict, ErrorCode, FarsteerError
from farsteer.core.events import QueueUpdate
from farsteer.core.queue import Delivery, ItemState, QueueChange, QueueItem, QueueRef
from farsteer.hub.rules.queue import (
    ItemAction,
    QueuedTotals,
    QueueLimits,
    StoredItem,
    cancel_item,
    check_room,
    combined_queue,
    items_to_claim,
    prioritize_item,
    queue_changes,
    state_after,
)

LINK, OTHER_LINK = 7, 8
OUTCOMES = [state for state in ItemState if state.final]


def item(id: str = "i", state: ItemState = ItemState.ACCEPTED, **fields: object) -> QueueItem:
    return replace(QueueItem(id=id, text=id, created_at=1, state=state), **fields)


LIMITS = QueueLimits(messages=3, session_bytes=100, namespace_bytes=150)


@pytest.mark.parametrize(
    ("size", "queued", "status"),
    [
        (101, QueuedTotals(0, 0, 0), 413),
        (1, QueuedTotals(3, 3, 3), 409),
        (51, QueuedTotals(1, 50, 50), 429),
        (51, QueuedTotals(1, 0, 100), 429),
    ],
)
def test_a_full_queue_refuses_a_new_item(size: int, queued: QueuedTotals, status: int) -> None:
    with pytest.raises(FarsteerError) as refusal:
        check_room(size, queued, LIMITS)
    assert refusal.value.status == status
    assert refusal.value.code is (ErrorCode.TOO_LARGE if status == 413 else ErrorCode.QUEUE_FULL)
    check_room(50, QueuedTotals(2, 50, 100), LIMITS)


@pytest.mark.parametrize(
    ("state", "claimed_by", "action"),
    [
        (ItemState.ACCEPTED, 0, ItemAction.CHANGE),
        (ItemState.ACCEPTED, LINK, ItemAction.ASK_RUNNER),
        (ItemState.QUEUED, LINK, ItemAction.ASK_RUNNER),
        (ItemState.HANDED_OVER, LINK, ItemAction.ASK_RUNNER),
        (ItemState.CANCELLED, LINK, ItemAction.NOTHING),
    ],
)
def test_who_cancels(state: ItemState, claimed_by: int, action: ItemAction) -> None:
    assert cancel_item(StoredItem(item(state=state), claimed_by)) is action


@pytest.mark.parametrize("state", [state for state in OUTCOMES if state is not ItemState.CANCELLED])
def test_an_item_with_an_outcome_is_not_cancelled(state: ItemState) -> None:
    with pytest.raises(Conflict) as refusal:
        cancel_item(StoredItem(item(state=state), LINK))
    assert refusal.value.code is ErrorCode.NOT_CANCELLABLE
    assert refusal.value.details == {"state": state.value}


@pytest.mark.parametrize(
    ("state", "claimed_by", "ignore_claim", "action"),
    [
        (ItemState.ACCEPTED, 0, False, ItemAction.CHANGE),
        (ItemState.ACCEPTED, LINK, False, ItemAction.ASK_RUNNER),
        (ItemState.ACCEPTED, LINK, True, ItemAction.CHANGE),
        (ItemState.QUEUED, LINK, False, ItemAction.ASK_RUNNER),
        (ItemState.QUEUED, LINK, True, ItemAction.ASK_RUNNER),
    ],
)
def test_who_prioritizes(state: ItemState, claimed_by: int, ignore_claim: bool, action: ItemAction) -> None:
    assert prioritize_item(StoredItem(item(state=state), claimed_by), ignore_claim=ignore_claim) is action


@pytest.mark.parametrize("state", [*OUTCOMES, ItemState.HANDED_OVER])
def test_what_the_agent_has_is_not_prioritized(state: ItemState) -> None:
    with pytest.raises(Conflict):
        prioritize_item(StoredItem(item(state=state), LINK), ignore_claim=True)


def test_items_are_claimed_in_order_once_per_link_and_urgent_ones_first() -> None:
    accepted = [
        StoredItem(item("a")),
        StoredItem(item("b"), LINK),
        StoredItem(item("c"), OTHER_LINK),
        StoredItem(item("d", delivery=Delivery.NOW)),
        StoredItem(item("e", delivery=Delivery.STEER)),
    ]
    assert [stored.item.id for stored in items_to_claim(accepted, LINK)] == ["d", "a", "c", "e"]
    assert items_to_claim([], LINK) == []


@pytest.mark.parametrize("current", ItemState)
@pytest.mark.parametrize("given", ItemState)
def test_a_runner_changes_every_state_but_an_outcome(current: ItemState, given: ItemState) -> None:
    after = state_after(current, QueueUpdate(item_id="i", state=given))
    changed = not current.final and given is not ItemState.ACCEPTED
    assert after is (given if changed else None)


def test_the_combined_queue_has_each_item_once() -> None:
    queued = item("a", ItemState.QUEUED)
    queue = (QueueRef("a"),)
    assert combined_queue(queue, [item("a"), item("b")]) == (queued, item("b"))


def test_an_item_that_only_the_runner_has_is_shown_without_its_text() -> None:
    (shown,) = combined_queue((QueueRef("lost"),), [])
    assert (shown.id, shown.text, shown.state, shown.truncated) == ("lost", "", ItemState.QUEUED, True)


REFS = tuple(QueueRef(id) for id in "abcd")


@given(
    st.lists(st.sampled_from("abcdef"), unique=True),
    st.lists(st.sampled_from("abcdef"), unique=True),
    st.sets(st.sampled_from("abcdef")),
)
def test_changes_lead_from_one_queue_to_the_other(old: list[str], new: list[str], given: set[str]) -> None:
    before = tuple(QueueRef(id) for id in old)
    after = tuple(QueueRef(id, ItemState.HANDED_OVER if id in given else ItemState.QUEUED) for id in new)
    changes = queue_changes(before, after)
    changed = {change.id for change in changes}
    queue = [ref for ref in before if ref.id not in changed]
    for change in changes:
        if change.position is not None and change.state is not None:
            queue.insert(change.position, QueueRef(change.id, change.state))
    assert tuple(queue) == after


def test_only_what_differs_is_a_change() -> None:
    assert queue_changes(REFS, REFS) == []
    assert queue_changes(REFS, REFS[1:]) == [QueueChange("a")]
    assert queue_changes(REFS[:3], REFS) == [QueueChange("d", ItemState.QUEUED, 3)]
    assert queue_changes(REFS, (REFS[3], *REFS[:3])) == [QueueChange("d", ItemState.QUEUED, 0)]
