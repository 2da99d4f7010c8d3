"""What may be done with a person's message between its acceptance by the hub and its outcome.

The hub may change an item on its own only as long as no link has claimed it. After that the runner may have it, and
only the runner can say what becomes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from msgspec import Struct

from farsteer.core.errors import Conflict, ErrorCode
from farsteer.core.events import QueueUpdate
from farsteer.core.queue import MAX_QUEUED, Delivery, ItemState, Queue, QueueItem, without_data
from farsteer.core.session import SessionState

NOT_CLAIMED = 0


class StoredItem(Struct, frozen=True):
    """An item as a store has it."""

    item: QueueItem
    """Without the data of its attachments; `item.state` is its current state."""
    claimed_by: int = NOT_CLAIMED
    """The last link that claimed it."""


class Acceptance(Struct, frozen=True):
    item: QueueItem
    """Without the data of its attachments."""
    repeated: bool
    """The item is known already. Otherwise it is to be stored."""


class ItemAction(Enum):
    """What to do about a request to change an item."""

    CHANGE = auto()
    NOTHING = auto()
    """It is as requested already."""
    ASK_RUNNER = auto()


def accept_item(item: QueueItem, known: QueueItem | None, open_items: int) -> Acceptance:
    """Decide about a new message.

    `known` is the item that has the same local id, `open_items` the number of items without an outcome. Raises
    Conflict `queue_full`.
    """
    if known is not None:
        return Acceptance(known, repeated=True)
    if open_items >= MAX_QUEUED:
        raise Conflict(f"the queue is full: {MAX_QUEUED} messages are waiting", code=ErrorCode.QUEUE_FULL)
    return Acceptance(without_data(item), repeated=False)


def cancel_item(stored: StoredItem) -> ItemAction:
    """Decide about a request to cancel. Raises Conflict if the item has another outcome."""
    state = stored.item.state
    if state is ItemState.CANCELLED:
        return ItemAction.NOTHING
    if state.final:
        raise _too_late(state)
    if state is not ItemState.ACCEPTED or stored.claimed_by != NOT_CLAIMED:
        return ItemAction.ASK_RUNNER
    return ItemAction.CHANGE


def prioritize_item(stored: StoredItem, *, ignore_claim: bool) -> ItemAction:
    """Decide about a request to send an item first. Raises Conflict if the agent has it or it has an outcome."""
    state = stored.item.state
    if state.final or state is ItemState.HANDED_OVER:
        raise _too_late(state)
    claimed = stored.claimed_by != NOT_CLAIMED and not ignore_claim
    if state is not ItemState.ACCEPTED or claimed:
        return ItemAction.ASK_RUNNER
    return ItemAction.CHANGE


def items_to_claim(accepted: Sequence[StoredItem], link_id: int) -> list[StoredItem]:
    """Return which accepted items to send on a link, in order: each once per link, delivery `now` first."""
    unclaimed = [stored for stored in accepted if stored.claimed_by != link_id]
    return sorted(unclaimed, key=lambda stored: stored.item.delivery is not Delivery.NOW)


def state_after(current: ItemState, update: QueueUpdate) -> ItemState | None:
    """Return the state that the runner's update gives an item, or None if it changes nothing.

    An outcome is never changed. `accepted` is the hub's own state: a runner cannot set it.
    """
    return None if current.final or update.state is ItemState.ACCEPTED else update.state


def combined_queue(state: SessionState, accepted: Sequence[QueueItem]) -> Queue:
    """Return what the runner has queued, then what it has not confirmed yet."""
    known = {item.id for item in state.queue}
    return (*state.queue, *(item for item in accepted if item.id not in known))


def _too_late(state: ItemState) -> Conflict:
    return Conflict(
        f"this message is already {state.value}", code=ErrorCode.NOT_CANCELLABLE, state=state.value
    )
