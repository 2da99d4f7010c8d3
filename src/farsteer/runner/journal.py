"""The journal: what must survive the death of the runner, in one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from farsteer.core.clock import now_ms
from farsteer.core.errors import FarsteerError, Unavailable
from farsteer.core.events import DeltaKind, Notice, SlashCommand, make_entry
from farsteer.core.queue import ItemState, QueueItem
from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import encode
from farsteer.link.messages import EncodedEntry, encode_entry
from farsteer.runner.journal_schema import (
    INSERT_COMMANDS,
    INSERT_OUTCOME,
    MIGRATIONS,
    encode_state,
    id_key,
)
from farsteer.runner.session.drafts import Draft, DraftDelta, DraftKey, assemble_drafts
from farsteer.storage.connection import connect
from farsteer.storage.failures import home_removed, storage_error
from farsteer.storage.quarantine import DamagedRow, Quarantine, decode_row, is_readable_json
from farsteer.storage.writer import Writer

_ENTRY_DAMAGED = Notice(
    text="This entry was damaged in runner.db. What is left of it is in runner.damaged.jsonl, beside the database.",
    level="error",
    code="entry_damaged",
)
_PAGE_ENTRIES = 1000
_PAGE_BYTES = 4 * 1024 * 1024


def _confirmed(db: sqlite3.Connection, state: SessionState) -> int:
    """Return the last entry that a hub has confirmed: all before those that are still kept for it."""
    [(first,)] = db.execute("SELECT min(seq) FROM outbox WHERE session = ?", (state.id,))
    return state.seq if first is None else first - 1


class ItemOutcome(NamedTuple):
    item_id: str
    state: ItemState
    seq: int
    """The entry of the log that has it. 0 if the hub has lost that entry."""


class LogPosition(NamedTuple):
    """What hub and memory have of a session's log. What is between them is in the journal, or lost."""

    session: str
    acked: int
    """The last entry that the hub has."""
    following: int
    """The first entry that is in memory, or the one that would come next."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    spec: SessionSpec
    state: SessionState
    message_sizes: dict[str, int] = field(default_factory=dict[str, int])
    """The bytes of each waiting message."""
    drafts: tuple[Draft, ...] = ()
    confirmed: int = 0
    """The last entry that a hub has confirmed."""


@dataclass(slots=True)
class JournalBatch:
    """Changes of one session that are committed together."""

    entries: list[EncodedEntry] = field(default_factory=list[EncodedEntry])
    outcomes: list[ItemOutcome] = field(default_factory=list[ItemOutcome])
    messages: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Encoded `QueueItem`s that begin to wait, by their ids."""
    finished_drafts: list[DraftKey] = field(default_factory=list[DraftKey])
    """Drafts that are no longer needed."""
    commands: bytes | None = None
    """The agent's commands, encoded, if they have changed."""

    def extend(self, other: JournalBatch) -> None:
        self.entries += other.entries
        self.outcomes += other.outcomes
        self.messages |= other.messages
        self.finished_drafts += other.finished_drafts
        self.commands = self.commands if other.commands is None else other.commands


class Journal:
    def __init__(self, path: Path, writer: Writer, reader: sqlite3.Connection) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader
        self._quarantine = Quarantine(path)
        self.problem: str | None = None
        """Why nothing can be written now, and what to do."""

    @classmethod
    async def open(cls, path: Path) -> Journal:
        """Raises Unavailable if the file cannot be opened, with code `database_damaged` if it is no whole database."""
        try:
            writer = await Writer.open(path, MIGRATIONS)
            return cls(path, writer, connect(path, query_only=True))
        except sqlite3.Error as error:
            raise storage_error(error, path) from error

    async def failure(self) -> FarsteerError:
        """Wait until nothing can be stored any more for good, and return why."""
        await self._writer.home_removed.wait()
        return home_removed(self.path)

    async def close(self) -> None:
        # The last connection to be closed empties the write-ahead log.
        self._reader.close()
        await self._writer.close()

    async def _write(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Commit a change. If the file or its disk fails, `problem` says so until a later change is committed."""
        try:
            await self._writer.run(work)
        except sqlite3.Error as error:
            self.problem = str(storage_error(error, self.path))
            raise
        self.problem = None

    async def load(self) -> list[StoredSession]:
        def read(db: sqlite3.Connection) -> list[StoredSession]:
            rows = db.execute("SELECT id, spec, state FROM sessions").fetchall()
            sizes: dict[str, dict[str, int]] = {}
            for session, item, size in db.execute("SELECT session, item, length(body) FROM messages"):
                sizes.setdefault(session, {})[item] = size
            deltas: dict[str, list[DraftDelta]] = {}
            for session, kind, message, start, text in db.execute(
                "SELECT session, kind, message, start, text FROM drafts ORDER BY n"
            ):
                delta = DraftDelta(DraftKey(DeltaKind(kind), message), start, text.decode(errors="replace"))
                deltas.setdefault(session, []).append(delta)
            known_commands = dict(db.execute("SELECT session, body FROM commands").fetchall())
            sessions: list[StoredSession] = []
            for id, spec, state in rows:
                try:
                    decoded_spec = decode_row(spec, SessionSpec, "sessions", id, id)
                    decoded = decode_row(state, SessionState, "sessions", id, id)
                    if id in known_commands:
                        commands = decode_row(
                            known_commands[id], tuple[SlashCommand, ...], "commands", id, id
                        )
                        decoded = replace(decoded, commands=commands)
                except DamagedRow as row:
                    self._set_aside(db, row)
                    continue
                sessions.append(
                    StoredSession(
                        decoded_spec,
                        decoded,
                        sizes.get(id, {}),
                        assemble_drafts(deltas.get(id, ())),
                        _confirmed(db, decoded),
                    )
                )
            return sessions

        try:
            return await self._writer.run(read)
        except sqlite3.Error as error:
            raise storage_error(error, self.path) from error

    def _set_aside(self, db: sqlite3.Connection, row: DamagedRow) -> None:
        """Move a session that cannot be read out of the journal. The hub knows it, and gives it back."""
        self._quarantine.add(row)
        session = row.session_id
        for table, key in (("messages", "item"), ("outbox", "seq")):
            for name, body in db.execute(f"SELECT {key}, body FROM {table} WHERE session = ?", (session,)):  # noqa: S608
                self._quarantine.add(
                    DamagedRow(table, f"{session}:{name}", session, body, "its session is damaged")
                )
            db.execute(f"DELETE FROM {table} WHERE session = ?", (session,))  # noqa: S608
        db.execute("DELETE FROM drafts WHERE session = ?", (session,))
        db.execute("DELETE FROM commands WHERE session = ?", (session,))
        db.execute("DELETE FROM sessions WHERE id = ?", (session,))

    async def create_session(self, spec: SessionSpec, state: SessionState) -> None:
        row = (spec.id, encode(spec), encode_state(state))
        commands = encode(state.commands)

        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO sessions (id, spec, state) VALUES (?, ?, ?)", row)
            db.execute(INSERT_COMMANDS, (spec.id, commands))

        await self._write(write)

    async def restore_sessions(
        self, sessions: Sequence[StoredSession], outcomes: Sequence[tuple[str, ItemOutcome]]
    ) -> None:
        """Store sessions as the hub has them, and outcomes that its logs have. Older rows are replaced.

        Of the messages that wait and the drafts only those stay that the given sessions have.
        """
        rows = [(one.spec.id, encode(one.spec), encode_state(one.state)) for one in sessions]
        commands = [(one.spec.id, encode(one.state.commands)) for one in sessions]
        settled = [
            (id_key(session), id_key(item), state.value, seq) for session, (item, state, seq) in outcomes
        ]

        def write(db: sqlite3.Connection) -> None:
            db.executemany("INSERT OR REPLACE INTO sessions (id, spec, state) VALUES (?, ?, ?)", rows)
            db.executemany(INSERT_COMMANDS, commands)
            for one in sessions:
                id = one.spec.id
                db.execute("DELETE FROM outbox WHERE session = ?", (id,))
                if not one.drafts:
                    db.execute("DELETE FROM drafts WHERE session = ?", (id,))
                items = db.execute("SELECT item FROM messages WHERE session = ?", (id,)).fetchall()
                db.executemany(
                    "DELETE FROM messages WHERE session = ? AND item = ?",
                    [(id, item) for (item,) in items if item not in one.message_sizes],
                )
            db.executemany(INSERT_OUTCOME, settled)

        await self._write(write)

    async def append(
        self, state: SessionState, batch: JournalBatch, draft_deltas: Sequence[DraftDelta] = ()
    ) -> None:
        """Commit `batch`, the state after it and new draft text. Returns when they are on the disk."""
        id = state.id
        messages = [(id, item, message) for item, message in batch.messages.items()]
        body = encode_state(state)
        entries = [(id, entry.seq, entry.kind, bytes(entry.body)) for entry in batch.entries]
        drafted = [
            (id, key.kind.value, key.message_id, start, text.encode(errors="replace"))
            for key, start, text in draft_deltas
        ]
        finished_drafts = [(id, key.message_id, key.kind.value) for key in batch.finished_drafts]
        outcomes = [(id_key(id), id_key(item), outcome.value, seq) for item, outcome, seq in batch.outcomes]
        finished_items = [(id, item) for item, _, _ in batch.outcomes]

        def write(db: sqlite3.Connection) -> None:
            db.execute("UPDATE sessions SET state = ? WHERE id = ?", (body, id))
            db.executemany("INSERT INTO outbox (session, seq, kind, body) VALUES (?, ?, ?, ?)", entries)
            if batch.commands is not None:
                db.execute(INSERT_COMMANDS, (id, batch.commands))
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
                db.executemany(INSERT_OUTCOME, outcomes)

        await self._write(write)

    async def read_message(self, session: str, item: str) -> bytes | None:
        """Return a waiting message, encoded. None if there is none, or it cannot be read."""

        def read(db: sqlite3.Connection) -> bytes | None:
            row = db.execute(
                "SELECT body FROM messages WHERE session = ? AND item = ?", (session, item)
            ).fetchone()
            if row is None:
                return None
            try:
                decode_row(row[0], QueueItem, "messages", f"{session}:{item}", session)
            except DamagedRow as damaged:
                self._quarantine.add(damaged)
                db.execute("DELETE FROM messages WHERE session = ? AND item = ?", (session, item))
                return None
            return row[0]

        return await self._writer.run(read)

    def find_outcome(self, session: str, item: str) -> ItemOutcome | None:
        """Return the outcome of an item, if it has one. One indexed look-up, which does not wait for the writer.

        Raises Unavailable if the database cannot be read.
        """
        try:
            rows = self._reader.execute(
                "SELECT state, seq FROM outcomes WHERE session = ? AND item = ?",
                (id_key(session), id_key(item)),
            ).fetchall()
        except sqlite3.Error as error:
            raise Unavailable(f"the runner cannot read its journal: {error}") from error
        return ItemOutcome(item, ItemState(rows[0][0]), rows[0][1]) if rows else None

    async def mark_lost(self, positions: Sequence[LogPosition]) -> None:
        """Note which outcomes were in entries that neither the hub nor the journal has any more."""

        def write(db: sqlite3.Connection) -> None:
            for session, acked, following in positions:
                [(kept,)] = db.execute(
                    "SELECT count(*) FROM outbox WHERE session = ? AND seq > ? AND seq < ?",
                    (session, acked, following),
                )
                if kept < following - acked - 1:
                    db.execute(
                        "UPDATE outcomes SET seq = 0 WHERE session = ? AND seq > ? AND seq < ?"
                        " AND seq NOT IN (SELECT seq FROM outbox WHERE session = ?)",
                        (id_key(session), acked, following, session),
                    )

        await self._write(write)

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
                if not is_readable_json(body):
                    page.append(self._replace_entry(db, session, seq, body))
                    continue
                page.append(EncodedEntry(seq, kind, msgspec.Raw(body)))
                size += len(body)
                if size >= _PAGE_BYTES:
                    break
            return page

        return await self._writer.run(read)

    async def last_entries(self, sessions: Sequence[str]) -> dict[str, bytes]:
        """Return the last entry of each session, encoded, if the hub has not confirmed it."""

        def read(db: sqlite3.Connection) -> dict[str, bytes]:
            query = "SELECT body FROM outbox WHERE session = ? ORDER BY seq DESC LIMIT 1"
            rows = [(id, db.execute(query, (id,)).fetchone()) for id in sessions]
            return {id: row[0] for id, row in rows if row is not None}

        return await self._writer.run(read)

    def _replace_entry(self, db: sqlite3.Connection, session: str, seq: int, body: object) -> EncodedEntry:
        """Put a notice in the place of an entry that no hub could read."""
        self._quarantine.add(DamagedRow("outbox", f"{session}:{seq}", session, body, "it is not JSON"))
        entry = encode_entry(make_entry(session, seq, _ENTRY_DAMAGED, now_ms()))
        db.execute(
            "UPDATE outbox SET kind = ?, body = ? WHERE session = ? AND seq = ?",
            (entry.kind, bytes(entry.body), session, seq),
        )
        return entry

    async def confirm(self, confirmed: dict[str, int]) -> None:
        """Delete the entries that the hub has committed: of each session those up to the given number."""
        rows = list(confirmed.items())

        def write(db: sqlite3.Connection) -> None:
            db.executemany("DELETE FROM outbox WHERE session = ? AND seq <= ?", rows)

        await self._write(write)

    async def delete_session(self, session: str) -> None:
        def write(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM outcomes WHERE session = ?", (id_key(session),))
            for statement in (
                "DELETE FROM outbox WHERE session = ?",
                "DELETE FROM messages WHERE session = ?",
                "DELETE FROM drafts WHERE session = ?",
                "DELETE FROM commands WHERE session = ?",
                "DELETE FROM sessions WHERE id = ?",
            ):
                db.execute(statement, (session,))

        await self._write(write)
        await self._writer.erase()
