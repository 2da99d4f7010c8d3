"""The journal: what must survive the death of the runner, in one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from farsteer.core.events import DeltaKind
from farsteer.core.queue import Attachment, QueueItem
from farsteer.core.session import SessionSpec, SessionState, bounded
from farsteer.core.wire import decode, encode
from farsteer.link.messages import EncodedEntry
from farsteer.runner.session.drafts import Draft, DraftDelta, DraftKey, assemble_drafts
from farsteer.storage.migrations import Migration
from farsteer.storage.writer import Writer

_KEPT_FINISHED_ITEMS = 500
_PAGE_ENTRIES = 1000
_PAGE_BYTES = 4 * 1024 * 1024


def _move_messages(db: sqlite3.Connection) -> None:
    """Move waiting messages out of the states, which only refer to them now, and join them with their attachments."""
    for session, encoded in db.execute("SELECT id, state FROM sessions").fetchall():
        for item in decode(encoded, _OldState).queue:
            row = db.execute(
                "SELECT attachments FROM payloads WHERE session = ? AND item = ?", (session, item.id)
            ).fetchone()
            attachments = item.attachments if row is None else decode(row[0], tuple[Attachment, ...])
            message = msgspec.structs.replace(item, attachments=attachments)
            db.execute(
                "INSERT INTO messages (session, item, body) VALUES (?, ?, ?)",
                (session, item.id, encode(message)),
            )
        state = bounded(decode(encoded, SessionState))
        db.execute("UPDATE sessions SET state = ? WHERE id = ?", (encode(state), session))


class _OldState(msgspec.Struct):
    """A state as it was before migration 3."""

    queue: tuple[QueueItem, ...] = ()


# Table `outbox` holds the entries that the hub has not confirmed, `messages` those of people that wait in the queue,
# `settled` the ids of items that have their outcome.
MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        1,
        """
        CREATE TABLE sessions (id TEXT PRIMARY KEY, spec BLOB NOT NULL, state BLOB NOT NULL);
        CREATE TABLE outbox (
            session TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL,
            PRIMARY KEY (session, seq)
        ) WITHOUT ROWID;
        CREATE TABLE settled (
            n INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, item TEXT NOT NULL
        );
        CREATE INDEX settled_by_session ON settled (session, n);
        CREATE TABLE payloads (
            session TEXT NOT NULL, item TEXT NOT NULL, attachments BLOB NOT NULL, PRIMARY KEY (session, item)
        );
        """,
    ),
    Migration(
        2,
        """
        CREATE TABLE drafts (
            n INTEGER PRIMARY KEY, session TEXT NOT NULL, kind TEXT NOT NULL, message TEXT NOT NULL,
            start INTEGER NOT NULL, text BLOB NOT NULL
        );
        CREATE INDEX drafts_by_message ON drafts (session, message, kind);
        """,
    ),
    Migration(
        3,
        """
        CREATE TABLE messages (
            session TEXT NOT NULL, item TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (session, item)
        );
        """,
    ),
    Migration(4, _move_messages),
    Migration(5, "DROP TABLE payloads;"),
)


@dataclass(frozen=True, slots=True)
class StoredSession:
    spec: SessionSpec
    state: SessionState
    finished_items: tuple[str, ...] = ()
    """Items that have their outcome, newest last. A repeated one is not a new message."""
    message_sizes: dict[str, int] = field(default_factory=dict[str, int])
    """The bytes of each waiting message."""
    drafts: tuple[Draft, ...] = ()


@dataclass(slots=True)
class JournalBatch:
    """Changes of one session that are committed together."""

    entries: list[EncodedEntry] = field(default_factory=list[EncodedEntry])
    finished_items: list[str] = field(default_factory=list[str])
    messages: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Encoded `QueueItem`s that begin to wait, by their ids."""
    finished_drafts: list[DraftKey] = field(default_factory=list[DraftKey])
    """Drafts that are no longer needed."""

    def extend(self, other: JournalBatch) -> None:
        self.entries += other.entries
        self.finished_items += other.finished_items
        self.messages |= other.messages
        self.finished_drafts += other.finished_drafts


class Journal:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    @classmethod
    async def open(cls, path: Path) -> Journal:
        return cls(await Writer.open(path, MIGRATIONS))

    async def close(self) -> None:
        await self._writer.close()

    async def load(self) -> list[StoredSession]:
        def read(db: sqlite3.Connection) -> list[StoredSession]:
            rows = db.execute("SELECT id, spec, state FROM sessions").fetchall()
            finished: dict[str, list[str]] = {}
            for session, item in db.execute("SELECT session, item FROM settled ORDER BY n"):
                finished.setdefault(session, []).append(item)
            sizes: dict[str, dict[str, int]] = {}
            for session, item, size in db.execute("SELECT session, item, length(body) FROM messages"):
                sizes.setdefault(session, {})[item] = size
            deltas: dict[str, list[DraftDelta]] = {}
            for session, kind, message, start, text in db.execute(
                "SELECT session, kind, message, start, text FROM drafts ORDER BY n"
            ):
                delta = DraftDelta(DraftKey(DeltaKind(kind), message), start, text.decode())
                deltas.setdefault(session, []).append(delta)
            return [
                StoredSession(
                    decode(spec, SessionSpec),
                    decode(state, SessionState),
                    tuple(finished.get(id, ())),
                    sizes.get(id, {}),
                    assemble_drafts(deltas.get(id, ())),
                )
                for id, spec, state in rows
            ]

        return await self._writer.run(read)

    async def create_session(self, spec: SessionSpec, state: SessionState) -> None:
        row = (spec.id, encode(spec), encode(state))

        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO sessions (id, spec, state) VALUES (?, ?, ?)", row)

        await self._writer.run(write)

    async def append(
        self, state: SessionState, batch: JournalBatch, draft_deltas: Sequence[DraftDelta] = ()
    ) -> None:
        """Commit `batch`, the state after it and new draft text. Returns when they are on the disk."""
        id = state.id
        messages = [(id, item, message) for item, message in batch.messages.items()]
        body = encode(state)
        entries = [(id, entry.seq, entry.kind, bytes(entry.body)) for entry in batch.entries]
        drafted = [
            (id, key.kind.value, key.message_id, start, text.encode(errors="replace"))
            for key, start, text in draft_deltas
        ]
        finished_drafts = [(id, key.message_id, key.kind.value) for key in batch.finished_drafts]
        finished_items = [(id, item) for item in batch.finished_items]

        def write(db: sqlite3.Connection) -> None:
            db.execute("UPDATE sessions SET state = ? WHERE id = ?", (body, id))
            db.executemany("INSERT INTO outbox (session, seq, kind, body) VALUES (?, ?, ?, ?)", entries)
            if messages:
                db.executemany("INSERT INTO messages (session, item, body) VALUES (?, ?, ?)", messages)
            if finished_drafts:
                db.executemany(
                    "DELETE FROM drafts WHERE session = ? AND message = ? AND kind = ?", finished_drafts
                )
            if drafted:
                db.executemany(
                    "INSERT INTO drafts (session, kind, message, start, text) VALUES (?, ?, ?, ?, ?)", drafted
                )
            if finished_items:
                db.executemany("DELETE FROM messages WHERE session = ? AND item = ?", finished_items)
                db.executemany("INSERT INTO settled (session, item) VALUES (?, ?)", finished_items)
                db.execute(
                    "DELETE FROM settled WHERE session = ? AND n <= (SELECT n FROM settled WHERE session = ?"
                    " ORDER BY n DESC LIMIT 1 OFFSET ?)",
                    (id, id, _KEPT_FINISHED_ITEMS),
                )

        await self._writer.run(write)

    async def read_message(self, session: str, item: str) -> bytes | None:
        """Return a waiting message, encoded."""

        def read(db: sqlite3.Connection) -> bytes | None:
            row = db.execute(
                "SELECT body FROM messages WHERE session = ? AND item = ?", (session, item)
            ).fetchone()
            return None if row is None else row[0]

        return await self._writer.run(read)

    async def unconfirmed(self, session: str, after: int) -> list[EncodedEntry]:
        """Return the next page of entries after `after` that the hub has not confirmed, oldest first."""

        def read(db: sqlite3.Connection) -> list[EncodedEntry]:
            page: list[EncodedEntry] = []
            size = 0
            rows = db.execute(
                "SELECT seq, kind, body FROM outbox WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?",
                (session, after, _PAGE_ENTRIES),
            )
            for seq, kind, body in rows:
                page.append(EncodedEntry(seq, kind, msgspec.Raw(body)))
                size += len(body)
                if size >= _PAGE_BYTES:
                    break
            return page

        return await self._writer.run(read)

    async def confirm(self, confirmed: dict[str, int]) -> None:
        """Delete the entries that the hub has committed: of each session those up to the given number."""
        rows = list(confirmed.items())

        def write(db: sqlite3.Connection) -> None:
            db.executemany("DELETE FROM outbox WHERE session = ? AND seq <= ?", rows)

        await self._writer.run(write)

    async def delete_session(self, session: str) -> None:
        def write(db: sqlite3.Connection) -> None:
            for statement in (
                "DELETE FROM outbox WHERE session = ?",
                "DELETE FROM settled WHERE session = ?",
                "DELETE FROM messages WHERE session = ?",
                "DELETE FROM drafts WHERE session = ?",
                "DELETE FROM sessions WHERE id = ?",
            ):
                db.execute(statement, (session,))

        await self._writer.run(write)
        await self._writer.erase()
