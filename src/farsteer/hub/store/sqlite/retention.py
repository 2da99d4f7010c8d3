"""What the retention rules need to know of sessions, and the removal of one that nobody has used since."""

from __future__ import annotations

import sqlite3

from farsteer.core.retention import SessionRemoval
from farsteer.core.wire import encode
from farsteer.hub.store.base import RetainedSession
from farsteer.hub.store.sqlite import sessions
from farsteer.hub.store.sqlite.transaction import Transaction

# A session with its last entry and the time of its last use, and whether it works, starts, asks or has to answer.
_SELECT = (
    "SELECT id, seq, updated_at, status IN ('starting', 'working', 'waiting') OR pending > 0 OR EXISTS ("
    "  SELECT 1 FROM items WHERE session_id = sessions.id AND state IN ('accepted', 'queued', 'handed_over'))"
    " FROM sessions WHERE phase = 'live' AND namespace = ?"
)


def namespaces(db: sqlite3.Connection) -> list[str]:
    rows = db.execute("SELECT DISTINCT namespace FROM sessions WHERE phase = 'live' ORDER BY namespace")
    return [namespace for (namespace,) in rows]


def select(db: sqlite3.Connection, namespace: str) -> list[RetainedSession]:
    rows = db.execute(_SELECT, (namespace,))
    return [RetainedSession(id, seq, updated_at, bool(busy)) for id, seq, updated_at, busy in rows]


def measure(db: sqlite3.Connection, session_id: str) -> int:
    """Return the bytes of a session's entries."""
    [(size,)] = db.execute(
        "SELECT (SELECT coalesce(sum(length(body)), 0) FROM log WHERE subject = ?1)"
        " + (SELECT coalesce(sum(length(body)), 0) FROM copies WHERE session_id = ?1)",
        (session_id,),
    ).fetchall()
    return size


def remove(tx: Transaction, removal: SessionRemoval) -> str | None:
    row = tx.db.execute(f"{_SELECT} AND id = ?", (removal.namespace, removal.session_id)).fetchone()
    if row is None or row[2] != removal.updated_at or row[3]:
        return None
    reason = encode({"reason": removal.reason})
    return sessions.delete(tx, removal.namespace, removal.session_id, reason)
