import sqlite3
from pathlib import Path

import pytest

from farsteer.core.errors import Conflict
from farsteer.storage.connection import connect
from farsteer.storage.migrations import Migration, migrate, version
from farsteer.storage.writer import Writer

FIRST = Migration(
    1, "CREATE TABLE a (x TEXT DEFAULT ';');\n-- a comment; with a semicolon\nCREATE TABLE b (y);"
)
SECOND = Migration(2, "ALTER TABLE a ADD COLUMN z")


@pytest.fixture
def db(tmp_path: Path):
    connection = connect(tmp_path / "a.db")
    yield connection
    connection.close()


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


def test_each_migration_is_made_once(db: sqlite3.Connection) -> None:
    migrate(db, [FIRST])
    db.execute("INSERT INTO a VALUES ('kept')")
    migrate(db, [FIRST, SECOND])
    migrate(db, [FIRST, SECOND])
    assert version(db) == 2
    assert db.execute("SELECT x, z FROM a").fetchall() == [("kept", None)]


def test_one_that_fails_leaves_the_schema_before_it(db: sqlite3.Connection) -> None:
    broken = Migration(2, "CREATE TABLE c (x); INSERT INTO nowhere VALUES (1);")
    with pytest.raises(sqlite3.OperationalError):
        migrate(db, [FIRST, broken])
    assert version(db) == 1
    assert columns(db, "c") == []


def test_code_may_migrate_too(db: sqlite3.Connection) -> None:
    def fill(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO a VALUES ('by code')")

    migrate(db, [FIRST, Migration(2, fill)])
    assert db.execute("SELECT x FROM a").fetchall() == [("by code",)]


async def test_the_database_of_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await (await Writer.open(path, [FIRST, SECOND])).close()
    before = path.read_bytes()
    with pytest.raises(Conflict, match="newer version"):
        await Writer.open(path, [FIRST])
    assert path.read_bytes() == before
