"""Group commit: everything answered is stored, in order, and one job's failure is its own."""

import asyncio
import sqlite3
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farsteer.core.errors import NotFound, Unavailable
from farsteer.storage.connection import connect
from farsteer.storage.migrations import Migration
from farsteer.storage.writer import Writer

SCHEMA = [Migration(1, "CREATE TABLE t (n INTEGER PRIMARY KEY, v TEXT);")]


def insert(n: int, v: str = ""):
    def work(db: sqlite3.Connection) -> int:
        db.execute("INSERT INTO t VALUES (?, ?)", (n, v))
        return n

    return work


def rows(path: Path) -> list[int]:
    db = connect(path)
    try:
        return [n for (n,) in db.execute("SELECT n FROM t ORDER BY n")]
    finally:
        db.close()


async def test_what_was_answered_is_stored(tmp_path: Path) -> None:
    writer = await Writer.open(tmp_path / "a.db", SCHEMA)
    assert await asyncio.gather(*(writer.run(insert(n)) for n in range(100))) == list(range(100))
    await writer.close()
    assert rows(tmp_path / "a.db") == list(range(100))


async def test_jobs_that_wait_for_a_commit_share_the_next_one(tmp_path: Path) -> None:
    writer = await Writer.open(tmp_path / "a.db", SCHEMA)
    held, entered = threading.Event(), threading.Event()

    def hold(db: sqlite3.Connection) -> None:
        entered.set()
        assert held.wait(10)

    transactions: list[int] = []

    def observe(db: sqlite3.Connection) -> None:
        transactions.append(db.total_changes)
        db.execute("INSERT INTO t (v) VALUES ('x')")

    first = await writer.submit(hold)
    await asyncio.to_thread(entered.wait, 10)
    others = [await writer.submit(observe) for _ in range(5)]
    seen: list[list[bool]] = []
    others[0].add_done_callback(lambda _: seen.append([future.done() for future in others]))
    held.set()
    await asyncio.gather(first, *others)
    assert seen == [[True] * 5], "one delivery for the whole batch"
    await writer.close()


async def test_a_failing_job_takes_nothing_with_it(tmp_path: Path) -> None:
    writer = await Writer.open(tmp_path / "a.db", SCHEMA)

    def half(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO t VALUES (50, 'half done')")
        raise NotFound("no")

    outcomes = await asyncio.gather(
        writer.run(insert(1)), writer.run(half), writer.run(insert(2)), writer.run(insert(1)),
        writer.run(insert(3)), return_exceptions=True,
    )  # fmt: skip
    assert outcomes[0::2] == [1, 2, 3]
    assert isinstance(outcomes[1], NotFound)
    assert isinstance(outcomes[3], sqlite3.IntegrityError)
    await writer.close()
    assert rows(tmp_path / "a.db") == [1, 2, 3]


async def test_a_refusal_that_changed_nothing_does_not_repeat_the_others(tmp_path: Path) -> None:
    writer = await Writer.open(tmp_path / "a.db", SCHEMA)
    runs: list[str] = []

    def counted(db: sqlite3.Connection) -> None:
        runs.append("counted")
        db.execute("INSERT INTO t VALUES (1, '')")

    def refuse(db: sqlite3.Connection) -> None:
        raise NotFound("no")

    results = await asyncio.gather(writer.run(counted), writer.run(refuse), return_exceptions=True)
    assert isinstance(results[1], NotFound)
    assert runs == ["counted"]
    await writer.close()


async def test_what_follows_a_commit_runs_in_order_and_before_the_waiters(tmp_path: Path) -> None:
    writer = await Writer.open(tmp_path / "a.db", SCHEMA)
    seen: list[str] = []

    async def one(n: int) -> None:
        await writer.run(insert(n), lambda result: seen.append(f"then {result}"))
        seen.append(f"waiter {n}")

    await asyncio.gather(*(one(n) for n in range(20)))
    assert [line for line in seen if line.startswith("then")] == [f"then {n}" for n in range(20)]
    assert all(seen.index(f"then {n}") < seen.index(f"waiter {n}") for n in range(20))
    await writer.close()


async def test_a_waiter_that_gave_up_does_not_undo_the_commit(tmp_path: Path) -> None:
    writer = await Writer.open(tmp_path / "a.db", SCHEMA)
    published: list[int] = []
    future = await writer.submit(insert(1), published.append)
    future.cancel()
    await writer.run(insert(2))
    assert published == [1]
    await writer.close()
    assert rows(tmp_path / "a.db") == [1, 2]


async def test_a_full_queue_holds_submitters_back(tmp_path: Path) -> None:
    writer = await Writer.open(tmp_path / "a.db", SCHEMA, max_waiting=2)
    held = threading.Event()
    await writer.submit(lambda db: held.wait(10))
    await writer.submit(insert(1))
    third = asyncio.create_task(writer.submit(insert(2)))
    await asyncio.sleep(0)
    assert not third.done()
    held.set()
    await (await third)
    await writer.close()
    assert rows(tmp_path / "a.db") == [1, 2]


async def test_closing_finishes_what_is_queued_and_refuses_the_rest(tmp_path: Path) -> None:
    writer = await Writer.open(tmp_path / "a.db", SCHEMA)
    futures = [await writer.submit(insert(n)) for n in range(50)]
    await writer.close()
    assert [future.result() for future in futures] == list(range(50))
    with pytest.raises(Unavailable):
        await writer.run(insert(99))
    await writer.close()


async def test_a_commit_that_cannot_be_written_fails_its_jobs_and_the_next_one_works(tmp_path: Path) -> None:
    writer = await Writer.open(tmp_path / "a.db", SCHEMA)

    def fill(db: sqlite3.Connection) -> None:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")

    await writer.run(fill)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        await writer.run(insert(1, "x" * 100_000))
    await writer.run(lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchall())
    await writer.run(insert(1, "x" * 100_000))
    await writer.close()
    assert rows(tmp_path / "a.db") == [1]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    plan=st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["ok", "raise", "late"])), max_size=8),
        max_size=8,
    )
)
def test_the_table_equals_a_model_whatever_fails(
    plan: list[list[tuple[int, str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("writer") / "a.db"
    model: set[int] = set()

    def job(n: int, how: str):
        def work(db: sqlite3.Connection) -> None:
            if how == "raise":
                raise NotFound("at once")
            db.execute("INSERT INTO t VALUES (?, '')", (n,))
            if how == "late":
                raise NotFound("after a change")

        return work

    async def main() -> None:
        writer = await Writer.open(path, SCHEMA)
        for wave in plan:
            results = await asyncio.gather(
                *(writer.run(job(n, how)) for n, how in wave), return_exceptions=True
            )
            for (n, how), result in zip(wave, results, strict=True):
                stored = how == "ok" and n not in model
                assert (result is None) == stored
                if stored:
                    model.add(n)
        await writer.close()

    asyncio.run(main())
    assert rows(path) == sorted(model)


async def test_a_failure_of_the_writer_itself_fails_its_jobs_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await Writer.open(tmp_path / "db", SCHEMA)
    with monkeypatch.context() as patch:
        patch.setattr(writer, "_commit", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            await writer.run(lambda db: None)
    assert await writer.run(lambda db: 1) == 1
    await writer.close()
