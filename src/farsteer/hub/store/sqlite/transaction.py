"""A change of the database, together with the events of the feed that report it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import Raw

from farsteer.hub.feed import MESSAGE, SyncEvent, message_events, sync_event

_LATEST = 0
"""The `seq` of a subject's one row of `publish_latest`; entries of a log begin at 1."""

_ROW = "INTO log (namespace, type, subject, seq, created_at, body) VALUES (?, ?, ?, ?, ?, ?)"
_INSERT = f"INSERT {_ROW}"
_INSERT_OR_REPLACE = f"INSERT OR REPLACE {_ROW}"


class Transaction:
    """Runs in the writer's thread. What it publishes reaches the feed after the commit."""

    __slots__ = ("announced", "begins_epoch", "db", "epoch", "now", "published")

    def __init__(self, db: sqlite3.Connection, epoch: str, now: int) -> None:
        self.db = db
        self.now = now
        self.epoch = epoch
        self.begins_epoch = False
        """The epoch is a new one."""
        self.published: list[SyncEvent] = []
        self.announced: list[SyncEvent] = []
        """What is published after those, and not stored."""

    def begin_epoch(self, epoch: str) -> None:
        """Give the cursors of this epoch from now on, which the caller has stored."""
        self.epoch, self.begins_epoch = epoch, True

    def publish(self, namespace: str, type: str, subject: str, payload: bytes | None = None) -> None:
        self._publish(namespace, type, subject, None, payload)

    def announce(self, namespace: str, type: str, subject: str, payload: bytes) -> None:
        """Publish an event that is not stored. For a slow client the last one of a kind and subject is enough."""
        event = sync_event(namespace, type, subject, payload, merge_key=f"{type}:{subject}")
        self.announced.append(event)

    def publish_latest(self, namespace: str, type: str, subject: str, payload: bytes | None) -> None:
        """Publish an event that makes the subject's previous one of this kind obsolete: it replaces that row."""
        self._publish(namespace, type, subject, _LATEST, payload)

    def publish_entries(
        self, namespace: str, session_id: str, entries: Sequence[tuple[int, bytes | Raw]]
    ) -> None:
        """Publish entries of a session's log, given as (seq, encoded entry)."""
        rows = [(namespace, MESSAGE, session_id, seq, self.now, body) for seq, body in entries]
        if len(rows) == 1:
            first = self.db.execute(_INSERT, rows[0]).lastrowid or 0
        else:
            first = last_cursor(self.db) + 1
            self.db.executemany(_INSERT, rows)
        numbered = [(cursor, body) for cursor, (_, body) in enumerate(entries, first)]
        self.published += message_events(namespace, session_id, self.epoch, numbered)

    def _publish(
        self, namespace: str, type: str, subject: str, seq: int | None, payload: bytes | None
    ) -> None:
        # SQLite gives it the cursor after the last row's, before it removes a row that this one replaces.
        row = (namespace, type, subject, seq, self.now, payload)
        cursor = self.db.execute(_INSERT_OR_REPLACE, row).lastrowid
        self.published.append(sync_event(namespace, type, subject, payload, epoch=self.epoch, cursor=cursor))


def last_cursor(db: sqlite3.Connection) -> int:
    """The next cursor is one more. One writer and a last row that is never deleted (see `schema`) make that unique."""
    return db.execute("SELECT max(cursor) FROM log").fetchone()[0] or 0
