"""The hub changes an item on its own only while no link has claimed it."""

import pytest
from msgspec.structs import replace

from farsteer.core.errors import Conflict, ErrorCode
from farsteer.core.events import QueueUpdate
from farsteer.core.queue import MAX_QUEUED, Attachment, Delivery, ItemState, QueueItem
from farsteer.core.session import SessionState
from farsteer.hub.rules.queue import (
    ItemAction,
    StoredItem,
    accept_item,
    cancel_item,
    combined_queue,
    items_to_claim,
    prioritize_item,
    state_after,
)

LINK, OTHER_LINK = 7, 8
OUTCOMES = [state for state in ItemState if state.final]


def item(id: str = "i", state: ItemState = ItemState.ACCEPTED, **fields: object) -> QueueItem:
    return replace(QueueItem(id=id, text=id, created_at=1, state=state), **fields)


def test_a_new_item_is_stored_and_answered_without_attachment_data() -> None:
    new = item(attachments=(Attachment(name="a", data="aGk=", size=2),))
    accepted = accept_item(new, None, MAX_QUEUED - 1)
    assert not accepted.repeated
    assert accepted.item.attachments == (Attachment(name="a", size=2),)


def test_a_known_item_is_answered_even_if_the_queue_is_full() -> None:
    known = item("known", ItemState.DELIVERED)
    accepted = accept_item(item("new"), known, MAX_QUEUED)
    assert (accepted.item, accepted.repeated) == (known, True)


def test_a_full_queue_refuses_a_new_item() -> None:
    with pytest.raises(Conflict) as refusal:
        accept_item(item(), None, MAX_QUEUED)
    assert refusal.value.code is ErrorCode.QUEUE_FULL


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
    state = SessionState(id="s", agent="demo", directory="/", queue=(queued,))
    assert combined_queue(state, [item("a"), item("b")]) == (queued, item("b"))
