"""Deleted rows leave the files, and the files shrink, without holding up the writer."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from farsteer.storage import free_space
from farsteer.storage.connection import connect
from farsteer.storage.free_space import FreeSpace
from farsteer.storage.migrations import Migration, migrate
from farsteer.storage.readers import Readers
from farsteer.storage.writer import Writer
from tests.support.eventually import eventually

MIB = 1024 * 1024
SECRET = b"a secret that was deleted "
SCHEMA = (Migration(1, "CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)"),)


def files(path: Path) -> list[Path]:
    return [path, Path(f"{path}-wal")]


def has_secret(path: Path) -> bool:
    return any(SECRET in file.read_bytes() for file in files(path) if file.exists())


def fill(db: sqlite3.Connection) -> None:
    """20 MiB of large and small rows, with others between them that stay."""
    for n in range(100):
        db.execute("INSERT INTO t VALUES (?, ?)", (3 * n, SECRET * 8000))
        db.execute("INSERT INTO t VALUES (?, ?)", (3 * n + 1, SECRET))
        db.execute("INSERT INTO t VALUES (?, ?)", (3 * n + 2, b"stays" * 100))


def delete(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM t WHERE n % 3 != 2")


async def test_what_was_deleted_is_in_none_of_the_files(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    writer = await Writer.open(path, SCHEMA)
    await writer.run(fill)
    assert has_secret(path)
    await writer.run(delete)
    await writer.erase()
    await eventually(lambda: not has_secret(path))
    await eventually(lambda: sum(file.stat().st_size for file in files(path)) < MIB)
    assert await writer.run(lambda db: db.execute("SELECT count(*) FROM t").fetchone()) == (100,)
    assert await writer.run(lambda db: db.execute("PRAGMA integrity_check").fetchone()) == ("ok",)
    await writer.close()


async def test_a_file_with_many_free_pages_shrinks_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    writer = await Writer.open(path, SCHEMA)
    await writer.run(fill)
    await writer.run(delete)
    await eventually(lambda: path.stat().st_size < 2 * MIB)
    await writer.close()


async def test_a_reader_delays_the_erasure_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    writer = await Writer.open(path, SCHEMA)
    await writer.run(fill)
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM t").fetchone()
        await writer.run(delete)
        await writer.erase()
        for n in range(20):
            await writer.run(lambda db, n=n: db.execute("INSERT INTO t VALUES (?, x'00')", (10_000 + n,)))
        assert reader.execute("SELECT count(*) FROM t WHERE body >= ?", (SECRET,)).fetchone()[0] >= 200
    await eventually(lambda: not has_secret(path))
    await writer.close()


async def test_an_erasure_goes_on_after_a_kill(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "b.db"
    with closing(connect(path)) as db:
        migrate(db, SCHEMA)
        fill(db)
        delete(db)
        for source, target in zip(files(path), files(copy), strict=True):
            target.write_bytes(source.read_bytes())
    assert has_secret(copy)
    writer = await Writer.open(copy, SCHEMA)
    await eventually(lambda: not has_secret(copy))
    await writer.close()


async def test_an_erasure_does_not_wait_for_an_idle_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_space, "_MAX_DELAY_SECONDS", 0.001)
    path = tmp_path / "a.db"
    writer = await Writer.open(path, SCHEMA)
    await writer.run(fill)
    await writer.run(delete)
    await writer.erase()
    pending = [await writer.submit(lambda db: db.execute("SELECT 1").fetchall()) for _ in range(50)]
    while has_secret(path):
        pending.append(await writer.submit(lambda db: db.execute("SELECT 1").fetchall()))
        await pending.pop(0)
    for job in pending:
        await job
    await writer.close()


def test_each_step_moves_few_pages(tmp_path: Path) -> None:
    """No job waits for more than one step, so a step must be small, however much was freed."""
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as db:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)")
        fill(db)
        delete(db)
        space = FreeSpace(db)
        space.erase()
        before = db.execute("PRAGMA page_count").fetchone()[0]
        while space.step() == 0:
            after = db.execute("PRAGMA page_count").fetchone()[0]
            # With pages that map the moved ones.
            assert before - after <= free_space._STEP_PAGES + 2
            before = after
        assert db.execute("PRAGMA freelist_count").fetchone() == (0,)


async def test_a_small_database_of_an_earlier_version_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)")
        fill(db)
        db.execute("PRAGMA user_version = 1")
    writer = await Writer.open(path, SCHEMA)
    assert await writer.run(lambda db: db.execute("PRAGMA auto_vacuum").fetchone()) == (2,)
    assert await writer.run(lambda db: db.execute("SELECT count(*) FROM t").fetchone()) == (300,)
    readers = Readers(path)
    assert await readers.run(lambda db: db.execute("SELECT count(*) FROM t").fetchone()) == (300,)
    await readers.close()
    await writer.close()


async def test_a_large_database_of_an_earlier_version_is_erased_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(free_space, "_MAX_CONVERTED_BYTES", MIB)
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)")
        fill(db)
        db.execute("PRAGMA user_version = 1")
    with caplog.at_level(logging.WARNING):
        writer = await Writer.open(path, SCHEMA)
    assert "VACUUM" in caplog.text
    await writer.run(delete)
    await writer.erase()
    await eventually(lambda: not has_secret(path))
    await writer.close()
