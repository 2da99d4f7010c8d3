"""The `items` table: people's messages from their acceptance to their outcome.

`body` is the summary of an item and `offered` the link that claimed it last. A message that is more than its summary is
in `item_bodies`, once, until it has an outcome; the log has its text then. The data of its attachments stay only until
the runner has them. `size` counts against the limits of the session and, summed up in `queued`, of the namespace.
`unlogged` is set for an outcome that the hub gave, until the session's log has it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from typing import Any

from msgspec.structs import replace

from farsteer.core.errors import NotFound
from farsteer.core.events import QueueUpdate
from farsteer.core.queue import (
    CompactItem,
    Delivery,
    ItemState,
    Queue,
    QueueItem,
    compact,
    summarize,
    without_data,
)
from farsteer.core.session import SessionState
from farsteer.core.wire import decode, encode
from farsteer.hub.rules.queue import (
    NOT_CLAIMED,
    RELEASED,
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
from farsteer.hub.rules.session import MachineItem
from farsteer.hub.rules.view import SHORT_QUEUE, encode_queue_change
from farsteer.hub.store.base import AcceptedItem, Claim, PrioritizedItem, UnloggedOutcome
from farsteer.hub.store.sqlite import drafts
from farsteer.hub.store.sqlite.transaction import Transaction
from farsteer.storage.quarantine import decode_row

# The first condition on `state` is the one of the index `items_open`: SQLite uses the index only if it is repeated.
_SELECT = "SELECT n, state, offered, body, session_id FROM items WHERE session_id = ?"
_SELECT_OPEN = f"{_SELECT} AND state IN ('accepted', 'queued', 'handed_over') ORDER BY n LIMIT ?"
_SELECT_STATE = (
    "SELECT n, state, EXISTS (SELECT 1 FROM item_bodies WHERE item_bodies.n = items.n) FROM items"
    " WHERE session_id = ? AND id = ?"
)
_SELECT_ACCEPTED = f"{_SELECT} AND state = 'accepted' ORDER BY n"
_CLAIMED_BYTES = 1024 * 1024
"""How much is claimed at a time, so that what is on its way to a runner stays small."""
_COUNT_OPEN = (
    "SELECT count(*) AS messages, coalesce(sum(size), 0) AS bytes FROM items"
    " WHERE session_id = ? AND state IN ('accepted', 'queued', 'handed_over')"
)
# All that is needed to accept a message, in one statement. The state, which may be long, only if it is used.
_SELECT_QUEUED = f"""
    SELECT s.machine_id, iif(open.messages < {SHORT_QUEUE}, s.state, NULL), open.messages, open.bytes,
        coalesce((SELECT bytes FROM queued WHERE namespace = s.namespace), 0),
        EXISTS (SELECT 1 FROM items WHERE session_id = s.id AND state = 'accepted' AND offered <> ?)
    FROM ({_COUNT_OPEN}) AS open JOIN sessions AS s ON s.id = ? AND s.namespace = ? AND s.phase = 'live'
"""  # noqa: S608


def queued_bytes(db: sqlite3.Connection, namespace: str) -> int:
    """Return the size of all messages that wait in a namespace."""
    row = db.execute("SELECT bytes FROM queued WHERE namespace = ?", (namespace,)).fetchone()
    return 0 if row is None else row[0]


def read_totals(db: sqlite3.Connection, namespace: str, session_id: str) -> QueuedTotals:
    count, size = db.execute(_COUNT_OPEN, (session_id,)).fetchone()
    return QueuedTotals(count, size, queued_bytes(db, namespace))


def insert(
    tx: Transaction, namespace: str, session_id: str, item: QueueItem, queued: QueuedTotals, limits: QueueLimits,
    claimed_by: int = NOT_CLAIMED,
) -> CompactItem:  # fmt: skip
    """Store a new item. `queued` is what waits already. Return its summary. Raises as `check_room` does."""
    whole, summary = encode(item), compact(summarize(item))
    check_room(len(whole), queued, limits)
    n = tx.db.execute(
        "INSERT INTO items (id, session_id, namespace, local_id, state, offered, size, body)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            item.id,
            session_id,
            namespace,
            item.local_id,
            item.state.value,
            claimed_by,
            len(whole),
            encode(summary),
        ),
    ).lastrowid
    if summary.truncated or item.attachments:
        tx.db.execute("INSERT INTO item_bodies (n, body) VALUES (?, ?)", (n, whole))
    return summary


def accept(
    tx: Transaction,
    namespace: str,
    session_id: str,
    item: QueueItem,
    limits: QueueLimits,
    claim: Claim | None = None,
) -> AcceptedItem:
    link_id = NOT_CLAIMED if claim is None else claim.link_id
    row = tx.db.execute(_SELECT_QUEUED, (link_id, session_id, session_id, namespace)).fetchone()
    if row is None:
        raise NotFound("no such session")
    machine_id, state, position, session_bytes, namespace_bytes, waits = row
    if item.local_id is not None:
        row = tx.db.execute(f"{_SELECT} AND local_id = ?", (session_id, item.local_id)).fetchone()
        if row is not None:
            before = _position(tx.db, session_id, row[0])
            return AcceptedItem(_stored_item(row).item, before, repeated=True, machine_id=machine_id)
    claimed_by = None
    if claim is not None and claim.machine_id == machine_id and not waits:
        claimed_by = link_id
    queued = QueuedTotals(position, session_bytes, namespace_bytes)
    summary = insert(tx, namespace, session_id, item, queued, limits, claimed_by or NOT_CLAIMED)
    _publish(tx, namespace, session_id, state, QueueChange(item.id, item.state, position, summary))
    drafts.empty_if_sent(tx, namespace, session_id, item)
    return AcceptedItem(summary, position, repeated=False, machine_id=machine_id, claimed_by=claimed_by)


def read_open(db: sqlite3.Connection, session_id: str) -> tuple[QueueItem, ...]:
    """Return the summaries of the items without an outcome, in order."""
    return tuple(_stored_item(row).item for row in db.execute(_SELECT_OPEN, (session_id, -1)).fetchall())


def read_whole(db: sqlite3.Connection, session_id: str) -> tuple[QueueItem, ...]:
    """Return the items without an outcome, whole except for the data of their attachments, in order."""
    rows = db.execute(_SELECT_OPEN, (session_id, -1)).fetchall()
    return tuple(without_data(_read_whole(db, session_id, row[0], _stored_item(row).item)) for row in rows)


def read_short_queue(db: sqlite3.Connection, session_id: str, queue: Queue) -> tuple[QueueItem, ...] | None:
    """Return the queue as updates show it; None if it is too long for that."""
    if len(queue) > SHORT_QUEUE:
        return None
    rows = db.execute(_SELECT_OPEN, (session_id, SHORT_QUEUE + 1)).fetchall()
    if len(rows) > SHORT_QUEUE:
        return None
    return combined_queue(queue, [_stored_item(row).item for row in rows])


def claim(
    tx: Transaction, session_id: str, link_id: int, *, again: bool, limit: int | None
) -> list[QueueItem]:
    if (
        tx.db.execute("SELECT 1 FROM sessions WHERE id = ? AND phase = 'live'", (session_id,)).fetchone()
        is None
    ):
        return []
    if again:
        tx.db.execute(
            "UPDATE items SET offered = ? WHERE session_id = ? AND state = 'accepted' AND offered = ?",
            (RELEASED, session_id, link_id),
        )
    rows = tx.db.execute(_SELECT_ACCEPTED, (session_id,)).fetchall()
    accepted = [_stored_item(row) for row in rows]
    numbers = {stored.item.id: row[0] for stored, row in zip(accepted, rows, strict=True)}
    claimed: list[QueueItem] = []
    size = 0
    for stored in items_to_claim(accepted, link_id)[:limit]:
        n = numbers[stored.item.id]
        [(added,)] = tx.db.execute(
            "UPDATE items SET offered = ? WHERE n = ? RETURNING size", (link_id, n)
        ).fetchall()
        claimed.append(_read_whole(tx.db, session_id, n, stored.item))
        size += added
        if limit is not None and size > _CLAIMED_BYTES:
            break
    return claimed


def record_update(tx: Transaction, session_id: str, update: QueueUpdate) -> None:
    """Record what the runner says about an item. It has the attachments, so their data are not kept here."""
    row = tx.db.execute(_SELECT_STATE, (session_id, update.item_id)).fetchone()
    if row is None:
        return
    n, stored, has_body = row[0], ItemState(row[1]), row[2]
    if stored.final and update.state.final:
        # The log has it now. If the hub gave it another outcome before it knew of this one, the log counts.
        tx.db.execute(
            "UPDATE items SET state = ?, reason = ?, unlogged = 0 WHERE n = ? AND unlogged = 1",
            (update.state.value, update.reason, n),
        )
        return
    state = state_after(stored, update)
    if state is None:
        return
    # An outcome also removes the body and frees the room in the namespace: see the triggers in `schema`.
    tx.db.execute("UPDATE items SET state = ?, reason = ? WHERE n = ?", (state.value, update.reason, n))
    if has_body and stored is ItemState.ACCEPTED and not state.final:
        _drop_attachments(tx, session_id, update.item_id, n)


def _drop_attachments(tx: Transaction, session_id: str, item_id: str, n: int) -> None:
    """Keep a waiting message without the data of its attachments."""
    stored = _find(tx.db, session_id, item_id).item
    if stored.attachments:
        whole = encode(without_data(_read_whole(tx.db, session_id, n, stored)))
        tx.db.execute("UPDATE item_bodies SET body = ? WHERE n = ?", (whole, n))


def fail(tx: Transaction, session_id: str, item_id: str, reason: str) -> None:
    settle(tx, session_id, item_id, ItemState.FAILED, reason, accepted_only=True)


def settle(
    tx: Transaction,
    session_id: str,
    item_id: str,
    state: ItemState,
    reason: str | None = None,
    *,
    accepted_only: bool = False,
) -> bool:
    row = tx.db.execute(
        "SELECT s.namespace, s.state FROM items AS i JOIN sessions AS s ON s.id = i.session_id"
        " WHERE i.id = ? AND i.session_id = ? AND i.state IN ('accepted', 'queued', 'handed_over')"
        " AND (i.state = 'accepted' OR NOT ?) AND s.phase = 'live'",
        (item_id, session_id, accepted_only),
    ).fetchone()
    if row is None:
        return False
    _end(tx, row[0], session_id, row[1], _find(tx.db, session_id, item_id), state, reason)
    return True


def unlogged(db: sqlite3.Connection, namespace: str, machine_id: str) -> list[UnloggedOutcome]:
    rows = db.execute(
        "SELECT i.n, i.session_id, i.body, i.state, i.reason, s.seq FROM items AS i"
        " JOIN sessions AS s ON s.id = i.session_id"
        " WHERE i.unlogged = 1 AND s.machine_id = ? AND s.namespace = ? AND s.phase = 'live' ORDER BY i.n",
        (machine_id, namespace),
    )
    return [
        UnloggedOutcome(
            session_id,
            replace(decode_row(body, QueueItem, "items", n, session_id), state=ItemState(state)),
            reason,
            seq,
        )
        for n, session_id, body, state, reason, seq in rows
    ]


def of_machine(
    db: sqlite3.Connection, namespace: str, machine_id: str, held: Mapping[str, Collection[str]]
) -> list[MachineItem]:
    """Return the items without an outcome of a machine's sessions, and those of the `held` ones that are stored."""
    rows = db.execute(
        "SELECT i.session_id, i.id, i.state, i.offered FROM items AS i JOIN sessions AS s ON s.id = i.session_id"
        " WHERE i.state IN ('accepted', 'queued', 'handed_over')"
        " AND s.machine_id = ? AND s.namespace = ? AND s.phase = 'live'",
        (machine_id, namespace),
    ).fetchall()
    for session_id, ids in held.items():
        for id in ids:
            rows += db.execute(
                "SELECT i.session_id, i.id, i.state, i.offered FROM items AS i"
                " JOIN sessions AS s ON s.id = i.session_id WHERE i.id = ? AND i.session_id = ?"
                " AND s.machine_id = ? AND s.namespace = ? AND s.phase = 'live'",
                (id, session_id, machine_id, namespace),
            ).fetchall()
    return [
        MachineItem(session_id, id, ItemState(state), offered != NOT_CLAIMED)
        for session_id, id, state, offered in rows
    ]


def cancel(tx: Transaction, namespace: str, session_id: str, item_id: str) -> bool:
    _, state = _find_session(tx.db, namespace, session_id)
    stored = _find(tx.db, session_id, item_id, state)
    action = cancel_item(stored)
    if action is ItemAction.CHANGE:
        reason = "cancelled by the sender"
        _end(tx, namespace, session_id, state, stored, ItemState.CANCELLED, reason)
    return action is not ItemAction.ASK_RUNNER


def prioritize(
    tx: Transaction, namespace: str, session_id: str, item_id: str, *, ignore_claim: bool
) -> PrioritizedItem:
    machine_id, state = _find_session(tx.db, namespace, session_id)
    stored = _find(tx.db, session_id, item_id, state)
    action = prioritize_item(stored, ignore_claim=ignore_claim)
    if action is ItemAction.CHANGE:
        item = replace(stored.item, delivery=Delivery.NOW)
        [(n,)] = tx.db.execute(
            "UPDATE items SET body = ? WHERE id = ? RETURNING n", (encode(compact(item)), item_id)
        ).fetchall()
        change = QueueChange(item_id, item.state, _position(tx.db, session_id, n), compact(item))
        _publish(tx, namespace, session_id, state, change)
    return PrioritizedItem(machine_id, claimed=action is ItemAction.ASK_RUNNER)


def sessions_with_accepted_items(db: sqlite3.Connection, namespace: str, machine_id: str) -> list[str]:
    rows = db.execute(
        "SELECT DISTINCT i.session_id FROM items AS i JOIN sessions AS s ON s.id = i.session_id"
        " WHERE i.state = 'accepted' AND s.machine_id = ? AND s.namespace = ? AND s.phase = 'live'",
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


def _find_session(db: sqlite3.Connection, namespace: str, session_id: str) -> tuple[str, bytes]:
    """Return the machine of a visible session and its state, encoded."""
    row = db.execute(
        "SELECT machine_id, state FROM sessions WHERE id = ? AND namespace = ? AND phase = 'live'",
        (session_id, namespace),
    ).fetchone()
    if row is None:
        raise NotFound("no such session")
    return row


def _find(db: sqlite3.Connection, session_id: str, item_id: str, session: bytes | None = None) -> StoredItem:
    """Return an item of a session. Raises NotFound, unless the runner has it, by the state of its `session`."""
    row = db.execute(f"{_SELECT} AND id = ?", (session_id, item_id)).fetchone()
    if row is not None:
        return _stored_item(row)
    queue: Queue = ()
    if session is not None:
        queue = decode_row(session, SessionState, "sessions", session_id, session_id).queue
    for item in combined_queue(queue, ()):
        if item.id == item_id:
            return StoredItem(item)
    raise NotFound("no such message in the queue")


def _stored_item(row: tuple[Any, ...]) -> StoredItem:
    n, state, claimed_by, body, session_id = row
    item = decode_row(body, QueueItem, "items", n, session_id)
    return StoredItem(replace(item, state=ItemState(state)), claimed_by)


def _read_whole(db: sqlite3.Connection, session_id: str, n: int, summary: QueueItem) -> QueueItem:
    """Return the whole item. The summary has what has changed since its arrival."""
    found = db.execute("SELECT body FROM item_bodies WHERE n = ?", (n,)).fetchone()
    if found is None:
        return summary
    item = decode_row(found[0], QueueItem, "item_bodies", n, session_id)
    return replace(item, state=summary.state, delivery=summary.delivery)


def _position(db: sqlite3.Connection, session_id: str, n: int) -> int:
    """Return how many open items are before one."""
    return db.execute(f"{_COUNT_OPEN} AND n < ?", (session_id, n)).fetchone()[0]


def _end(
    tx: Transaction, namespace: str, session_id: str, session: bytes, stored: StoredItem, state: ItemState,
    reason: str | None,
) -> None:  # fmt: skip
    """Give an item an outcome that the session's log does not have yet. `session` is the state of its session."""
    ended = replace(stored.item, state=state)
    _set_state(tx, ended.id, state, reason)
    tx.db.execute("UPDATE items SET unlogged = 1 WHERE id = ?", (ended.id,))
    _publish(tx, namespace, session_id, session, QueueChange(ended.id, state), ended)


def _set_state(tx: Transaction, item_id: str, state: ItemState, reason: str | None) -> None:
    """An outcome also removes the body and frees the room in the namespace: see the triggers in `schema`."""
    tx.db.execute("UPDATE items SET state = ?, reason = ? WHERE id = ?", (state.value, reason, item_id))


def _publish(
    tx: Transaction, namespace: str, session_id: str, session: bytes | None, change: QueueChange,
    ended: QueueItem | None = None,
) -> None:  # fmt: skip
    """`session` is the state of the session, encoded; None if the queue is known to be long."""
    shown = None
    if session is not None:
        state = decode_row(session, SessionState, "sessions", session_id, session_id)
        shown = read_short_queue(tx.db, session_id, state.queue)
    data = encode_queue_change(change, shown, updated_at=tx.now, ended=ended)
    tx.publish(namespace, "session-updated", session_id, data)
    tx.db.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (tx.now, session_id))
