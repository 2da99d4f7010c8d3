"""The commands of a session's agent are stored apart from its state."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.session import SessionState
from farsteer.core.wire import encode
from farsteer.hub.store.sqlite import commands
from farsteer.hub.store.sqlite.schema import MIGRATIONS
from farsteer.storage.connection import connect
from farsteer.storage.migrations import migrate

COMMANDS = (ev.SlashCommand("test", "Run the tests"),)
STATE = SessionState(id="s", agent="demo", directory="/")


def insert(db: sqlite3.Connection, id: str, state: bytes | None) -> None:
    db.execute(
        "INSERT INTO sessions (id, namespace, machine_id, phase, created_at, updated_at, state)"
        " VALUES (?, 'default', 'm', 'live', 1, 1, ?)",
        (id, state),
    )


def test_the_states_of_an_earlier_version_are_divided(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "hub.db")) as db:
        migrate(db, MIGRATIONS[:15])
        insert(db, "s", encode(replace(STATE, commands=COMMANDS)))
        insert(db, "damaged", b"{")
        insert(db, "deleted", None)
        migrate(db, MIGRATIONS)
        rows = dict(db.execute("SELECT id, state FROM sessions").fetchall())
        assert rows == {"s": encode(STATE), "damaged": b"{", "deleted": None}
        assert commands.read_state(db, "s", rows["s"]) == replace(STATE, commands=COMMANDS)
        assert commands.read(db, "damaged") == ()
