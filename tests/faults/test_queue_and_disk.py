"""What waits is stored once, and what is deleted leaves without holding anybody up."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from farsteer.core.ids import new_id
from farsteer.core.session import SessionSpec, SessionState
from farsteer.hub.feed import Feed
from farsteer.hub.store.sqlite.store import SqliteStore
from tests.support.eventually import eventually
from tests.support.stack import Account, farsteer

pytestmark = pytest.mark.faults

MIB = 1024 * 1024
NAMESPACE = "default"


def size_of(home: Path, *names: str) -> int:
    total = 0
    for name in names or ("hub.db", "runner.db"):
        with closing(sqlite3.connect(home / name)) as db:
            [(size,)] = db.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
            total += size
    return total


async def wait_until_queued(me: Account, session: str, count: int) -> None:
    async def queued() -> bool:
        items = (await me.session(session))["queue"]
        return [item["state"] for item in items if item["state"] != "handed_over"] == ["queued"] * count

    await eventually(queued, 60)


async def test_eighty_megabytes_that_wait_are_stored_once_and_the_machine_stays_connected(home: Path) -> None:
    (home / "hub.toml").write_text("[limits]\nqueued_bytes = 100_000_000\n")
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        session, other = await stack.create(me), await stack.create(me)
        changes: list[bool] = []
        stack.hub.feed.listen(
            lambda events: changes.extend(
                b'"active":false' in one.data for one in events if one.type == "machine-updated"
            )
        )
        await me.say(session, "hang")
        await me.until(session, "working")
        before = size_of(home)
        text = "say " + "x" * (1_000_000 - 4)
        for _ in range(80):
            await me.say(session, text)

        await wait_until_queued(me, session, 80)
        for name in ("hub.db", "runner.db"):
            assert size_of(home, name) < 1.2 * 80_000_000 + before
        assert "hello" in str(await me.turn(other, "say hello"))
        assert not any(changes), "the machine was disconnected"
        await me.post_json(f"/api/sessions/{session}/stop")


async def test_disk_per_short_message_does_not_depend_on_the_depth_of_the_queue(home: Path) -> None:
    """In several sessions, since a database grows by whole pages."""
    async with farsteer(home) as stack:
        me = await stack.sign_in()
        sessions = [await stack.create(me) for _ in range(6)]
        for session in sessions:
            await me.say(session, "hang")
            await me.until(session, "working")
        sizes = [size_of(home)]
        for depth in (45, 90):
            for session in sessions:
                for _ in range(45):
                    await me.say(session, "8 bytes.")
                await wait_until_queued(me, session, depth)
            sizes.append(size_of(home))
        shallow, deep = ((after - before) / 45 / len(sessions) for before, after in pairwise(sizes))
        print(f"bytes per message: {shallow:.0f} at depth 0 to 45, {deep:.0f} at depth 45 to 90")
        # Of hub and runner together, with the pages that are not full.
        assert deep < 2500
        assert deep < shallow * 1.2


@pytest.mark.parametrize(("count", "size"), [(200_000, 2500), (1, 48 * MIB)])
async def test_a_deletion_holds_no_writer_up_for_more_than_50_ms(
    tmp_path: Path, count: int, size: int
) -> None:
    store = await SqliteStore.open(tmp_path / "hub.db", Feed())
    session = new_id()
    await store.begin_session(NAMESPACE, SessionSpec(id=session, machine_id="m", directory="/"))
    await store.finish_session(session, SessionState(id=session, agent="demo", directory="/"))
    body = b'{"x":"' + b"y" * size + b'"}'
    for first in range(1, count + 1, 5000):
        rows = [(session, seq, body) for seq in range(first, min(first + 5000, count + 1))]
        await store._writer.run(lambda db, rows=rows: db.executemany(
            "INSERT INTO log (namespace, type, subject, seq, created_at, body)"
            " VALUES ('default', 'message-received', ?, ?, 0, ?)", rows
        ).rowcount)  # fmt: skip
    await (await store._writer.erase())
    waits: list[float] = []

    async def write_often() -> None:
        while True:
            began = time.monotonic()
            await store._writer.run(lambda db: db.execute("UPDATE meta SET value = value").rowcount)
            waits.append(time.monotonic() - began)
            await asyncio.sleep(0.005)

    writing = asyncio.create_task(write_often())
    await store.delete_session(NAMESPACE, session)
    await store.compact()
    await store._purges.wait()
    writing.cancel()
    await asyncio.wait([writing])
    assert (tmp_path / "hub.db").stat().st_size < MIB
    waits.sort()
    longest = ", ".join(f"{wait * 1000:.0f}" for wait in waits[-5:])
    print(f"{len(waits)} writes, the longest took {longest} ms")
    # A busy machine may stop this process for a moment, but not often.
    assert waits[-1 - len(waits) // 100] < 0.05, longest
    assert waits[-1] < 0.5, longest
    await store.close()
