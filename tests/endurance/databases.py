"""Copies of the databases of a hub and a runner, and putting them back."""

from __future__ import annotations

import itertools
import os
import sqlite3
import uuid
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from farsteer.core.session import SessionState
from farsteer.core.wire import decode


class Backups:
    """Copies of one database, the first made when there is something to copy."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._numbers = itertools.count()
        self.copies: list[Path] = []

    def make(self) -> None:
        """Copy the database as it is committed now, also while it is in use."""
        copy = self._database.with_name(f"copy-{next(self._numbers)}.{self._database.name}")
        with closing(sqlite3.connect(self._database)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        self.copies.append(copy)

    def restore(self, back: int) -> None:
        """Replace the database, which nobody has open, by one of the last copies."""
        copy = self.copies[-1 - back % len(self.copies)]
        new = self._database.with_name("new.db")
        new.write_bytes(copy.read_bytes())
        self.remove()
        os.replace(new, self._database)

    def discard(self) -> None:
        """Forget the copies: the other database was set back.

        What both have lost happens again, in another way. A copy that has it as it was belongs to a history that no
        longer exists (see docs/faults.md).
        """
        for copy in self.copies:
            copy.unlink()
        self.copies.clear()

    def remove(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            self._database.with_name(self._database.name + suffix).unlink(missing_ok=True)


def find_forgotten(hub: Path, runner: Path, received: Iterable[str]) -> set[str]:
    """Return the messages that an agent has and that the hub would offer again, with nobody to stop it.

    Both databases were set back, or the one that was knew of them first. No handshake can find that out.
    """
    with closing(sqlite3.connect(hub)) as hub_db, closing(sqlite3.connect(runner)) as runner_db:
        accepted = hub_db.execute(
            "SELECT local_id, items.id, session_id, offered, seq FROM items JOIN sessions ON sessions.id = session_id"
            " WHERE items.state = 'accepted'"
        ).fetchall()
        has_journal = runner_db.execute("SELECT 1 FROM sqlite_master WHERE name = 'outcomes'").fetchone()
        known: set[str] = set()
        positions: dict[str, int] = {}
        if has_journal:
            known.update(
                str(uuid.UUID(bytes=item)) for (item,) in runner_db.execute("SELECT item FROM outcomes")
            )
            for session, state in runner_db.execute("SELECT id, state FROM sessions"):
                stored = decode(state, SessionState)
                known.update(item.id for item in stored.queue)
                positions[session] = stored.seq
    return {
        name
        for name, item, session, offered, seq in accepted
        if name in received and item not in known and not (offered and positions.get(session, -1) < seq)
    }
