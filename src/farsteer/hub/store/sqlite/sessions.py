"""The `sessions` table: sessions in creation, visible ones and tombstones, and what goes with them when they end."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from farsteer.core.api import SessionView
from farsteer.core.approvals import Approval, Outcome
from farsteer.core.errors import Conflict, ErrorCode, NotFound
from farsteer.core.events import ApprovalRequested, SessionStatus, decode_entry
from farsteer.core.foreign import HeldSession
from farsteer.core.identity import Identity
from farsteer.core.queue import QueueItem
from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import encode
from farsteer.hub.rules.queue import QueueLimits, combined_queue
from farsteer.hub.rules.quota import check_quota
from farsteer.hub.rules.session import (
    SessionPhase,
    first_state,
    lost_entries_notice,
    phase_after_discard,
)
from farsteer.hub.rules.view import SessionRow, session_view
from farsteer.hub.store.base import KnownSessions, Resolution, SessionFilter, StoredResponse
from farsteer.hub.store.sqlite import commands, drafts, foreign, items
from farsteer.hub.store.sqlite.checks import check_entry
from farsteer.hub.store.sqlite.transaction import Transaction
from farsteer.link.messages import KnownSession
from farsteer.storage.quarantine import decode_row

_RESPONSES_KEPT_MS = 7 * 86_400_000

_MAX_WHOLE_BYTES = 32 * 1024 * 1024
"""How much of large approvals is read at once. The others are shown as summaries."""

_MAX_KNOWN_BYTES = 2 * 1024 * 1024
"""About how much `read_known` returns at once."""

_PURGE_ROWS = 200
_PURGE_BYTES = 1024 * 1024
"""How much one transaction of a purge removes, so that a long log does not hold up the writer."""

_PURGED = (
    (
        "SELECT n, size FROM items WHERE session_id = ? LIMIT ?",
        "DELETE FROM items WHERE session_id = ? AND n = ?",
    ),
    (
        "SELECT cursor, coalesce(length(body), 0) FROM log WHERE subject = ? AND type != 'session-removed' LIMIT ?",
        "DELETE FROM log WHERE subject = ? AND cursor = ?",
    ),
    (
        "SELECT seq, length(body) FROM copies WHERE session_id = ? LIMIT ?",
        "DELETE FROM copies WHERE session_id = ? AND seq = ?",
    ),
)
"""The rows of a session by their keys and sizes, and how to remove one."""

_SELECT = (
    "SELECT s.id, s.namespace, s.machine_id, coalesce(m.active, 0), s.seq, s.created_at, s.updated_at,"
    " s.spec, s.state, s.last_message FROM sessions AS s LEFT JOIN machines AS m ON m.id = s.machine_id"
    " WHERE s.phase = 'live'"
)

_TEXT_MATCHES = (
    r"(s.title LIKE ? ESCAPE '\' OR s.directory LIKE ? ESCAPE '\' OR s.last_message LIKE ? ESCAPE '\')"
)


class SessionHead(NamedTuple):
    """The small columns of a session."""

    machine_id: str
    seq: int
    cleared_seq: int
    copied: int


def find(db: sqlite3.Connection, namespace: str, session_id: str) -> SessionHead:
    """Return a visible session of this namespace. Raises NotFound."""
    row = db.execute(
        "SELECT machine_id, seq, cleared_seq, copied FROM sessions"
        " WHERE id = ? AND namespace = ? AND phase = 'live'",
        (session_id, namespace),
    ).fetchone()
    if row is None:
        raise NotFound("no such session")
    return SessionHead(*row)


def read(
    db: sqlite3.Connection, namespace: str, session_id: str, *, whole_approvals: bool = False
) -> SessionRow:
    row = db.execute(f"{_SELECT} AND s.id = ? AND s.namespace = ?", (session_id, namespace)).fetchone()
    if row is None:
        raise NotFound("no such session")
    return _session_row(db, row, _MAX_WHOLE_BYTES if whole_approvals else 0)


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
        pattern = _like_pattern(where.text)
        add(_TEXT_MATCHES, pattern, pattern, pattern)
    if after is not None:
        add("(s.updated_at < ? OR (s.updated_at = ? AND s.id > ?))", after[0], after[0], after[1])
    rows = db.execute(
        f"{_SELECT} AND {' AND '.join(conditions)} ORDER BY s.updated_at DESC, s.id LIMIT ?", (*values, limit)
    ).fetchall()
    return [_session_row(db, row) for row in rows]


def select_with_approvals(db: sqlite3.Connection, namespace: str) -> list[SessionRow]:
    rows = db.execute(f"{_SELECT} AND s.namespace = ? AND s.pending > 0", (namespace,)).fetchall()
    share = _MAX_WHOLE_BYTES // max(1, len(rows))
    return [_session_row(db, row, share) for row in rows]


def read_queue(db: sqlite3.Connection, namespace: str, session_id: str) -> tuple[QueueItem, ...]:
    row = read(db, namespace, session_id)
    return combined_queue(row.state.queue, items.read_whole(db, session_id))


def read_known(db: sqlite3.Connection, namespace: str, session_ids: Sequence[str]) -> KnownSessions:
    found: list[KnownSession] = []
    room = _MAX_KNOWN_BYTES
    for position, id in enumerate(session_ids):
        if room <= 0:
            return KnownSessions(found, [*session_ids[position:]])
        row = db.execute(
            "SELECT spec, state FROM sessions WHERE id = ? AND namespace = ? AND phase = 'live'",
            (id, namespace),
        ).fetchone()
        if row is not None:
            spec, state = row[0], commands.read_state(db, id, row[1])
            found.append(KnownSession(decode_row(spec, SessionSpec, "sessions", id, id), state))
            room -= len(spec) + len(encode(state))
    return KnownSessions(found, [])


def is_id_unused(db: sqlite3.Connection, session_id: str) -> bool:
    return db.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone() is None


def resolution(
    db: sqlite3.Connection, namespace: str, session_id: str, approval_id: str
) -> Resolution | None:
    find(db, namespace, session_id)
    row = db.execute(
        "SELECT outcome, by, identity FROM resolved WHERE session_id = ? AND approval_id = ?",
        (session_id, approval_id),
    ).fetchone()
    if row is None:
        return None
    outcome, by, identity = row
    who = None if identity is None else decode_row(identity, Identity, "resolved", approval_id, session_id)
    return Resolution(Outcome(outcome), by, who)


def response(db: sqlite3.Connection, namespace: str, key: str) -> StoredResponse | None:
    row = db.execute(
        "SELECT key, digest, response FROM idempotency WHERE namespace = ? AND key = ?", (namespace, key)
    ).fetchone()
    return None if row is None else StoredResponse(*row)


def _session_row(db: sqlite3.Connection, row: tuple[Any, ...], whole_bytes: int = 0) -> SessionRow:
    """`whole_bytes` is how much to read of the log for approvals of which the state has only summaries."""
    id, namespace, machine, active, seq, created, updated, spec, encoded, last_message = row
    state = commands.read_state(db, id, encoded)
    return SessionRow(
        id=id,
        namespace=namespace,
        machine_id=machine,
        reachable=bool(active),
        seq=seq,
        created_at=created,
        updated_at=updated,
        spec=decode_row(spec, SessionSpec, "sessions", id, id),
        state=state,
        items=items.read_open(db, id),
        approvals=_whole_approvals(db, id, state.approvals, whole_bytes),
        last_message=last_message,
    )


def _whole_approvals(
    db: sqlite3.Connection, session_id: str, approvals: tuple[Approval, ...], max_bytes: int
) -> tuple[Approval, ...]:
    """Replace summaries by what the log has, as long as that is not more than `max_bytes`."""
    found: list[Approval] = []
    for approval in approvals:
        row, seq = None, approval.seq or 0
        if max_bytes > 0 and seq:
            row = db.execute(
                "SELECT body FROM log WHERE subject = ? AND seq = ?", (session_id, approval.seq)
            ).fetchone()
        if row is not None and len(row[0]) <= max_bytes:
            max_bytes -= len(row[0])
            event = decode_entry(check_entry(row[0], "log", session_id, seq)).content
            if isinstance(event, ApprovalRequested) and event.approval.id == approval.id:
                approval = event.approval
        found.append(approval)
    return tuple(found)


def _like_pattern(text: str) -> str:
    for special in "\\%_":
        text = text.replace(special, "\\" + special)
    return f"%{text}%"


# -- creation


def count(db: sqlite3.Connection, namespace: str) -> int:
    """Return how many sessions a namespace has, those in creation included."""
    # Two queries, because each phase has an index of its own.
    query = "SELECT (SELECT count(*) FROM sessions WHERE namespace = ?1 AND phase = 'live')"
    query += " + (SELECT count(*) FROM sessions WHERE namespace = ?1 AND phase = 'creating')"
    return db.execute(query, (namespace,)).fetchone()[0]


def begin(tx: Transaction, namespace: str, spec: SessionSpec, limit: int | None) -> None:
    if limit is not None:
        check_quota("sessions", count(tx.db, namespace), limit)
    inserted = tx.db.execute(
        "INSERT OR IGNORE INTO sessions (id, namespace, machine_id, phase, created_at, updated_at, spec)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (spec.id, namespace, spec.machine_id, SessionPhase.CREATING.value, tx.now, tx.now, encode(spec)),
    ).rowcount
    is_foreign = tx.db.execute("SELECT 1 FROM foreign_sessions WHERE id = ?", (spec.id,)).fetchone()
    if not inserted or is_foreign:
        raise Conflict("a session has this id already, or had it", code=ErrorCode.SESSION_ID_TAKEN)


def finish(
    tx: Transaction,
    session_id: str,
    state: SessionState | None,
    first_message: QueueItem | None,
    response: StoredResponse | None,
    limits: QueueLimits,
) -> SessionView:
    row = tx.db.execute(
        "SELECT namespace, seq, spec, state FROM sessions WHERE id = ? AND phase = ?",
        (session_id, SessionPhase.CREATING.value),
    ).fetchone()
    if row is None:
        raise NotFound("the session is not being created any more")
    namespace, seq, encoded_spec, stored = row
    spec = decode_row(encoded_spec, SessionSpec, "sessions", session_id, session_id)
    known = None if stored is None else commands.read_state(tx.db, session_id, stored)
    _write_whole_state(tx, session_id, seq, first_state(spec, known, state))
    _set_phase(tx, session_id, SessionPhase.LIVE)
    if first_message is not None:
        queued = items.read_totals(tx.db, namespace, session_id)
        items.insert(tx, namespace, session_id, first_message, queued, limits)
    view = session_view(read(tx.db, namespace, session_id))
    tx.publish(namespace, "session-added", session_id, encode(view))
    if spec.native_id is None:
        held = tx.db.execute(
            "SELECT seq, body FROM held WHERE session_id = ? ORDER BY seq", (session_id,)
        ).fetchall()
        tx.publish_entries(namespace, session_id, held)
    else:
        # The history of an imported conversation is not news, and may be long.
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


def _write_whole_state(tx: Transaction, session_id: str, seq: int, state: SessionState) -> None:
    commands.write(tx.db, session_id, state.commands)
    write_state(tx, session_id, seq, replace(state, commands=()))


class WrittenState(NamedTuple):
    """What the hub knows of a session after its state was written, and the runner does not."""

    last_message: str | None
    """The one before, if the new state has none: after a rewind or a fork the runner does not know it."""
    updated_at: int


def write_state(
    tx: Transaction,
    session_id: str,
    seq: int,
    state: SessionState,
    encoded: bytes | None = None,
    *,
    is_activity: bool = True,
) -> WrittenState:
    """Write a state. It has no commands: those have a table of their own."""
    [row] = tx.db.execute(
        "UPDATE sessions SET seq = ?, updated_at = iif(?, ?, updated_at), status = ?, agent = ?, directory = ?,"
        " title = ?, last_message = coalesce(?, last_message), pending = ?, state = ? WHERE id = ?"
        " RETURNING last_message, updated_at",
        (
            seq, is_activity, tx.now, state.status.value, state.agent, state.directory, state.title,
            state.last_message, len(state.approvals), encoded or encode(state), session_id,
        ),
    ).fetchall()  # fmt: skip
    return WrittenState(*row)


def discard(tx: Transaction, session_id: str, *, keep_tombstone: bool) -> bool:
    """Remove a session in creation. Return whether it has entries to be purged."""
    tx.db.execute("DELETE FROM held WHERE session_id = ?", (session_id,))
    commands.delete(tx.db, session_id)
    copies = tx.db.execute("SELECT 1 FROM copies WHERE session_id = ? LIMIT 1", (session_id,)).fetchone()
    phase = phase_after_discard(keep_tombstone=keep_tombstone, has_copy=copies is not None)
    creating = SessionPhase.CREATING.value
    if phase is None:
        tx.db.execute("DELETE FROM sessions WHERE id = ? AND phase = ?", (session_id, creating))
        return False
    discarded = tx.db.execute(
        "UPDATE sessions SET phase = ?, spec = NULL, state = NULL WHERE id = ? AND phase = ?",
        (phase.value, session_id, creating),
    ).rowcount
    return discarded > 0 and phase is SessionPhase.PURGING


# -- sessions that only their machines know


def adopt(tx: Transaction, namespace: str, held: HeldSession, limit: int | None) -> None:
    spec, last_lost, machine_id = held.spec, held.confirmed, held.spec.machine_id
    if not foreign.is_foreign(tx.db, namespace, machine_id, spec.id):
        if find(tx.db, namespace, spec.id).machine_id != machine_id:
            raise NotFound("no such session")
        return
    if limit is not None:
        check_quota("sessions", count(tx.db, namespace), limit)
    tx.db.execute(
        "INSERT INTO sessions (id, namespace, machine_id, phase, created_at, updated_at, cleared_seq, spec)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            spec.id, namespace, machine_id, SessionPhase.LIVE.value, tx.now, tx.now, max(0, last_lost - 1),
            encode(spec),
        ),
    )  # fmt: skip
    _write_whole_state(tx, spec.id, last_lost, held.state)
    tx.publish(namespace, "session-added", spec.id, encode(session_view(read(tx.db, namespace, spec.id))))
    if last_lost:
        tx.publish_entries(namespace, spec.id, [(last_lost, lost_entries_notice(spec.id, last_lost, tx.now))])


def end_foreign(tx: Transaction, namespace: str, machine_id: str, session_id: str) -> None:
    if not foreign.is_foreign(tx.db, namespace, machine_id, session_id):
        raise NotFound("no such session")
    tx.db.execute(
        "INSERT INTO sessions (id, namespace, machine_id, phase, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)",
        (session_id, namespace, machine_id, SessionPhase.DELETED.value, tx.now, tx.now),
    )


# -- deletion


def delete(tx: Transaction, namespace: str, session_id: str, reason: bytes | None = None) -> str:
    machine_id = find(tx.db, namespace, session_id).machine_id
    tx.db.execute(
        "UPDATE sessions SET phase = ?, status = NULL, agent = NULL, directory = NULL, title = NULL,"
        " last_message = NULL, pending = 0, spec = NULL, state = NULL, updated_at = ? WHERE id = ?",
        (SessionPhase.PURGING.value, tx.now, session_id),
    )
    commands.delete(tx.db, session_id)
    drafts.delete(tx.db, session_id)
    tx.db.execute("DELETE FROM resolved WHERE session_id = ?", (session_id,))
    tx.db.execute("DELETE FROM cuts WHERE session_id = ?", (session_id,))
    # The sums keep what it used.
    tx.db.execute("UPDATE usage SET session_id = NULL WHERE session_id = ?", (session_id,))
    tx.publish(namespace, "session-removed", session_id, reason)
    return machine_id


def purge(tx: Transaction, session_id: str) -> bool:
    """Remove some rows of a deleted session. Return whether all are gone."""
    room = _PURGE_BYTES
    for select, delete in _PURGED:
        rows = tx.db.execute(select, (session_id, _PURGE_ROWS)).fetchall()
        for key, size in rows:
            tx.db.execute(delete, (session_id, key))
            room -= size
            if room <= 0:
                return False
        if len(rows) == _PURGE_ROWS:
            return False
    _set_phase(tx, session_id, SessionPhase.DELETED)
    return True


def recover(tx: Transaction) -> list[str]:
    """End what an earlier run of the hub left unfinished. Return the sessions whose entries are to be purged.

    Creations are discarded: nobody was answered. Their runners may have created them, so tombstones stay.
    """
    for session_id in _ids_in(tx.db, SessionPhase.CREATING):
        discard(tx, session_id, keep_tombstone=True)
    tx.db.execute("DELETE FROM idempotency WHERE created_at < ?", (tx.now - _RESPONSES_KEPT_MS,))
    return _ids_in(tx.db, SessionPhase.PURGING)


def _ids_in(db: sqlite3.Connection, phase: SessionPhase) -> list[str]:
    return [id for (id,) in db.execute("SELECT id FROM sessions WHERE phase = ?", (phase.value,))]


def _set_phase(tx: Transaction, session_id: str, phase: SessionPhase) -> None:
    tx.db.execute("UPDATE sessions SET phase = ? WHERE id = ?", (phase.value, session_id))
