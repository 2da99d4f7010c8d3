"""The message queue of a session. Every queued message ends with exactly one outcome.

A waiting message may be large. It is stored once, as a `QueueItem`; the session's state refers to it by a `QueueRef`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from farsteer.core.errors import Conflict, ErrorCode, NotFound
from farsteer.core.identity import Identity
from farsteer.core.wire import WireStruct

MAX_QUEUED = 1000
"""The most messages a session's state refers to. The limit of a hub is lower."""
_PREVIEW_CHARS = 200
_PREVIEW_ATTACHMENTS = 3
REWIND_REASON = "the conversation was rewound"
"""The reason given for messages that a rewind cancels."""


class ItemState(StrEnum):
    """The state of a queue item. The last four are outcomes."""

    ACCEPTED = "accepted"
    """Stored by the hub, not yet confirmed by the runner."""
    QUEUED = "queued"
    HANDED_OVER = "handed_over"
    """In the log and being sent to the agent. It can no longer be cancelled and is never sent twice."""
    DELIVERED = "delivered"
    CANCELLED = "cancelled"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """The agent died before it confirmed the message. The message is not sent again."""

    @property
    def final(self) -> bool:
        return self not in (ItemState.ACCEPTED, ItemState.QUEUED, ItemState.HANDED_OVER)


class Delivery(StrEnum):
    """When a message goes to the agent."""

    QUEUE = "queue"
    """After all messages that were queued earlier."""
    NOW = "now"
    """Before all other messages, and the running turn is interrupted."""
    STEER = "steer"
    """Into the running turn. Without a turn, or with other messages waiting, it is queued."""


class Attachment(WireStruct):
    """A file that belongs to a message."""

    name: str
    mime_type: str = "application/octet-stream"
    data: str | None = None
    """The content in base64, for the agent. The log keeps name, type and size only."""
    size: int | None = None


class QueueItem(WireStruct, omit_defaults=False):
    """A message in the queue."""

    id: str
    text: str
    created_at: int
    state: ItemState = ItemState.ACCEPTED
    local_id: str | None = None
    attachments: tuple[Attachment, ...] = ()
    sent_from: str | None = None
    identity: Identity | None = None
    """Who sent it."""
    delivery: Delivery = Delivery.QUEUE
    truncated: bool = False
    """True for a summary: `text` and `attachments` are only the beginning of the message."""


class CompactItem(QueueItem, omit_defaults=True):
    """A queue item that is encoded without its defaults, where many are stored. It decodes as a `QueueItem`."""


class QueueChange(WireStruct):
    """What became of one message of the queue, as `session-updated` tells it."""

    id: str
    state: ItemState | None = None
    """None if it left the queue with an outcome that the log has."""
    position: int | None = None
    """Its place in the queue now. None if it left."""
    item: CompactItem | None = None
    """The summary of a message that clients do not know yet, or that has changed."""


def compact(item: QueueItem) -> CompactItem:
    return item if isinstance(item, CompactItem) else CompactItem(*msgspec.structs.astuple(item))


class QueueRef(WireStruct):
    """A message in the queue, by reference."""

    id: str
    state: ItemState = ItemState.QUEUED


Queue = tuple[QueueRef, ...]


def contains(queue: Queue, item_id: str) -> bool:
    # A loop: for what is done with every message, a generator takes twice as long.
    for item in queue:  # noqa: SIM110
        if item.id == item_id:
            return True
    return False


def enqueue(queue: Queue, item: QueueItem) -> Queue:
    """Return the queue with `item` added. Idempotent by id. Raises Conflict if the queue is full."""
    if contains(queue, item.id):
        return queue
    if len(queue) >= MAX_QUEUED:
        raise Conflict(f"{MAX_QUEUED} messages wait already", code=ErrorCode.QUEUE_FULL)
    queue = (*queue, QueueRef(item.id))
    return move_to_front(queue, item.id) if item.delivery is Delivery.NOW else queue


def move_to_front(queue: Queue, item_id: str) -> Queue:
    """Return the queue with a waiting item moved to the front. Raises NotFound or Conflict."""
    item = find_waiting(queue, item_id)
    handed_over = tuple(other for other in queue if other.state is ItemState.HANDED_OVER)
    return (*handed_over, item, *(other for other in queue if other not in handed_over and other is not item))


def mark_handed_over(queue: Queue, item_id: str) -> Queue:
    """Return the queue with an item marked as being sent to the agent."""
    return _with_state(queue, item_id, ItemState.HANDED_OVER)


def mark_queued(queue: Queue, item_id: str) -> Queue:
    """Return the queue with an item marked as waiting again, after the agent refused it."""
    return _with_state(queue, item_id, ItemState.QUEUED)


def _with_state(queue: Queue, item_id: str, state: ItemState) -> Queue:
    if not contains(queue, item_id):
        return queue
    return tuple(msgspec.structs.replace(item, state=state) if item.id == item_id else item for item in queue)


def without_data(item: QueueItem) -> QueueItem:
    """Return the item without the content of its attachments, as it is logged and shown."""
    if all(attachment.data is None for attachment in item.attachments):
        return item
    attachments = tuple(msgspec.structs.replace(attachment, data=None) for attachment in item.attachments)
    return msgspec.structs.replace(item, attachments=attachments)


def summarize(item: QueueItem) -> QueueItem:
    """Return the item as it is shown in lists, events and the log: of bounded size. A short item is returned whole."""
    if len(item.text) <= _PREVIEW_CHARS and len(item.attachments) <= _PREVIEW_ATTACHMENTS:
        return without_data(item)
    return without_data(
        msgspec.structs.replace(
            item,
            text=item.text[:_PREVIEW_CHARS],
            attachments=item.attachments[:_PREVIEW_ATTACHMENTS],
            truncated=True,
        )
    )


def remove(queue: Queue, item_id: str) -> Queue:
    """Return the queue without an item."""
    return tuple(item for item in queue if item.id != item_id)


def find_waiting(queue: Queue, item_id: str) -> QueueRef:
    """Return a waiting item. Raises Conflict if the agent already has it, and NotFound if it is not in the queue."""
    for item in queue:
        if item.id == item_id:
            if item.state is ItemState.HANDED_OVER:
                raise too_late(item.state)
            return item
    raise NotFound("no such message in the queue")


def too_late(state: ItemState) -> Conflict:
    """Return the error for a change of a message that the agent has, or that has an outcome."""
    message = (
        "the agent already has this message"
        if state is ItemState.HANDED_OVER
        else f"this message is already {state.value}"
    )
    return Conflict(message, code=ErrorCode.NOT_CANCELLABLE, state=state.value)


def next_item(queue: Queue) -> QueueRef | None:
    """Return the first waiting item, or None."""
    return next((item for item in queue if item.state is not ItemState.HANDED_OVER), None)
