"""The `foreign_sessions` table: sessions that machines have and this hub never had.

A row is what a machine claims. A session that exists here, or existed, is not foreign, whoever names it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

MAX_FOREIGN = 1000
"""How many are kept of one machine. The others follow when some of these are adopted or ended."""

_FOREIGN = (
    "FROM foreign_sessions AS f WHERE f.machine_id = ? AND f.namespace = ?"
    " AND NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.id = f.id)"
)


def replace(db: sqlite3.Connection, namespace: str, machine_id: str, claimed: Collection[str]) -> bool:
    """Store which foreign sessions a machine named when it connected. Return whether they are others than before."""
    known = {
        id for (id,) in db.execute("SELECT id FROM foreign_sessions WHERE machine_id = ?", (machine_id,))
    }
    kept = known.intersection(claimed)
    new = [id for id in claimed if id not in known][: MAX_FOREIGN - len(kept)]
    db.executemany(
        "DELETE FROM foreign_sessions WHERE machine_id = ? AND id = ?",
        [(machine_id, id) for id in known - kept],
    )
    db.executemany(
        "INSERT OR REPLACE INTO foreign_sessions (machine_id, id, namespace) VALUES (?, ?, ?)",
        [(machine_id, id, namespace) for id in new],
    )
    return bool(new) or kept != known


def select(db: sqlite3.Connection, namespace: str, machine_id: str) -> list[str]:
    return [id for (id,) in db.execute(f"SELECT f.id {_FOREIGN} ORDER BY f.id", (machine_id, namespace))]


def is_foreign(db: sqlite3.Connection, namespace: str, machine_id: str, session_id: str) -> bool:
    return (
        db.execute(f"SELECT 1 {_FOREIGN} AND f.id = ?", (machine_id, namespace, session_id)).fetchone()
        is not None
    )


def is_news(db: sqlite3.Connection, machine_id: str, session_id: str) -> bool:
    """Return whether nobody has heard of a session: it is not here, and the machine has not named it before."""
    query = (
        "SELECT EXISTS (SELECT 1 FROM foreign_sessions WHERE machine_id = ? AND id = ?)"
        " OR EXISTS (SELECT 1 FROM sessions WHERE id = ?)"
    )
    return not db.execute(query, (machine_id, session_id, session_id)).fetchone()[0]


def forget(db: sqlite3.Connection, machine_id: str) -> None:
    db.execute("DELETE FROM foreign_sessions WHERE machine_id = ?", (machine_id,))
