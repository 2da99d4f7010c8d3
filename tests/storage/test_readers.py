import asyncio
import sqlite3
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
