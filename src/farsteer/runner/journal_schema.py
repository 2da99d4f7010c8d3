"""The tables of runner.db, and how those of earlier versions are brought up to date.

Table `commands` has the part of the states that changes rarely, `outbox` the entries that the hub has not confirmed,
`messages` those of people that wait in the queue, `outcomes` the items that have their outcome, for the life of the
session: about 60 bytes each.
"""

from __future__ import annotations

import sqlite3

import msgspec
from msgspec.structs import replace

from farsteer.core.events import QueueUpdate, decode_entry
from farsteer.core.ids import is_uuid
from farsteer.core.queue import Attachment, ItemState, QueueItem
from farsteer.core.session import SessionState, bounded
from farsteer.core.wire import decode, encode
from farsteer.storage.migrations import Migration


def _move_messages(db: sqlite3.Connection) -> None:
    """Move waiting messages out of the states, which only refer to them now, and join them with their attachments."""
    for session, encoded in db.execute("SELECT id, state FROM sessions").fetchall():
        for item in decode(encoded, _OldState).queue:
            row = db.execute(
                "SELECT attachments FROM payloads WHERE session = ? AND item = ?", (session, item.id)
            ).fetchone()
            attachments = item.attachments if row is None else decode(row[0], tuple[Attachment, ...])
            message = replace(item, attachments=attachments)
            db.execute(
                "INSERT INTO messages (session, item, body) VALUES (?, ?, ?)",
                (session, item.id, encode(message)),
            )
        state = bounded(decode(encoded, SessionState))
        db.execute("UPDATE sessions SET state = ? WHERE id = ?", (encode(state), session))


class _OldState(msgspec.Struct):
    """A state as it was before migration 3."""

    queue: tuple[QueueItem, ...] = ()


def _move_settled(db: sqlite3.Connection) -> None:
    """Keep the outcome of every item, not only the ids of the last 500. What the hub has confirmed is not known."""
    db.execute(
        """
        CREATE TABLE outcomes (
            session BLOB NOT NULL, item BLOB NOT NULL, state TEXT NOT NULL, seq INTEGER NOT NULL,
            PRIMARY KEY (session, item)
        ) WITHOUT ROWID
        """
    )
    settled: list[tuple[str, str]] = db.execute("SELECT session, item FROM settled").fetchall()
    known: dict[tuple[str, str], tuple[ItemState, int]] = dict.fromkeys(settled, (ItemState.UNKNOWN, 0))
    for session, seq, body in db.execute("SELECT session, seq, body FROM outbox WHERE kind = 'queue_update'"):
        event = decode_entry(body).content
        if isinstance(event, QueueUpdate) and event.state.final:
            known[session, event.item_id] = (event.state, seq)
    db.executemany(
        INSERT_OUTCOME,
        [
            (id_key(session), id_key(item), state.value, seq)
            for (session, item), (state, seq) in known.items()
        ],
    )
    db.execute("DROP TABLE settled")


def id_key(id: str) -> bytes:
    """Return an id as it is stored where there are many: a UUID in 16 bytes."""
    return bytes.fromhex(id.replace("-", "")) if is_uuid(id) else id.encode()


def _move_commands(db: sqlite3.Connection) -> None:
    """Move the agents' commands out of the states, which are written with every change."""
    db.execute("CREATE TABLE commands (session TEXT PRIMARY KEY, body BLOB NOT NULL)")
    for session, encoded in db.execute("SELECT id, state FROM sessions").fetchall():
        try:
            state = decode(encoded, SessionState)
        except (msgspec.DecodeError, TypeError):
            continue  # it is set aside when it is loaded
        db.execute("UPDATE sessions SET state = ? WHERE id = ?", (encode_state(state), session))
        db.execute(INSERT_COMMANDS, (session, encode(state.commands)))


def encode_state(state: SessionState) -> bytes:
    """Return the state as it is stored: without the commands, which change rarely and are most of it."""
    return encode(replace(state, commands=()))


INSERT_COMMANDS = "INSERT OR REPLACE INTO commands (session, body) VALUES (?, ?)"
INSERT_OUTCOME = "INSERT OR REPLACE INTO outcomes (session, item, state, seq) VALUES (?, ?, ?, ?)"

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
    Migration(6, _move_settled),
    Migration(7, _move_commands),
    # Without an index of its own, which had the ids a second time.
    Migration(
        8,
        """
        CREATE TABLE moved_messages (
            session TEXT NOT NULL, item TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (session, item)
        ) WITHOUT ROWID;
        INSERT INTO moved_messages SELECT session, item, body FROM messages;
        DROP TABLE messages;
        ALTER TABLE moved_messages RENAME TO messages;
        """,
    ),
)
