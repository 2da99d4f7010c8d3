import asyncio
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from farsteer.storage.migrations import Migration
from farsteer.storage.readers import Readers
from farsteer.storage.writer import Writer

SCHEMA = [Migration(1, "CREATE TABLE t (n INTEGER PRIMARY KEY)")]


def count(db: sqlite3.Connection) -> int:
    return db.execute("SELECT count(*) FROM t").fetchone()[0]


def insert(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO t DEFAULT VALUES")


async def test_a_read_sees_what_was_answered_and_does_not_wait_for_the_writer(tmp_path: Path) -> None:
    writer = await Writer.open(tmp_path / "a.db", SCHEMA)
    readers = Readers(tmp_path / "a.db")
    await writer.run(insert)
    assert await readers.run(count) == 1
    held = threading.Event()

    def slow(db: sqlite3.Connection) -> None:
        insert(db)
        held.wait(10)

    writing = asyncio.create_task(writer.run(slow))
    assert await readers.run(count) == 1
    held.set()
    await writing
    assert await readers.run(count) == 2
    await readers.close()
    await writer.close()


async def test_a_reader_cannot_write_and_stays_usable(tmp_path: Path) -> None:
    writer = await Writer.open(tmp_path / "a.db", SCHEMA)
    readers = Readers(tmp_path / "a.db", threads=1)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await readers.run(insert)
    assert await readers.run(count) == 0
    await readers.close()
    await writer.close()


@pytest.mark.slow
async def test_another_program_that_looks_at_the_database_takes_nothing_away(tmp_path: Path) -> None:
    """The last connection to a database removes its write-ahead log: ours must be seen as connections."""
    path = tmp_path / "a.db"
    writer, readers = await Writer.open(path, SCHEMA), Readers(path)
    look = (
        f"import sqlite3; db = sqlite3.connect({str(path)!r})\n"
        "print(*db.execute('SELECT count(*) FROM t').fetchone()); db.close()"
    )
    for expected in (1, 2, 3):
        await readers.run(count)
        await writer.run(insert)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", look, stdout=subprocess.PIPE)
        seen, _ = await process.communicate()
        assert int(seen) == expected
        assert path.with_name("a.db-wal").exists()
    await readers.close()
    await writer.close()
