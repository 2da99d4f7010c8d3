"""The message queue: a person's messages on their way to an agent, each with exactly one outcome."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from farsteer.core.errors import Conflict, ErrorCode, NotFound
from farsteer.core.wire import WireStruct

MAX_QUEUED = 100
REWIND_REASON = "the conversation was rewound"
"""Why a rewind cancels what waits."""


class ItemState(StrEnum):
    """The life of a queue item. The last four are outcomes."""

    ACCEPTED = "accepted"
    """Stored by the hub, not yet confirmed by the runner."""
    QUEUED = "queued"
    HANDED_OVER = "handed_over"
    """In the log, on its way to the agent: it can no longer be taken back, and is not sent again."""
    DELIVERED = "delivered"
    CANCELLED = "cancelled"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """Handed to an agent that died before it confirmed; never re-sent."""

    @property
    def final(self) -> bool:
        return self not in (ItemState.ACCEPTED, ItemState.QUEUED, ItemState.HANDED_OVER)


class Delivery(StrEnum):
    """When a message goes to the agent."""

    QUEUE = "queue"
    """After everything that waits before it."""
    NOW = "now"
    """First, and the running turn is interrupted for it."""
    STEER = "steer"
    """Into the running turn; with no turn, or with others waiting, it queues."""


class Attachment(WireStruct):
    name: str
    mime_type: str = "application/octet-stream"
    data: str | None = None
    """Base64. Given to the agent; the log keeps name, type and size."""
    size: int | None = None


class QueueItem(WireStruct, omit_defaults=False):
    id: str
    text: str
    created_at: int
    state: ItemState = ItemState.ACCEPTED
    local_id: str | None = None
    attachments: tuple[Attachment, ...] = ()
    sent_from: str | None = None
    delivery: Delivery = Delivery.QUEUE


Queue = tuple[QueueItem, ...]


def enqueue(queue: Queue, item: QueueItem) -> Queue:
    """Add `item` at the end; the same id twice is the same item."""
    if any(known.id == item.id for known in queue):
        return queue
    if len(queue) >= MAX_QUEUED:
        raise Conflict(f"{MAX_QUEUED} messages wait already", code=ErrorCode.QUEUE_FULL)
    item = msgspec.structs.replace(item, state=ItemState.QUEUED)
    return move_to_front((*queue, item), item.id) if item.delivery is Delivery.NOW else (*queue, item)


def move_to_front(queue: Queue, item_id: str) -> Queue:
    """The queue with a waiting item first."""
    item = find_waiting(queue, item_id)
    given = tuple(one for one in queue if one.state is ItemState.HANDED_OVER)
    return (*given, item, *(one for one in queue if one not in given and one is not item))


def mark_handed_over(queue: Queue, item_id: str) -> Queue:
    """The queue with an item that is on its way to the agent."""
    return _marked(queue, item_id, ItemState.HANDED_OVER)


def mark_queued(queue: Queue, item_id: str) -> Queue:
    """The queue with an item that the agent did not take."""
    return _marked(queue, item_id, ItemState.QUEUED)


def _marked(queue: Queue, item_id: str, state: ItemState) -> Queue:
    if not any(item.id == item_id for item in queue):
        return queue
    return tuple(msgspec.structs.replace(item, state=state) if item.id == item_id else item for item in queue)


def without_data(item: QueueItem) -> QueueItem:
    """The item as it is shown and logged: its attachments by name, type and size."""
    if all(one.data is None for one in item.attachments):
        return item
    noted = tuple(msgspec.structs.replace(one, data=None) for one in item.attachments)
    return msgspec.structs.replace(item, attachments=noted)


def remove(queue: Queue, item_id: str) -> Queue:
    """The queue without an item that has its outcome."""
    return tuple(item for item in queue if item.id != item_id)


def find_waiting(queue: Queue, item_id: str) -> QueueItem:
    """The item, if it can still be taken back or moved: cancel is real or refused."""
    for item in queue:
        if item.id == item_id:
            if item.state is ItemState.HANDED_OVER:
                raise Conflict("the agent already has this message", code=ErrorCode.NOT_CANCELLABLE)
            return item
    raise NotFound("no such message in the queue")


def next_item(queue: Queue) -> QueueItem | None:
    """The first item that waits."""
    return next((item for item in queue if item.state is not ItemState.HANDED_OVER), None)
