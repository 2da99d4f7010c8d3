"""The `copies` table: what a forked session has of its source. It is written while nobody sees the session.

A fork takes over the conversation and leaves out how it came about: queue, launches, approvals, usage. Its entries are
numbered anew. They are no news, so they have no place in the feed; pages by `seq` show them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.errors import NotFound
from farsteer.core.events import Entry, decode_entry, role_of
from farsteer.core.session import SessionSpec
from farsteer.core.wire import encode
from farsteer.hub.store.base import CopyProgress, SeqRange
from farsteer.hub.store.sqlite import visible
from farsteer.hub.store.sqlite.rewinds import shown_text
from farsteer.hub.store.sqlite.sessions import CREATING, find
from farsteer.hub.store.sqlite.transaction import Transaction

_CHUNK_ROWS = 500
_CHUNK_BYTES = 4 * 1024 * 1024

_CONVERSATION = (
    ev.UserMessage, ev.AgentMessage, ev.AgentThought, ev.ToolCall, ev.ToolCallUpdate, ev.Plan, ev.Notice, ev.Other,
)  # fmt: skip


def stretches(db: sqlite3.Connection, namespace: str, session_id: str, upto: int | None) -> list[SeqRange]:
    """What is visible now, up to and with an entry, oldest first."""
    seq, cleared = find(db, namespace, session_id, "seq, cleared_seq")
    end = seq if upto is None else min(upto, seq)
    return [SeqRange(*found) for found in visible.oldest_first(db, session_id, cleared, end + 1)]


def read(
    db: sqlite3.Connection,
    namespace: str,
    source: str,
    target: str,
    stretches: Sequence[SeqRange],
    so_far: CopyProgress,
) -> tuple[list[tuple[int, bytes]], CopyProgress]:
    """The next entries of the copy, and how far it is with them.

    A source that is deleted meanwhile is NotFound; one that goes on or is rewound changes nothing.
    """
    (copied,) = find(db, namespace, source, "copied")
    work = _Work(target, so_far)
    seen = size = 0
    for first, last in stretches:
        first = max(first, so_far.source_seq + 1)
        for seq, body in visible.rows(db, source, copied, (first, last)):
            work.take(seq, body)
            seen, size = seen + 1, size + len(body)
            if seen == _CHUNK_ROWS or size > _CHUNK_BYTES:
                return work.rows, work.copied(whole=False)
    work.close()
    return work.rows, work.copied(whole=True)


class _Work:
    """One chunk of a copy in the making."""

    def __init__(self, target: str, so_far: CopyProgress) -> None:
        self.rows: list[tuple[int, bytes]] = []
        self._target = target
        self._count = so_far.count
        self._at = so_far.source_seq
        self._time = so_far.source_time
        self._turn = so_far.open_turn
        self._anchor = so_far.anchor
        self._answered = so_far.answered
        self._last_message = so_far.last_message

    def copied(self, *, whole: bool) -> CopyProgress:
        return CopyProgress(
            count=self._count, source_seq=self._at, source_time=self._time, open_turn=self._turn, anchor=self._anchor,
            answered=self._answered, last_message=self._last_message, done=whole,
        )  # fmt: skip

    def take(self, seq: int, body: bytes) -> None:
        entry = decode_entry(body)
        event = entry.content
        if isinstance(event, ev.TurnStart):
            self.close()
            self._add(entry)
            self._turn = event.turn_id
        elif isinstance(event, ev.TurnEnd):
            if event.turn_id == self._turn:
                self._add(entry)
                self._turn = None
        elif isinstance(event, _CONVERSATION):
            self._add(entry)
            self._heed(event)
        self._at, self._time = seq, entry.created_at

    def close(self) -> None:
        """A turn has one end, also where the copy ends inside it."""
        if self._turn is not None:
            end = ev.TurnEnd(
                turn_id=self._turn, reason=ev.TurnEndReason.CANCELLED, error="the conversation was forked here"
            )  # fmt: skip
            self._add(Entry(id="", seq=0, role=role_of(end), created_at=self._time, content=end))
            self._turn = None

    def _add(self, entry: Entry) -> None:
        self._count += 1
        numbered = replace(entry, id=f"{self._target}:{self._count}", seq=self._count)
        self.rows.append((self._count, encode(numbered)))

    def _heed(self, event: ev.SessionEvent) -> None:
        self._last_message = shown_text(event) or self._last_message
        if isinstance(event, ev.AgentMessage | ev.AgentThought):
            self._answered = True
            self._anchor = event.anchor or self._anchor


def write(tx: Transaction, session_id: str, rows: Sequence[tuple[int, bytes]]) -> None:
    _creating(tx, session_id)
    tx.db.executemany(
        "INSERT INTO copies (session_id, seq, body) VALUES (?, ?, ?)",
        [(session_id, seq, body) for seq, body in rows],
    )


def finish(tx: Transaction, spec: SessionSpec, copied: CopyProgress) -> None:
    """The copy is whole: the session's own log begins after it."""
    _creating(tx, spec.id)
    tx.db.execute(
        "UPDATE sessions SET seq = ?, copied = ?, last_message = ?, spec = ? WHERE id = ?",
        (copied.count, copied.count, copied.last_message, encode(spec), spec.id),
    )


def _creating(tx: Transaction, session_id: str) -> None:
    row = tx.db.execute(
        "SELECT 1 FROM sessions WHERE id = ? AND phase = ?", (session_id, CREATING)
    ).fetchone()
    if row is None:
        raise NotFound("the session is gone")
