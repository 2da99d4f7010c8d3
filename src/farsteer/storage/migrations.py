"""Schema migrations. Each runs in its own transaction; `PRAGMA user_version` holds the number of applied ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from farsteer.core.errors import Conflict


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    """Starts at 1 and has no gaps."""
    change: str | Callable[[sqlite3.Connection], None]
    """SQL statements, or a function that runs them."""


def version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def migrate(db: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """Bring the schema up to date. Raises Conflict if a newer version of Farsteer wrote the database."""
    assert [migration.number for migration in migrations] == list(range(1, len(migrations) + 1))
    held = version(db)
    if held > len(migrations):
        raise Conflict(
            f"this database has schema {held}, but this version of Farsteer supports schemas up to {len(migrations)};"
            " start the newer version that wrote it",
            schema=held,
            known=len(migrations),
        )
    for migration in migrations[held:]:
        _apply(db, migration)


def _apply(db: sqlite3.Connection, migration: Migration) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        if isinstance(migration.change, str):
            # executescript() would commit the open transaction first.
            for statement in _statements(migration.change):
                db.execute(statement)
        else:
            migration.change(db)
        db.execute(f"PRAGMA user_version = {migration.number:d}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _statements(script: str) -> Iterator[str]:
    """Split a script into statements. A semicolon in a string, a comment or a trigger does not end a statement."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
