"""A change of the store, and the rows of the feed that tell of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import Raw

from farsteer.hub.feed import MESSAGE, SyncEvent, message_events, sync_event

_LATEST = 0
"""The place of a subject's one row of `tell_latest`; its log begins at 1."""


class Transaction:
    """Runs in the writer's thread. What is told here is published once it is committed."""

    __slots__ = ("_epoch", "_told", "db", "now")

    def __init__(self, db: sqlite3.Connection, epoch: str, now: int, told: list[SyncEvent]) -> None:
        self.db = db
        self.now = now
        self._epoch = epoch
        self._told = told

    def tell(self, namespace: str, type: str, subject: str, payload: bytes | None = None) -> None:
        self._tell(namespace, type, subject, None, payload)

    def tell_latest(self, namespace: str, type: str, subject: str, payload: bytes) -> None:
        """Of these only the last counts: it takes the place of the one before, so that they do not pile up."""
        self._tell(namespace, type, subject, _LATEST, payload)

    def _tell(self, namespace: str, type: str, subject: str, seq: int | None, payload: bytes | None) -> None:
        cursor = self._next_cursor()
        self.db.execute(
            "INSERT OR REPLACE INTO log (cursor, namespace, type, subject, seq, created_at, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (cursor, namespace, type, subject, seq, self.now, payload),
        )
        self._told.append(sync_event(namespace, type, subject, payload, epoch=self._epoch, cursor=cursor))

    def _next_cursor(self) -> int:
        return (self.db.execute("SELECT max(cursor) FROM log").fetchone()[0] or 0) + 1

    def tell_messages(self, namespace: str, session_id: str, rows: Sequence[tuple[int, bytes | Raw]]) -> None:
        """Entries of a session's log, as (seq, encoded entry)."""
        first = self._next_cursor()
        now = self.now
        self.db.executemany(
            "INSERT INTO log (cursor, namespace, type, subject, seq, created_at, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (cursor, namespace, MESSAGE, session_id, seq, now, body)
                for cursor, (seq, body) in enumerate(rows, first)
            ],
        )
        numbered = [(cursor, body) for cursor, (_, body) in enumerate(rows, first)]
        self._told += message_events(namespace, session_id, self._epoch, numbered)
