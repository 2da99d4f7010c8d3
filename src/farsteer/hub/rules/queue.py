"""What may be done with a person's message between its acceptance by the hub and its outcome.

The hub may change an item on its own only as long as no link has claimed it. After that the runner may have it, and
only the runner can say what becomes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from msgspec import Struct
from msgspec.structs import replace

from farsteer.core.errors import Conflict, ErrorCode, RateLimited, TooLarge
from farsteer.core.events import QueueUpdate
from farsteer.core.queue import Delivery, ItemState, Queue, QueueChange, QueueItem, too_late

NOT_CLAIMED = 0
RELEASED = -1
"""Claimed before, and to be claimed again by any link: an offer of it failed, so that the runner may have it or not."""


class QueueLimits(Struct, frozen=True):
    """How much may wait. A message counts until it has an outcome, with its attachments."""

    messages: int = 100
    """In one session."""
    session_bytes: int = 32 * 1024 * 1024
    namespace_bytes: int = 256 * 1024 * 1024


class QueuedTotals(Struct, frozen=True):
    """How much waits already."""

    messages: int
    """In the session."""
    session_bytes: int
    namespace_bytes: int


class StoredItem(Struct, frozen=True):
    """An item as a store has it."""

    item: QueueItem
    """Its summary; `item.state` is its current state."""
    claimed_by: int = NOT_CLAIMED
    """The last link that claimed it."""


class ItemAction(Enum):
    """What to do about a request to change an item."""

    CHANGE = auto()
    NOTHING = auto()
    """It is as requested already."""
    ASK_RUNNER = auto()


def check_room(size: int, queued: QueuedTotals, limits: QueueLimits) -> None:
    """Decide whether a new message of `size` bytes may wait.

    Raises TooLarge if it never fits, Conflict `queue_full` for too many messages, and RateLimited `queue_full` for too
    many bytes.
    """
    if size > limits.session_bytes:
        raise TooLarge(
            f"this message has {size} bytes; at most {limits.session_bytes} may wait in one session",
            limit=limits.session_bytes,
            size=size,
        )
    if queued.messages >= limits.messages:
        raise Conflict(
            f"the queue is full: {queued.messages} messages are waiting",
            code=ErrorCode.QUEUE_FULL,
            limit=limits.messages,
        )
    for scope, taken, limit in (
        ("session", queued.session_bytes, limits.session_bytes),
        ("namespace", queued.namespace_bytes, limits.namespace_bytes),
    ):
        if taken + size > limit:
            raise RateLimited(
                f"the queue is full: messages of {taken} bytes are waiting in this {scope}, and at most {limit} may;"
                " send again when some are delivered, or cancel some",
                code=ErrorCode.QUEUE_FULL,
                limit=limit,
                queued=taken,
                size=size,
            )


def cancel_item(stored: StoredItem) -> ItemAction:
    """Decide about a request to cancel. Raises Conflict if the item has another outcome."""
    state = stored.item.state
    if state is ItemState.CANCELLED:
        return ItemAction.NOTHING
    if state.final:
        raise too_late(state)
    if state is not ItemState.ACCEPTED or stored.claimed_by != NOT_CLAIMED:
        return ItemAction.ASK_RUNNER
    return ItemAction.CHANGE


def prioritize_item(stored: StoredItem, *, ignore_claim: bool) -> ItemAction:
    """Decide about a request to send an item first. Raises Conflict if the agent has it or it has an outcome."""
    state = stored.item.state
    if state.final or state is ItemState.HANDED_OVER:
        raise too_late(state)
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


def combined_queue(queue: Queue, items: Sequence[QueueItem]) -> tuple[QueueItem, ...]:
    """Return what the runner has queued, then what it has not confirmed yet.

    `items` are the messages without an outcome that the hub has. One that only the runner has, because the hub was
    restored from a backup, has no text.
    """
    known = {item.id: item for item in items}
    queued = [
        replace(known[ref.id], state=ref.state)
        if ref.id in known
        else QueueItem(id=ref.id, text="", created_at=0, state=ref.state, truncated=True)
        for ref in queue
    ]
    ids = {ref.id for ref in queue}
    return (*queued, *(item for item in items if item.state is ItemState.ACCEPTED and item.id not in ids))


def queue_changes(old: Queue, new: Queue) -> list[QueueChange]:
    """Return the messages that differ between two queues of a runner.

    A client that takes each of them out of the queue it knows, and then inserts those with a position there in this
    order, has the new queue.
    """
    if len(new) == len(old) + 1 and new[:-1] == old:
        return [QueueChange(new[-1].id, new[-1].state, len(old))]
    before = {ref.id: ref for ref in old}
    after = {ref.id for ref in new}
    moved = _moved([ref.id for ref in old if ref.id in after], [ref.id for ref in new if ref.id in before])
    return [QueueChange(ref.id) for ref in old if ref.id not in after] + [
        QueueChange(ref.id, ref.state, position)
        for position, ref in enumerate(new)
        if before.get(ref.id) != ref or ref.id in moved
    ]


def _moved(old: list[str], new: list[str]) -> set[str]:
    """Return which ids to take out and insert again, so that the same ids have the new order."""
    moved: set[str] = set()
    rest = iter(old)
    expected = next(rest, None)
    for id in new:
        while expected in moved:
            expected = next(rest, None)
        if id == expected:
            expected = next(rest, None)
        else:
            moved.add(id)
    return moved
