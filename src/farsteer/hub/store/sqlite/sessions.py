"""The `sessions` table: sessions in creation, visible ones, and tombstones."""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

from farsteer.core.api import SessionView
from farsteer.core.errors import Conflict, NotFound
from farsteer.core.events import SessionStatus
from farsteer.core.queue import QueueItem
from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import decode, encode
from farsteer.hub.rules.view import SessionRow, session_view, without_attachment_data
from farsteer.hub.store.base import SessionFilter, StoredResponse
from farsteer.hub.store.sqlite import items as item_table
from farsteer.hub.store.sqlite.transaction import Transaction

CREATING = "creating"
LIVE = "live"
PURGING = "purging"
"""Deleted, with rows of its log still to go."""
DELETED = "deleted"

_PURGE_ROWS = 2000

_SELECT = (
    "SELECT s.id, s.namespace, s.machine_id, coalesce(m.active, 0), s.seq, s.cleared_seq, s.created_at, s.updated_at,"
    " s.spec, s.state, s.last_message FROM sessions AS s LEFT JOIN machines AS m ON m.id = s.machine_id"
    " WHERE s.phase = 'live'"
)

_TEXT_MATCHES = (
    r"(s.title LIKE ? ESCAPE '\' OR s.directory LIKE ? ESCAPE '\' OR s.last_message LIKE ? ESCAPE '\')"
)


def find(db: sqlite3.Connection, namespace: str, session_id: str, columns: str) -> tuple[Any, ...]:
    """Columns of a visible session of this namespace."""
    row = db.execute(
        f"SELECT {columns} FROM sessions WHERE id = ? AND namespace = ? AND phase = 'live'",  # noqa: S608
        (session_id, namespace),
    ).fetchone()
    if row is None:
        raise NotFound("no such session")
    return row


def read(db: sqlite3.Connection, namespace: str, session_id: str) -> SessionRow:
    row = db.execute(f"{_SELECT} AND s.id = ? AND s.namespace = ?", (session_id, namespace)).fetchone()
    if row is None:
        raise NotFound("no such session")
    return _row(db, row)


def _row(db: sqlite3.Connection, row: tuple[Any, ...]) -> SessionRow:
    id, namespace, machine, active, seq, cleared, created, updated, spec, state, last_message = row
    return SessionRow(
        id=id,
        namespace=namespace,
        machine_id=machine,
        reachable=bool(active),
        seq=seq,
        cleared_seq=cleared,
        created_at=created,
        updated_at=updated,
        spec=decode(spec, SessionSpec),
        state=decode(state, SessionState),
        accepted=tuple(item_table.accepted(db, id)),
        last_message=last_message,
    )


def select(
    db: sqlite3.Connection, namespace: str, where: SessionFilter, *, limit: int, after: tuple[int, str] | None
) -> list[SessionRow]:
    conditions, values = ["s.namespace = ?"], [namespace]

    def add(condition: str, *given: Any) -> None:
        conditions.append(condition)
        values.extend(given)

    if where.machine_id is not None:
        add("s.machine_id = ?", where.machine_id)
    if where.agent is not None:
        add("s.agent = ?", where.agent)
    if where.status is SessionStatus.UNREACHABLE:
        add("coalesce(m.active, 0) = 0")
    elif where.status is not None:
        add("m.active = 1 AND s.status = ?", where.status.value)
    if where.text:
        pattern = _like(where.text)
        add(_TEXT_MATCHES, pattern, pattern, pattern)
    if after is not None:
        add("(s.updated_at < ? OR (s.updated_at = ? AND s.id > ?))", after[0], after[0], after[1])
    rows = db.execute(
        f"{_SELECT} AND {' AND '.join(conditions)} ORDER BY s.updated_at DESC, s.id LIMIT ?", (*values, limit)
    ).fetchall()
    return [_row(db, row) for row in rows]


def _like(text: str) -> str:
    for special in "\\%_":
        text = text.replace(special, "\\" + special)
    return f"%{text}%"


def waiting(db: sqlite3.Connection, namespace: str) -> list[SessionRow]:
    rows = db.execute(f"{_SELECT} AND s.namespace = ? AND s.pending > 0", (namespace,)).fetchall()
    return [_row(db, row) for row in rows]


# -- changes


def begin(tx: Transaction, namespace: str, spec: SessionSpec) -> None:
    begun = tx.db.execute(
        "INSERT OR IGNORE INTO sessions (id, namespace, machine_id, phase, created_at, updated_at, spec)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (spec.id, namespace, spec.machine_id, CREATING, tx.now, tx.now, encode(spec)),
    ).rowcount
    if not begun:
        raise Conflict("a session with this id is there, or was")


class Shown(NamedTuple):
    """What only the hub knows of a session after a change."""

    last_message: str | None
    """A runner that has rewound or forked does not know what was before."""
    updated_at: int


def write_state(
    tx: Transaction,
    session_id: str,
    seq: int,
    state: SessionState,
    body: bytes | None = None,
    *,
    lived: bool = True,
) -> Shown:
    """`lived`: somebody said or did something, so the session is a recent one."""
    [row] = tx.db.execute(
        "UPDATE sessions SET seq = ?, updated_at = iif(?, ?, updated_at), status = ?, agent = ?, directory = ?,"
        " title = ?, last_message = coalesce(?, last_message), pending = ?, state = ? WHERE id = ?"
        " RETURNING last_message, updated_at",
        (
            seq, lived, tx.now, state.status.value, state.agent, state.directory, state.title, state.last_message,
            len(state.approvals), body or encode(state), session_id,
        ),
    ).fetchall()  # fmt: skip
    return Shown(*row)


def finish(
    tx: Transaction,
    session_id: str,
    state: SessionState | None,
    first_message: QueueItem | None,
    response: StoredResponse | None,
) -> SessionView:
    row = tx.db.execute(
        "SELECT namespace, seq, spec, state FROM sessions WHERE id = ? AND phase = ?", (session_id, CREATING)
    ).fetchone()
    if row is None:
        raise NotFound("the session is gone")
    namespace, seq, asked, stored = row
    spec = decode(asked, SessionSpec)
    write_state(tx, session_id, seq, _newest(spec, stored, state))
    tx.db.execute("UPDATE sessions SET phase = ? WHERE id = ?", (LIVE, session_id))
    if first_message is not None:
        item_table.insert(tx, session_id, first_message)
    view = session_view(read(tx.db, namespace, session_id))
    tx.tell(namespace, "session-added", session_id, encode(view))
    if spec.native_id is None:
        held = tx.db.execute(
            "SELECT seq, body FROM held WHERE session_id = ? ORDER BY seq", (session_id,)
        ).fetchall()
        tx.tell_messages(namespace, session_id, held)
    else:
        # What an agent remembers from before is no news, and may be long.
        tx.db.execute("INSERT INTO copies SELECT * FROM held WHERE session_id = ?", (session_id,))
        tx.db.execute("UPDATE sessions SET copied = ? WHERE id = ?", (seq, session_id))
    tx.db.execute("DELETE FROM held WHERE session_id = ?", (session_id,))
    if response is not None:
        tx.db.execute(
            "INSERT OR REPLACE INTO idempotency (namespace, key, digest, response, created_at)"
            " VALUES (?, ?, ?, ?, ?)",
            (namespace, response.key, response.digest, response.response, tx.now),
        )
    return view


def _newest(spec: SessionSpec, stored: bytes | None, given: SessionState | None) -> SessionState:
    """The runner's answer and its first events arrive in either order."""
    if stored is None:
        return given or SessionState(id=spec.id, agent=spec.agent or "", directory=spec.directory)
    known = decode(stored, SessionState)
    return without_attachment_data(given) if given is not None and given.seq > known.seq else known


def discard(tx: Transaction, session_id: str, *, keep_tombstone: bool) -> bool:
    """`keep_tombstone`: the runner may have made it. True: there is something to purge."""
    tx.db.execute("DELETE FROM held WHERE session_id = ?", (session_id,))
    return _discard(tx, "id = ? AND phase = ?", session_id, CREATING, keep_tombstone=keep_tombstone)


def discard_unfinished(tx: Transaction) -> None:
    """Creations that a former life of the hub left behind: their callers got no answer."""
    tx.db.execute("DELETE FROM held")
    _discard(tx, "phase = ?", CREATING, keep_tombstone=True)


def _discard(tx: Transaction, where: str, *values: str, keep_tombstone: bool) -> bool:
    """A fork may have copied much already: that is purged like a deleted session.

    One that a runner may have leaves a tombstone: a runner is told to forget what we know to be gone, and nothing else.
    """
    purges = tx.db.execute(
        f"UPDATE sessions SET phase = ?, spec = NULL, state = NULL WHERE {where}"  # noqa: S608
        " AND EXISTS (SELECT 1 FROM copies WHERE session_id = sessions.id)",
        (PURGING, *values),
    ).rowcount
    if keep_tombstone:
        tx.db.execute(
            f"UPDATE sessions SET phase = ?, spec = NULL, state = NULL WHERE {where}",  # noqa: S608
            (DELETED, *values),
        )
    else:
        tx.db.execute(f"DELETE FROM sessions WHERE {where}", values)  # noqa: S608
    return purges > 0


def delete(tx: Transaction, namespace: str, session_id: str) -> str:
    (machine_id,) = find(tx.db, namespace, session_id, "machine_id")
    tx.db.execute(
        "UPDATE sessions SET phase = ?, status = NULL, agent = NULL, directory = NULL, title = NULL,"
        " last_message = NULL, pending = 0, spec = NULL, state = NULL, updated_at = ? WHERE id = ?",
        (PURGING, tx.now, session_id),
    )
    tx.db.execute("DELETE FROM items WHERE session_id = ?", (session_id,))
    tx.db.execute("DELETE FROM resolved WHERE session_id = ?", (session_id,))
    tx.db.execute("DELETE FROM cuts WHERE session_id = ?", (session_id,))
    # What it spent was spent.
    tx.db.execute("UPDATE usage SET session_id = NULL WHERE session_id = ?", (session_id,))
    tx.tell(namespace, "session-removed", session_id)
    return str(machine_id)


def purge(tx: Transaction, session_id: str) -> bool:
    """Remove some rows of a deleted session's log; a long one must not hold the writer up. True: it is done."""
    gone = tx.db.execute(
        "DELETE FROM log WHERE cursor IN"
        " (SELECT cursor FROM log WHERE subject = ? AND type != 'session-removed' LIMIT ?)",
        (session_id, _PURGE_ROWS),
    ).rowcount
    if gone < _PURGE_ROWS:
        gone += tx.db.execute(
            "DELETE FROM copies WHERE session_id = ? AND seq IN"
            " (SELECT seq FROM copies WHERE session_id = ? LIMIT ?)",
            (session_id, session_id, _PURGE_ROWS - gone),
        ).rowcount
    if gone == _PURGE_ROWS:
        return False
    tx.db.execute("UPDATE sessions SET phase = ? WHERE id = ?", (DELETED, session_id))
    return True


def to_purge(db: sqlite3.Connection) -> list[str]:
    return [id for (id,) in db.execute("SELECT id FROM sessions WHERE phase = ?", (PURGING,))]
