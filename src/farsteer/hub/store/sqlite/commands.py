"""The `commands` table: the slash commands of each session's agent.

They are most of a session's state and change rarely. The `state` column of `sessions`, which is written with every
change, is therefore without them.
"""

from __future__ import annotations

import sqlite3

import msgspec
from msgspec.structs import replace

from farsteer.core.events import SlashCommand
from farsteer.core.session import SessionState
from farsteer.core.wire import decode, encode
from farsteer.storage.quarantine import decode_row

Commands = tuple[SlashCommand, ...]


def read(db: sqlite3.Connection, session_id: str) -> Commands:
    row = db.execute("SELECT body FROM commands WHERE session_id = ?", (session_id,)).fetchone()
    return () if row is None else decode_row(row[0], Commands, "commands", session_id, session_id)


def write(db: sqlite3.Connection, session_id: str, commands: Commands) -> None:
    if commands:
        db.execute(
            "INSERT OR REPLACE INTO commands (session_id, body) VALUES (?, ?)", (session_id, encode(commands))
        )
    else:
        delete(db, session_id)


def delete(db: sqlite3.Connection, session_id: str) -> None:
    db.execute("DELETE FROM commands WHERE session_id = ?", (session_id,))


def read_state(db: sqlite3.Connection, session_id: str, encoded: bytes) -> SessionState:
    """Return a state of `sessions` with the commands that belong to it."""
    state = decode_row(encoded, SessionState, "sessions", session_id, session_id)
    return replace(state, commands=read(db, session_id))


def install(db: sqlite3.Connection) -> None:
    """Move the commands out of the states. A state that cannot be decoded is left to its repair."""
    db.execute("CREATE TABLE commands (session_id TEXT PRIMARY KEY, body BLOB NOT NULL)")
    for session_id, encoded in db.execute(
        "SELECT id, state FROM sessions WHERE state IS NOT NULL"
    ).fetchall():
        try:
            state = decode(encoded, SessionState)
        except (msgspec.DecodeError, TypeError):
            continue
        if state.commands:
            write(db, session_id, state.commands)
            bare = encode(replace(state, commands=()))
            db.execute("UPDATE sessions SET state = ? WHERE id = ?", (bare, session_id))
