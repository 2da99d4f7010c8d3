"""The `copies` table: entries at the start of a session's log that were never published.

A fork's copy of its source is written here while the session is not visible yet. The entries have no cursor, because
they are not news; pages of the log show them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from farsteer.core.errors import NotFound
from farsteer.core.session import SessionSpec
from farsteer.core.wire import encode
from farsteer.hub.rules.fork import CopyProgress, copy_chunk
from farsteer.hub.rules.session import SessionPhase
from farsteer.hub.rules.visibility import SeqRange
from farsteer.hub.store.sqlite.entries import read_range
from farsteer.hub.store.sqlite.sessions import find
from farsteer.hub.store.sqlite.transaction import Transaction


def read(
    db: sqlite3.Connection,
    namespace: str,
    source_id: str,
    target_id: str,
    ranges: Sequence[SeqRange],
    progress: CopyProgress,
) -> tuple[list[tuple[int, bytes]], CopyProgress]:
    """Return the next entries of the copy as (seq, body), and the progress with them."""
    copied = find(db, namespace, source_id).copied

    def source() -> Iterator[tuple[int, bytes]]:
        for first, last in ranges:
            yield from read_range(db, source_id, copied, SeqRange(max(first, progress.source_seq + 1), last))

    return copy_chunk(target_id, source(), progress)


def write(tx: Transaction, session_id: str, entries: Sequence[tuple[int, bytes]]) -> None:
    _require_creating(tx, session_id)
    tx.db.executemany(
        "INSERT INTO copies (session_id, seq, body) VALUES (?, ?, ?)",
        [(session_id, seq, body) for seq, body in entries],
    )


def finish(tx: Transaction, spec: SessionSpec, progress: CopyProgress) -> None:
    """The session's own entries begin after the copy."""
    _require_creating(tx, spec.id)
    tx.db.execute(
        "UPDATE sessions SET seq = ?, copied = ?, last_message = ?, spec = ? WHERE id = ?",
        (progress.count, progress.count, progress.last_message, encode(spec), spec.id),
    )


def _require_creating(tx: Transaction, session_id: str) -> None:
    row = tx.db.execute(
        "SELECT 1 FROM sessions WHERE id = ? AND phase = ?", (session_id, SessionPhase.CREATING.value)
    ).fetchone()
    if row is None:
        raise NotFound("the session is not being created any more")
