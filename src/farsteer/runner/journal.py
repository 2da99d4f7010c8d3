"""The journal: what a runner must not forget: each session, every event that the hub has not confirmed, and drafts."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from farsteer.core.events import DeltaKind
from farsteer.core.queue import Attachment
from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import decode, encode
from farsteer.link.messages import EncodedEntry
from farsteer.runner.session.drafts import Draft, DraftDelta, DraftKey, assemble
from farsteer.storage.migrations import Migration
from farsteer.storage.writer import Writer

_KEEP_SETTLED = 500
_PAGE_ITEMS = 1000
_PAGE_BYTES = 4 * 1024 * 1024

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
)


Payloads = dict[str, tuple[Attachment, ...]]


@dataclass(frozen=True, slots=True)
class StoredSession:
    spec: SessionSpec
    state: SessionState
    settled: tuple[str, ...] = ()
    """Items that have had their outcome, newest last: a repeat of one is not a new message."""
    payloads: Payloads = field(default_factory=dict[str, tuple[Attachment, ...]])
    """What is attached to the items that wait."""
    drafts: tuple[Draft, ...] = ()
    """What was streamed of messages that were not finished."""


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
            settled: dict[str, list[str]] = {}
            for session, item in db.execute("SELECT session, item FROM settled ORDER BY n"):
                settled.setdefault(session, []).append(item)
            payloads: dict[str, Payloads] = {}
            for session, item, body in db.execute("SELECT session, item, attachments FROM payloads"):
                payloads.setdefault(session, {})[item] = decode(body, tuple[Attachment, ...])
            pieces: dict[str, list[DraftDelta]] = {}
            for session, kind, message, start, text in db.execute(
                "SELECT session, kind, message, start, text FROM drafts ORDER BY n"
            ):
                piece = DraftDelta(DraftKey(DeltaKind(kind), message), start, text.decode())
                pieces.setdefault(session, []).append(piece)
            return [
                StoredSession(
                    decode(spec, SessionSpec),
                    decode(state, SessionState),
                    tuple(settled.get(id, ())),
                    payloads.get(id, {}),
                    assemble(pieces.get(id, ())),
                )
                for id, spec, state in rows
            ]

        return await self._writer.run(read)

    async def create(self, spec: SessionSpec, state: SessionState) -> None:
        row = (spec.id, encode(spec), encode(state))

        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO sessions (id, spec, state) VALUES (?, ?, ?)", row)

        await self._writer.run(write)

    async def append(
        self,
        state: SessionState,
        items: Sequence[EncodedEntry],
        settled: Sequence[str] = (),
        payloads: Payloads | None = None,
        drafts: Sequence[DraftDelta] = (),
        finished: Sequence[DraftKey] = (),
    ) -> None:
        """Commit `items` and the state after them. Returns when they are on the disk.

        `finished` are the drafts that are no longer needed, `drafts` what is new of others.
        """
        id = state.id
        files = [(id, item, encode(attached)) for item, attached in (payloads or {}).items()]
        body = encode(state)
        rows = [(id, item.seq, item.kind, bytes(item.body)) for item in items]
        pieces = [
            (id, key.kind.value, key.message_id, start, text.encode(errors="replace"))
            for key, start, text in drafts
        ]
        ends = [(id, key.message_id, key.kind.value) for key in finished]

        def write(db: sqlite3.Connection) -> None:
            db.execute("UPDATE sessions SET state = ? WHERE id = ?", (body, id))
            db.executemany("INSERT INTO outbox (session, seq, kind, body) VALUES (?, ?, ?, ?)", rows)
            if files:
                db.executemany("INSERT INTO payloads (session, item, attachments) VALUES (?, ?, ?)", files)
            if ends:
                db.executemany("DELETE FROM drafts WHERE session = ? AND message = ? AND kind = ?", ends)
            if pieces:
                db.executemany(
                    "INSERT INTO drafts (session, kind, message, start, text) VALUES (?, ?, ?, ?, ?)", pieces
                )
            if settled:
                done = [(id, one) for one in settled]
                db.executemany("DELETE FROM payloads WHERE session = ? AND item = ?", done)
                db.executemany("INSERT INTO settled (session, item) VALUES (?, ?)", done)
                db.execute(
                    "DELETE FROM settled WHERE session = ? AND n <= (SELECT n FROM settled WHERE session = ?"
                    " ORDER BY n DESC LIMIT 1 OFFSET ?)",
                    (id, id, _KEEP_SETTLED),
                )

        await self._writer.run(write)

    async def outbox(self, session: str, after: int) -> list[EncodedEntry]:
        """The next page of a session's unconfirmed events, oldest first."""

        def read(db: sqlite3.Connection) -> list[EncodedEntry]:
            page: list[EncodedEntry] = []
            size = 0
            rows = db.execute(
                "SELECT seq, kind, body FROM outbox WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?",
                (session, after, _PAGE_ITEMS),
            )
            for seq, kind, body in rows:
                page.append(EncodedEntry(seq, kind, msgspec.Raw(body)))
                size += len(body)
                if size >= _PAGE_BYTES:
                    break
            return page

        return await self._writer.run(read)

    async def confirm(self, confirmed: dict[str, int]) -> None:
        """Forget what the hub has committed."""
        rows = list(confirmed.items())

        def write(db: sqlite3.Connection) -> None:
            db.executemany("DELETE FROM outbox WHERE session = ? AND seq <= ?", rows)

        await self._writer.run(write)

    async def forget(self, session: str) -> None:
        def write(db: sqlite3.Connection) -> None:
            for statement in (
                "DELETE FROM outbox WHERE session = ?",
                "DELETE FROM settled WHERE session = ?",
                "DELETE FROM payloads WHERE session = ?",
                "DELETE FROM drafts WHERE session = ?",
                "DELETE FROM sessions WHERE id = ?",
            ):
                db.execute(statement, (session,))

        await self._writer.run(write)
