"""The message queue: a person's messages on their way to an agent, each with exactly one outcome."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from farsteer.core.errors import Conflict, ErrorCode, NotFound
from farsteer.core.wire import Wire

MAX_QUEUED = 100


class ItemState(StrEnum):
    """The life of a queue item. The last four are outcomes."""

    ACCEPTED = "accepted"
    """Stored by the hub, not yet confirmed by the runner."""
    QUEUED = "queued"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """Handed to an agent that died before it confirmed; never re-sent."""

    @property
    def final(self) -> bool:
        return self not in (ItemState.ACCEPTED, ItemState.QUEUED)


class Attachment(Wire):
    name: str
    mime_type: str = "application/octet-stream"
    data: str | None = None
    """Base64. Given to the agent; the log keeps name, type and size."""
    size: int | None = None


class QueueItem(Wire, omit_defaults=False):
    id: str
    text: str
    created_at: int
    state: ItemState = ItemState.ACCEPTED
    local_id: str | None = None
    attachments: tuple[Attachment, ...] = ()
    sent_from: str | None = None


Queue = tuple[QueueItem, ...]


def enqueue(queue: Queue, item: QueueItem) -> Queue:
    """Add `item` at the end; the same id twice is the same item."""
    if any(known.id == item.id for known in queue):
        return queue
    if len(queue) >= MAX_QUEUED:
        raise Conflict(f"{MAX_QUEUED} messages wait already", code=ErrorCode.QUEUE_FULL)
    return (*queue, msgspec.structs.replace(item, state=ItemState.QUEUED))


def without_data(item: QueueItem) -> QueueItem:
    """The item as it is shown and logged: its attachments by name, type and size."""
    noted = tuple(msgspec.structs.replace(one, data=None) for one in item.attachments)
    return msgspec.structs.replace(item, attachments=noted)


def settle(queue: Queue, item_id: str) -> Queue:
    """The queue without an item that has its outcome."""
    return tuple(item for item in queue if item.id != item_id)


def cancellable(queue: Queue, item_id: str, *, in_turn: str | None) -> QueueItem:
    """The item, if it can still be taken back: cancel is real or refused."""
    for item in queue:
        if item.id == item_id:
            if item_id == in_turn:
                raise Conflict("the agent already has this message", code=ErrorCode.NOT_CANCELLABLE)
            return item
    raise NotFound("no such message in the queue")


def next_item(queue: Queue, *, in_turn: str | None) -> QueueItem | None:
    """What to deliver now: the oldest waiting item, and nothing while a turn runs."""
    if in_turn is not None:
        return None
    return queue[0] if queue else None
