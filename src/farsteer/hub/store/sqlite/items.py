"""The `items` table: people's messages from their acceptance to their outcome.

`body` is the summary of an item and `offered` the link that claimed it last. A message that is more than its summary is
in `item_bodies`, once, until it has an outcome; the log has its text then. The data of its attachments stay only until
the runner has them. `size` counts against the limits of the session and, summed up in `queued`, of the namespace.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from msgspec.structs import replace

from farsteer.core.errors import NotFound
from farsteer.core.events import QueueUpdate
from farsteer.core.queue import Delivery, ItemState, Queue, QueueItem, compact, summarize, without_data
from farsteer.core.session import SessionState
from farsteer.core.wire import decode, encode
from farsteer.hub.rules.queue import (
    ItemAction,
    QueueChange,
    QueuedTotals,
    QueueLimits,
    StoredItem,
    cancel_item,
    check_room,
    combined_queue,
    items_to_claim,
    prioritize_item,
    state_after,
)
from farsteer.hub.rules.view import SHORT_QUEUE, encode_queue_change
from farsteer.hub.store.base import AcceptedItem, PrioritizedItem
from farsteer.hub.store.sqlite.transaction import Transaction

# The first condition on `state` is the one of the index `items_open`: SQLite uses the index only if it is repeated.
_SELECT = "SELECT n, state, offered, body FROM items WHERE session_id = ?"
_SELECT_OPEN = f"{_SELECT} AND state IN ('accepted', 'queued', 'handed_over') ORDER BY n LIMIT ?"
_SELECT_ACCEPTED = (
    f"{_SELECT} AND state IN ('accepted', 'queued', 'handed_over') AND state = 'accepted' ORDER BY n"
)
_COUNT_OPEN = (
    "SELECT count(*), coalesce(sum(size), 0) FROM items"
    " WHERE session_id = ? AND state IN ('accepted', 'queued', 'handed_over')"
)


def queued_bytes(db: sqlite3.Connection, namespace: str) -> int:
    """Return the size of all messages that wait in a namespace."""
    row = db.execute("SELECT bytes FROM queued WHERE namespace = ?", (namespace,)).fetchone()
    return 0 if row is None else row[0]


def insert(tx: Transaction, namespace: str, session_id: str, item: QueueItem, limits: QueueLimits) -> int:
    """Store a new item. Return how many are before it. Raises as `check_room` does."""
    whole, summary = encode(item), summarize(item)
    count, size = tx.db.execute(_COUNT_OPEN, (session_id,)).fetchone()
    check_room(len(whole), QueuedTotals(count, size, queued_bytes(tx.db, namespace)), limits)
    n = tx.db.execute(
        "INSERT INTO items (id, session_id, namespace, local_id, state, size, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            item.id,
            session_id,
            namespace,
            item.local_id,
            item.state.value,
            len(whole),
            encode(compact(summary)),
        ),
    ).lastrowid
    if summary != item:
        tx.db.execute("INSERT INTO item_bodies (n, body) VALUES (?, ?)", (n, whole))
    return count


def accept(
    tx: Transaction, namespace: str, session_id: str, item: QueueItem, limits: QueueLimits
) -> AcceptedItem:
    machine_id, queue = _find_session(tx.db, namespace, session_id)
    if item.local_id is not None:
        row = tx.db.execute(f"{_SELECT} AND local_id = ?", (session_id, item.local_id)).fetchone()
        if row is not None:
            position = _position(tx.db, session_id, row[0])
            return AcceptedItem(_stored_item(row).item, position, repeated=True, machine_id=machine_id)
    position = insert(tx, namespace, session_id, item, limits)
    summary = summarize(item)
    _publish(tx, namespace, session_id, queue, QueueChange(item.id, item.state, position, compact(summary)))
    return AcceptedItem(summary, position, repeated=False, machine_id=machine_id)


def read_open(db: sqlite3.Connection, session_id: str) -> tuple[QueueItem, ...]:
    """Return the summaries of the items without an outcome, in order."""
    return tuple(_stored_item(row).item for row in db.execute(_SELECT_OPEN, (session_id, -1)))


def read_whole(db: sqlite3.Connection, session_id: str) -> tuple[QueueItem, ...]:
    """Return the items without an outcome, whole except for the data of their attachments, in order."""
    rows = db.execute(_SELECT_OPEN, (session_id, -1)).fetchall()
    return tuple(without_data(_read_whole(db, row[0], _stored_item(row).item)) for row in rows)


def read_short_queue(db: sqlite3.Connection, session_id: str, queue: Queue) -> tuple[QueueItem, ...] | None:
    """Return the queue as updates show it; None if it is too long for that."""
    if len(queue) > SHORT_QUEUE:
        return None
    rows = db.execute(_SELECT_OPEN, (session_id, SHORT_QUEUE + 1)).fetchall()
    if len(rows) > SHORT_QUEUE:
        return None
    return combined_queue(queue, [_stored_item(row).item for row in rows])


def claim(tx: Transaction, session_id: str, link_id: int) -> list[QueueItem]:
    if (
        tx.db.execute("SELECT 1 FROM sessions WHERE id = ? AND phase = 'live'", (session_id,)).fetchone()
        is None
    ):
        return []
    rows = tx.db.execute(_SELECT_ACCEPTED, (session_id,)).fetchall()
    accepted = [_stored_item(row) for row in rows]
    numbers = {stored.item.id: row[0] for stored, row in zip(accepted, rows, strict=True)}
    claimed: list[QueueItem] = []
    for stored in items_to_claim(accepted, link_id):
        n = numbers[stored.item.id]
        tx.db.execute("UPDATE items SET offered = ? WHERE n = ?", (link_id, n))
        claimed.append(_read_whole(tx.db, n, stored.item))
    return claimed


def record_update(tx: Transaction, session_id: str, update: QueueUpdate) -> None:
    """Record what the runner says about an item. It has the attachments, so their data are not kept here."""
    row = tx.db.execute(f"{_SELECT} AND id = ?", (session_id, update.item_id)).fetchone()
    if row is None:
        return
    n, stored = row[0], _stored_item(row).item
    state = state_after(stored.state, update)
    if state is None:
        return
    _set_state(tx, update.item_id, state, update.reason)
    if stored.state is ItemState.ACCEPTED and stored.attachments and not state.final:
        whole = encode(without_data(_read_whole(tx.db, n, stored)))
        tx.db.execute("UPDATE item_bodies SET body = ? WHERE n = ?", (whole, n))


def fail(tx: Transaction, session_id: str, item_id: str, reason: str) -> None:
    row = tx.db.execute(
        "SELECT s.namespace, s.state FROM items AS i JOIN sessions AS s ON s.id = i.session_id"
        " WHERE i.id = ? AND i.session_id = ? AND i.state = 'accepted' AND s.phase = 'live'",
        (item_id, session_id),
    ).fetchone()
    if row is not None:
        queue = decode(row[1], SessionState).queue
        _end(tx, row[0], session_id, queue, _find(tx.db, session_id, item_id), ItemState.FAILED, reason)


def cancel(tx: Transaction, namespace: str, session_id: str, item_id: str) -> bool:
    _, queue = _find_session(tx.db, namespace, session_id)
    stored = _find(tx.db, session_id, item_id)
    action = cancel_item(stored)
    if action is ItemAction.CHANGE:
        reason = "cancelled by the sender"
        _end(tx, namespace, session_id, queue, stored, ItemState.CANCELLED, reason)
    return action is not ItemAction.ASK_RUNNER


def prioritize(
    tx: Transaction, namespace: str, session_id: str, item_id: str, *, ignore_claim: bool
) -> PrioritizedItem:
    machine_id, queue = _find_session(tx.db, namespace, session_id)
    stored = _find(tx.db, session_id, item_id)
    action = prioritize_item(stored, ignore_claim=ignore_claim)
    if action is ItemAction.CHANGE:
        item = replace(stored.item, delivery=Delivery.NOW)
        [(n,)] = tx.db.execute(
            "UPDATE items SET body = ? WHERE id = ? RETURNING n", (encode(compact(item)), item_id)
        ).fetchall()
        change = QueueChange(item_id, item.state, _position(tx.db, session_id, n), compact(item))
        _publish(tx, namespace, session_id, queue, change)
    return PrioritizedItem(machine_id, claimed=action is ItemAction.ASK_RUNNER)


def sessions_with_accepted_items(db: sqlite3.Connection, namespace: str, machine_id: str) -> list[str]:
    rows = db.execute(
        "SELECT DISTINCT i.session_id FROM items AS i JOIN sessions AS s ON s.id = i.session_id"
        " WHERE i.state IN ('accepted', 'queued', 'handed_over') AND i.state = 'accepted'"
        " AND s.machine_id = ? AND s.namespace = ? AND s.phase = 'live'",
        (machine_id, namespace),
    )
    return [id for (id,) in rows]


def move_bodies(db: sqlite3.Connection) -> None:
    """Leave only summaries in `items`. Earlier versions kept whole messages there, twice while they waited."""
    rows = db.execute(
        "SELECT n, state, coalesce(payload, body) FROM items WHERE payload IS NOT NULL OR length(body) > 300"
    ).fetchall()
    for n, state, body in rows:
        item = decode(body, QueueItem)
        summary = summarize(item)
        db.execute("UPDATE items SET body = ? WHERE n = ?", (encode(compact(summary)), n))
        if not ItemState(state).final and summary != item:
            db.execute("INSERT INTO item_bodies (n, body) VALUES (?, ?)", (n, body))


def _find_session(db: sqlite3.Connection, namespace: str, session_id: str) -> tuple[str, Queue]:
    """Return the machine of a visible session and what its runner has queued."""
    row = db.execute(
        "SELECT machine_id, state FROM sessions WHERE id = ? AND namespace = ? AND phase = 'live'",
        (session_id, namespace),
    ).fetchone()
    if row is None:
        raise NotFound("no such session")
    return row[0], decode(row[1], SessionState).queue


def _find(db: sqlite3.Connection, session_id: str, item_id: str) -> StoredItem:
    row = db.execute(f"{_SELECT} AND id = ?", (session_id, item_id)).fetchone()
    if row is None:
        raise NotFound("no such message in the queue")
    return _stored_item(row)


def _stored_item(row: tuple[Any, ...]) -> StoredItem:
    _, state, claimed_by, body = row
    return StoredItem(replace(decode(body, QueueItem), state=ItemState(state)), claimed_by)


def _read_whole(db: sqlite3.Connection, n: int, summary: QueueItem) -> QueueItem:
    """Return the whole item. The summary has what has changed since its arrival."""
    found = db.execute("SELECT body FROM item_bodies WHERE n = ?", (n,)).fetchone()
    if found is None:
        return summary
    return replace(decode(found[0], QueueItem), state=summary.state, delivery=summary.delivery)


def _position(db: sqlite3.Connection, session_id: str, n: int) -> int:
    """Return how many open items are before one."""
    return db.execute(f"{_COUNT_OPEN} AND n < ?", (session_id, n)).fetchone()[0]


def _end(
    tx: Transaction, namespace: str, session_id: str, queue: Queue, stored: StoredItem, state: ItemState, reason: str
) -> None:  # fmt: skip
    """Give an item that no runner has its outcome."""
    ended = replace(stored.item, state=state)
    _set_state(tx, ended.id, state, reason)
    _publish(tx, namespace, session_id, queue, QueueChange(ended.id, state), ended)


def _set_state(tx: Transaction, item_id: str, state: ItemState, reason: str | None) -> None:
    """An outcome also removes the body and frees the room in the namespace: see the triggers in `schema`."""
    tx.db.execute("UPDATE items SET state = ?, reason = ? WHERE id = ?", (state.value, reason, item_id))


def _publish(
    tx: Transaction, namespace: str, session_id: str, queue: Queue, change: QueueChange,
    ended: QueueItem | None = None,
) -> None:  # fmt: skip
    shown = read_short_queue(tx.db, session_id, queue)
    data = encode_queue_change(change, shown, updated_at=tx.now, ended=ended)
    tx.publish(namespace, "session-updated", session_id, data)
    tx.db.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (tx.now, session_id))
