"""The `items` table: people's messages from the moment they are accepted to their outcome."""

from __future__ import annotations

import sqlite3

import msgspec

from farsteer.core.errors import Conflict, ErrorCode, NotFound
from farsteer.core.events import QueueUpdate
from farsteer.core.queue import MAX_QUEUED, Delivery, ItemState, QueueItem, without_data
from farsteer.core.session import SessionState
from farsteer.core.wire import decode, encode
from farsteer.hub.rules.view import combined_queue, encode_update
from farsteer.hub.store.base import AcceptedItem, PrioritizedItem
from farsteer.hub.store.sqlite.transaction import Transaction

_OPEN = "state IN ('accepted', 'queued', 'handed_over')"


def insert(tx: Transaction, session_id: str, item: QueueItem) -> None:
    body = encode(without_data(item))
    tx.db.execute(
        "INSERT INTO items (id, session_id, local_id, state, body, payload) VALUES (?, ?, ?, ?, ?, ?)",
        (item.id, session_id, item.local_id, item.state.value, body, encode(item)),
    )


def accept(tx: Transaction, namespace: str, session_id: str, item: QueueItem) -> AcceptedItem:
    """Store `item`, or find the one that was stored under its local id before."""
    machine_id, state = _session(tx.db, namespace, session_id)
    known = _by_local_id(tx.db, session_id, item.local_id)
    if known is not None:
        n, stored = known
        return AcceptedItem(stored, _before(tx.db, session_id, n), repeated=True, machine_id=machine_id)
    position = _before(tx.db, session_id, None)
    if position >= MAX_QUEUED:
        raise Conflict(f"{MAX_QUEUED} messages wait already", code=ErrorCode.QUEUE_FULL)
    insert(tx, session_id, item)
    _tell_queue(tx, namespace, session_id, state)
    return AcceptedItem(without_data(item), position, repeated=False, machine_id=machine_id)


def accepted(db: sqlite3.Connection, session_id: str) -> list[QueueItem]:
    rows = db.execute(
        f"SELECT body FROM items WHERE session_id = ? AND {_OPEN} AND state = 'accepted' ORDER BY n",  # noqa: S608
        (session_id,),
    )
    return [decode(body, QueueItem) for (body,) in rows]


def claim(tx: Transaction, session_id: str, link_id: int) -> list[QueueItem]:
    rows = tx.db.execute(
        f"UPDATE items SET offered = ? WHERE session_id = ? AND {_OPEN} AND state = 'accepted' AND offered != ?"  # noqa: S608
        " RETURNING n, payload",
        (link_id, session_id, link_id),
    ).fetchall()
    offered = [decode(payload, QueueItem) for _, payload in sorted(rows)]
    return sorted(offered, key=lambda item: item.delivery is not Delivery.NOW)


def follow(tx: Transaction, session_id: str, update: QueueUpdate) -> None:
    """The runner has the item now, so its attachments need not be kept here. An outcome is never changed."""
    if update.state is ItemState.ACCEPTED:
        return  # only we say that
    tx.db.execute(
        f"UPDATE items SET state = ?, reason = ?, payload = NULL WHERE id = ? AND session_id = ? AND {_OPEN}",  # noqa: S608
        (update.state.value, update.reason, update.item_id, session_id),
    )


def fail(tx: Transaction, session_id: str, item_id: str, reason: str) -> None:
    row = tx.db.execute(
        "SELECT i.body, s.namespace, s.state FROM items AS i JOIN sessions AS s ON s.id = i.session_id"
        " WHERE i.id = ? AND i.session_id = ? AND i.state = 'accepted'",
        (item_id, session_id),
    ).fetchone()
    if row is None:
        return
    body, namespace, state = row
    _settle(tx, item_id, ItemState.FAILED, reason)
    failed = msgspec.structs.replace(decode(body, QueueItem), state=ItemState.FAILED)
    _tell_queue(tx, namespace, session_id, decode(state, SessionState), failed)


def cancel(tx: Transaction, namespace: str, session_id: str, item_id: str) -> bool:
    _, session = _session(tx.db, namespace, session_id)
    row = tx.db.execute(
        "SELECT state, offered, body FROM items WHERE id = ? AND session_id = ?", (item_id, session_id)
    ).fetchone()
    if row is None:
        raise NotFound("no such message in the queue")
    state, offered, body = ItemState(row[0]), row[1], row[2]
    if state is ItemState.CANCELLED:
        return True
    if state.final:
        raise Conflict(
            f"this message is {state.value} already", code=ErrorCode.NOT_CANCELLABLE, state=state.value
        )
    if state is not ItemState.ACCEPTED or offered:
        return False
    _settle(tx, item_id, ItemState.CANCELLED, "cancelled by the sender")
    cancelled = msgspec.structs.replace(decode(body, QueueItem), state=ItemState.CANCELLED)
    _tell_queue(tx, namespace, session_id, session, cancelled)
    return True


def prioritize(
    tx: Transaction, namespace: str, session_id: str, item_id: str, *, ignore_claim: bool
) -> PrioritizedItem:
    """Have an item that no runner has seen go as one to be sent now, whenever it goes."""
    machine_id, session = _session(tx.db, namespace, session_id)
    row = tx.db.execute(
        "SELECT state, offered, body, payload FROM items WHERE id = ? AND session_id = ?",
        (item_id, session_id),
    ).fetchone()
    if row is None:
        raise NotFound("no such message in the queue")
    state, offered, body, payload = ItemState(row[0]), bool(row[1]), row[2], row[3]
    if state.final or state is ItemState.HANDED_OVER:
        raise Conflict(
            f"this message is {state.value} already", code=ErrorCode.NOT_CANCELLABLE, state=state.value
        )
    if state is not ItemState.ACCEPTED or (offered and not ignore_claim):
        return PrioritizedItem(machine_id, claimed=True)
    body, payload = (
        encode(msgspec.structs.replace(decode(one, QueueItem), delivery=Delivery.NOW))
        for one in (body, payload)
    )
    tx.db.execute("UPDATE items SET body = ?, payload = ? WHERE id = ?", (body, payload, item_id))
    _tell_queue(tx, namespace, session_id, session)
    return PrioritizedItem(machine_id, claimed=False)


def sessions_with_accepted_items(db: sqlite3.Connection, namespace: str, machine_id: str) -> list[str]:
    rows = db.execute(
        f"SELECT DISTINCT i.session_id FROM items AS i JOIN sessions AS s ON s.id = i.session_id"  # noqa: S608
        f" WHERE i.{_OPEN} AND i.state = 'accepted' AND s.machine_id = ? AND s.namespace = ? AND s.phase = 'live'",
        (machine_id, namespace),
    )
    return [id for (id,) in rows]


def _session(db: sqlite3.Connection, namespace: str, session_id: str) -> tuple[str, SessionState]:
    row = db.execute(
        "SELECT machine_id, state FROM sessions WHERE id = ? AND namespace = ? AND phase = 'live'",
        (session_id, namespace),
    ).fetchone()
    if row is None:
        raise NotFound("no such session")
    return row[0], decode(row[1], SessionState)


def _by_local_id(
    db: sqlite3.Connection, session_id: str, local_id: str | None
) -> tuple[int, QueueItem] | None:
    if local_id is None:
        return None
    row = db.execute(
        "SELECT n, state, body FROM items WHERE session_id = ? AND local_id = ?", (session_id, local_id)
    ).fetchone()
    if row is None:
        return None
    return row[0], msgspec.structs.replace(decode(row[2], QueueItem), state=ItemState(row[1]))


def _before(db: sqlite3.Connection, session_id: str, n: int | None) -> int:
    """How many open items are before the one at `n`, or in all."""
    return db.execute(
        f"SELECT count(*) FROM items WHERE session_id = ? AND {_OPEN} AND (? IS NULL OR n < ?)",  # noqa: S608
        (session_id, n, n),
    ).fetchone()[0]


def _settle(tx: Transaction, item_id: str, state: ItemState, reason: str) -> None:
    tx.db.execute(
        "UPDATE items SET state = ?, reason = ?, payload = NULL WHERE id = ?", (state.value, reason, item_id)
    )


def _tell_queue(
    tx: Transaction, namespace: str, session_id: str, state: SessionState, settled: QueueItem | None = None
) -> None:
    """The queue as it is now, and once more the item that has just got its outcome here."""
    queue = combined_queue(state, accepted(tx.db, session_id))
    if settled is not None:
        queue = (*queue, settled)
    tx.tell(namespace, "session-updated", session_id, encode_update({"queue": queue, "updatedAt": tx.now}))
    tx.db.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (tx.now, session_id))
