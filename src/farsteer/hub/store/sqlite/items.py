"""The `items` table: people's messages from their acceptance to their outcome.

`body` is the item without the data of its attachments, `payload` the complete item until the runner has it, and
`offered` the link that claimed it last.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from msgspec.structs import replace

from farsteer.core.errors import NotFound
from farsteer.core.events import QueueUpdate
from farsteer.core.queue import Delivery, ItemState, Queue, QueueItem, without_data
from farsteer.core.session import SessionState
from farsteer.core.wire import decode, encode
from farsteer.hub.rules.queue import (
    ItemAction,
    StoredItem,
    accept_item,
    cancel_item,
    items_to_claim,
    prioritize_item,
    state_after,
)
from farsteer.hub.rules.view import encode_queue_change
from farsteer.hub.store.base import AcceptedItem, PrioritizedItem
from farsteer.hub.store.sqlite.transaction import Transaction

# The first condition on `state` is the one of the index `items_open`: SQLite uses the index only if it is repeated.
_SELECT_ACCEPTED = (
    "SELECT n, state, offered, body FROM items WHERE session_id = ?"
    " AND state IN ('accepted', 'queued', 'handed_over') AND state = 'accepted' ORDER BY n"
)
_COUNT_OPEN = (
    "SELECT count(*) FROM items WHERE session_id = ? AND state IN ('accepted', 'queued', 'handed_over')"
)
_SELECT = "SELECT n, state, offered, body FROM items WHERE session_id = ?"


def insert(tx: Transaction, session_id: str, item: QueueItem) -> None:
    tx.db.execute(
        "INSERT INTO items (id, session_id, local_id, state, body, payload) VALUES (?, ?, ?, ?, ?, ?)",
        (item.id, session_id, item.local_id, item.state.value, encode(without_data(item)), encode(item)),
    )


def accept(tx: Transaction, namespace: str, session_id: str, item: QueueItem) -> AcceptedItem:
    machine_id, state = _find_session(tx.db, namespace, session_id)
    known = None
    position = tx.db.execute(_COUNT_OPEN, (session_id,)).fetchone()[0]
    if item.local_id is not None:
        row = tx.db.execute(f"{_SELECT} AND local_id = ?", (session_id, item.local_id)).fetchone()
        if row is not None:
            known = _stored_item(row).item
            position = tx.db.execute(f"{_COUNT_OPEN} AND n < ?", (session_id, row[0])).fetchone()[0]
    accepted = accept_item(item, known, position)
    if not accepted.repeated:
        insert(tx, session_id, item)
        _publish_queue(tx, namespace, session_id, state)
    return AcceptedItem(accepted.item, position, accepted.repeated, machine_id)


def read_accepted(db: sqlite3.Connection, session_id: str) -> Queue:
    """Return the items that the runner has not confirmed, in order."""
    return tuple(_stored_item(row).item for row in db.execute(_SELECT_ACCEPTED, (session_id,)))


def claim(tx: Transaction, session_id: str, link_id: int) -> list[QueueItem]:
    accepted = [_stored_item(row) for row in tx.db.execute(_SELECT_ACCEPTED, (session_id,)).fetchall()]
    claimed: list[QueueItem] = []
    for stored in items_to_claim(accepted, link_id):
        [(payload,)] = tx.db.execute(
            "UPDATE items SET offered = ? WHERE id = ? RETURNING payload", (link_id, stored.item.id)
        ).fetchall()
        claimed.append(decode(payload, QueueItem))
    return claimed


def record_update(tx: Transaction, session_id: str, update: QueueUpdate) -> None:
    """Record what the runner says about an item. It has the attachments, so they are not kept here."""
    row = tx.db.execute(
        "SELECT state FROM items WHERE id = ? AND session_id = ?", (update.item_id, session_id)
    ).fetchone()
    state = None if row is None else state_after(ItemState(row[0]), update)
    if state is not None:
        _set_state(tx, update.item_id, state, update.reason)


def fail(tx: Transaction, session_id: str, item_id: str, reason: str) -> None:
    row = tx.db.execute(
        "SELECT s.namespace, s.state FROM items AS i JOIN sessions AS s ON s.id = i.session_id"
        " WHERE i.id = ? AND i.session_id = ? AND i.state = 'accepted'",
        (item_id, session_id),
    ).fetchone()
    if row is None:
        return
    failed = replace(_find(tx.db, session_id, item_id).item, state=ItemState.FAILED)
    _set_state(tx, item_id, failed.state, reason)
    _publish_queue(tx, row[0], session_id, decode(row[1], SessionState), failed)


def cancel(tx: Transaction, namespace: str, session_id: str, item_id: str) -> bool:
    _, state = _find_session(tx.db, namespace, session_id)
    stored = _find(tx.db, session_id, item_id)
    action = cancel_item(stored)
    if action is ItemAction.CHANGE:
        cancelled = replace(stored.item, state=ItemState.CANCELLED)
        _set_state(tx, item_id, cancelled.state, "cancelled by the sender")
        _publish_queue(tx, namespace, session_id, state, cancelled)
    return action is not ItemAction.ASK_RUNNER


def prioritize(
    tx: Transaction, namespace: str, session_id: str, item_id: str, *, ignore_claim: bool
) -> PrioritizedItem:
    machine_id, state = _find_session(tx.db, namespace, session_id)
    action = prioritize_item(_find(tx.db, session_id, item_id), ignore_claim=ignore_claim)
    if action is ItemAction.CHANGE:
        row = tx.db.execute("SELECT body, payload FROM items WHERE id = ?", (item_id,)).fetchone()
        body, payload = (encode(replace(decode(form, QueueItem), delivery=Delivery.NOW)) for form in row)
        tx.db.execute("UPDATE items SET body = ?, payload = ? WHERE id = ?", (body, payload, item_id))
        _publish_queue(tx, namespace, session_id, state)
    return PrioritizedItem(machine_id, claimed=action is ItemAction.ASK_RUNNER)


def sessions_with_accepted_items(db: sqlite3.Connection, namespace: str, machine_id: str) -> list[str]:
    rows = db.execute(
        "SELECT DISTINCT i.session_id FROM items AS i JOIN sessions AS s ON s.id = i.session_id"
        " WHERE i.state IN ('accepted', 'queued', 'handed_over') AND i.state = 'accepted'"
        " AND s.machine_id = ? AND s.namespace = ? AND s.phase = 'live'",
        (machine_id, namespace),
    )
    return [id for (id,) in rows]


def _find_session(db: sqlite3.Connection, namespace: str, session_id: str) -> tuple[str, SessionState]:
    """Return the machine and the state of a visible session."""
    row = db.execute(
        "SELECT machine_id, state FROM sessions WHERE id = ? AND namespace = ? AND phase = 'live'",
        (session_id, namespace),
    ).fetchone()
    if row is None:
        raise NotFound("no such session")
    return row[0], decode(row[1], SessionState)


def _find(db: sqlite3.Connection, session_id: str, item_id: str) -> StoredItem:
    row = db.execute(f"{_SELECT} AND id = ?", (session_id, item_id)).fetchone()
    if row is None:
        raise NotFound("no such message in the queue")
    return _stored_item(row)


def _stored_item(row: tuple[Any, ...]) -> StoredItem:
    _, state, claimed_by, body = row
    return StoredItem(replace(decode(body, QueueItem), state=ItemState(state)), claimed_by)


def _set_state(tx: Transaction, item_id: str, state: ItemState, reason: str | None) -> None:
    tx.db.execute(
        "UPDATE items SET state = ?, reason = ?, payload = NULL WHERE id = ?", (state.value, reason, item_id)
    )


def _publish_queue(
    tx: Transaction, namespace: str, session_id: str, state: SessionState, ended: QueueItem | None = None
) -> None:
    accepted = read_accepted(tx.db, session_id)
    change = encode_queue_change(state, accepted, updated_at=tx.now, ended=ended)
    tx.publish(namespace, "session-updated", session_id, change)
    tx.db.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (tx.now, session_id))
