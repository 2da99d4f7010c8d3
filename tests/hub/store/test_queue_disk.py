"""What waiting messages cost on the disk of the hub, and how much may wait."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from farsteer.core import events as ev
from farsteer.core.approvals import Approval, ApprovalKind
from farsteer.core.errors import Conflict, RateLimited, TooLarge
from farsteer.core.ids import new_id
from farsteer.core.queue import Attachment, Delivery, ItemState, QueueItem, compact, summarize
from farsteer.core.wire import encode
from farsteer.hub.feed import Feed
from farsteer.hub.rules.queue import QueueLimits
from farsteer.hub.store.conformance import LogBuilder, StoreHarness
from farsteer.hub.store.conformance.harness import LINK, NAMESPACE, new_item
from farsteer.hub.store.sqlite.schema import MIGRATIONS
from farsteer.hub.store.sqlite.store import SqliteStore
from farsteer.storage.connection import connect
from farsteer.storage.migrations import migrate
from tests.hub.store.factory import SqliteFactory

MIB = 1024 * 1024


class LimitedFactory(SqliteFactory):
    def __init__(self, directory: Path, limits: QueueLimits) -> None:
        super().__init__(directory)
        self.limits = limits

    async def open(self, feed: Feed) -> SqliteStore:
        return await SqliteStore.open(self.path, feed, limits=self.limits)


@asynccontextmanager
async def opened(directory: Path, limits: QueueLimits | None = None) -> AsyncIterator[StoreHarness]:
    harness = await StoreHarness.open(LimitedFactory(directory, limits or QueueLimits()))
    try:
        yield harness
    finally:
        await harness.store.close()


def query(harness: StoreHarness, sql: str, *values: object) -> list[Any]:
    assert isinstance(harness.factory, SqliteFactory)
    with closing(sqlite3.connect(harness.factory.path)) as db:
        return db.execute(sql, values).fetchall()


def size_of(harness: StoreHarness) -> int:
    [(size,)] = query(harness, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
    return size


async def accept(harness: StoreHarness, log: LogBuilder, item: QueueItem) -> None:
    await harness.store.accept_item(NAMESPACE, log.session_id, item)


async def confirm(
    harness: StoreHarness, log: LogBuilder, item: QueueItem, state: ItemState = ItemState.QUEUED
) -> None:
    """Tell the store about an item as a runner does."""
    summary = compact(summarize(item)) if state is ItemState.QUEUED else None
    update = ev.QueueUpdate(item_id=item.id, state=state, item=summary)
    await harness.append(log, [log.add(update)], state=True)


async def fill(harness: StoreHarness, log: LogBuilder, count: int, text: str = "8 bytes.") -> list[QueueItem]:
    items = [new_item(text) for _ in range(count)]
    for item in items:
        await accept(harness, log, item)
        await confirm(harness, log, item)
    return items


async def test_forty_megabytes_of_queued_messages_are_stored_once(tmp_path: Path) -> None:
    async with opened(tmp_path, QueueLimits(session_bytes=64 * MIB)) as harness:
        log = await harness.create_session()
        empty = size_of(harness)
        text = "x" * (40 * MIB // 95)
        items = await fill(harness, log, 95, text)
        assert size_of(harness) - empty < 40 * MIB * 1.1
        # What is delivered is in the log, and nowhere else.
        for item in items[:10]:
            await harness.append(log, [log.add(ev.UserMessage(item_id=item.id, text=item.text))], state=True)
            await confirm(harness, log, item, ItemState.DELIVERED)
        assert size_of(harness) - empty < 40 * MIB * 1.1
        [first, *_] = await harness.store.read_queue(NAMESPACE, log.session_id)
        assert (first.id, first.text) == (items[10].id, text)


async def test_an_eight_byte_message_costs_less_than_two_kilobytes_at_any_depth(tmp_path: Path) -> None:
    async with opened(tmp_path) as harness:
        before = size_of(harness)
        for _ in range(5):
            await fill(harness, await harness.create_session(), 95)
        assert (size_of(harness) - before) / (5 * 95) < 2000
        for depth in (0, 95):
            log = await harness.create_session()
            await fill(harness, log, depth)
            before = size_of(harness)
            for _ in range(100):
                [item] = await fill(harness, log, 1)
                await confirm(harness, log, item, ItemState.CANCELLED)
            # With its outcome: two entries and three updates. Ids are random, so it differs by some pages.
            assert (size_of(harness) - before) / 100 < 2400
            rows = query(
                harness, "SELECT length(body) FROM log WHERE subject = ? AND type = 'session-updated'", log.session_id
            )  # fmt: skip
            assert max(rows)[0] < 1500


async def test_no_update_repeats_the_queue(tmp_path: Path) -> None:
    async with opened(tmp_path) as harness:
        log = await harness.create_session()
        items = await fill(harness, log, 95, "long " * 20_000)
        shown = query(harness, "SELECT max(length(body)) FROM log WHERE type = 'session-updated'")
        assert shown[0][0] < 4096
        state = query(harness, "SELECT length(state) FROM sessions WHERE id = ?", log.session_id)
        assert state[0][0] < 95 * 80
        await accept(harness, log, new_item("one more", delivery=Delivery.NOW))
        assert "queue" not in harness.updates_of(log.session_id)[-1]
        [change] = harness.updates_of(log.session_id)[-1]["queueChanges"]
        assert (change["state"], change["position"], change["item"]["text"]) == ("accepted", 95, "one more")
        await confirm(harness, log, items[0], ItemState.CANCELLED)
        assert harness.updates_of(log.session_id)[-1]["queueChanges"] == [{"id": items[0].id}]


async def test_a_view_shows_the_beginning_of_a_long_message_and_the_queue_all(tmp_path: Path) -> None:
    async with opened(tmp_path) as harness:
        log = await harness.create_session()
        files = tuple(Attachment(name=f"{number}.txt", data="aGk=", size=2) for number in range(9))
        item = new_item("word " * 1000, attachments=files)
        await accept(harness, log, item)
        row = await harness.store.get_session(NAMESPACE, log.session_id)
        [shown] = row.queue
        assert (shown.text, len(shown.attachments), shown.truncated) == (item.text[:200], 3, True)
        for state in (ItemState.ACCEPTED, ItemState.QUEUED):
            if state is ItemState.QUEUED:
                assert await harness.store.claim_items(log.session_id, LINK) == [item]
                await confirm(harness, log, item)
            [whole] = await harness.store.read_queue(NAMESPACE, log.session_id)
            assert (whole.text, whole.state, whole.truncated) == (item.text, state, False)
            assert [one.name for one in whole.attachments] == [one.name for one in files]
            assert all(one.data is None for one in whole.attachments)
        assert b"aGk=" not in b"".join(body for (body,) in query(harness, "SELECT body FROM item_bodies"))
        await confirm(harness, log, item, ItemState.CANCELLED)
        assert query(harness, "SELECT * FROM item_bodies") == []


# -- limits


async def test_the_bytes_that_wait_in_a_session_are_limited(tmp_path: Path) -> None:
    async with opened(tmp_path, QueueLimits(session_bytes=10_000)) as harness:
        log, other = await harness.create_session(), await harness.create_session()
        with pytest.raises(TooLarge):
            await accept(harness, log, new_item("x" * 10_000))
        items = [new_item("x" * 4000) for _ in range(3)]
        for item in items[:2]:
            await accept(harness, log, item)
        with pytest.raises(RateLimited) as refusal:
            await accept(harness, log, items[2])
        assert (refusal.value.code, refusal.value.details["limit"]) == ("queue_full", 10_000)
        await accept(harness, other, items[2])
        assert await harness.store.cancel_item(NAMESPACE, log.session_id, items[0].id)
        await accept(harness, log, new_item("x" * 4000))


async def test_the_bytes_that_wait_in_a_namespace_are_limited(tmp_path: Path) -> None:
    limits = QueueLimits(session_bytes=10_000, namespace_bytes=20_000)
    async with opened(tmp_path, limits) as harness:
        logs = [await harness.create_session() for _ in range(10)]
        results = await asyncio.gather(
            *(accept(harness, log, new_item("x" * 6000)) for log in logs), return_exceptions=True
        )
        refused = [result for result in results if result is not None]
        assert len(refused) == 7
        assert all(isinstance(error, RateLimited) for error in refused)
        new = await harness.begin_session()
        with pytest.raises(RateLimited):
            await harness.store.finish_session(new.session_id, new.state, first_message=new_item("x" * 6000))
        full = [log for log, result in zip(logs, results, strict=True) if result is None]
        await harness.store.delete_session(NAMESPACE, full[0].session_id)
        assert isinstance(harness.store, SqliteStore)
        await harness.store._purges.wait()
        [(left,)] = query(harness, "SELECT bytes FROM queued WHERE namespace = ?", NAMESPACE)
        assert 12_000 < left < 13_000
        await accept(harness, full[1], new_item("x" * 3000))
        await harness.reopen()
        with pytest.raises(RateLimited):
            await accept(harness, full[2], new_item("x" * 9000))


async def test_the_number_of_messages_is_limited_by_the_settings(tmp_path: Path) -> None:
    async with opened(tmp_path, QueueLimits(messages=2)) as harness:
        log = await harness.create_session()
        await fill(harness, log, 2)
        with pytest.raises(Conflict):
            await accept(harness, log, new_item())


# -- approvals


async def test_a_large_approval_is_in_the_log_and_not_in_the_state(tmp_path: Path) -> None:
    async with opened(tmp_path) as harness:
        log = await harness.create_session()
        large = Approval(
            id="large", kind=ApprovalKind.PERMISSION, title="write", created_at=1, arguments={"file": "x" * 5 * MIB}
        )  # fmt: skip
        small = Approval(
            id="small", kind=ApprovalKind.PERMISSION, title="ls", created_at=2, arguments={"a": 1}
        )
        entries = [log.add(ev.ApprovalRequested(approval=approval)) for approval in (large, small)]
        await harness.append(log, entries, state=True)
        assert len(encode(log.state)) < 4096
        row = await harness.store.get_session(NAMESPACE, log.session_id)
        assert [(one.id, one.arguments, one.seq) for one in row.approvals] == [
            ("large", None, 1), ("small", {"a": 1}, None),
        ]  # fmt: skip
        whole = await harness.store.get_session(NAMESPACE, log.session_id, whole_approvals=True)
        assert whole.approvals == (large, small)
        [inbox] = await harness.store.list_sessions_with_approvals(NAMESPACE)
        assert inbox.approvals == (large, small)
        [(size,)] = query(harness, "SELECT max(length(body)) FROM log WHERE type = 'session-updated'")
        assert size < 4096


# -- databases of earlier versions


async def test_a_database_with_whole_messages_in_its_queue_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "hub.db"
    session_id = new_id()
    text = "an old message " * 100
    picture = {"name": "a.png", "data": "aGk=", "size": 2}
    accepted = {"id": new_id(), "text": text, "createdAt": 1, "attachments": [picture]}
    queued = {"id": new_id(), "text": text, "createdAt": 1, "state": "queued"}
    ended = {"id": new_id(), "text": text, "createdAt": 1, "state": "delivered"}
    state = {"id": session_id, "agent": "demo", "directory": "/", "queue": [queued]}
    with closing(connect(path)) as db:
        migrate(db, MIGRATIONS[:6])
        db.execute(
            "INSERT INTO sessions (id, namespace, machine_id, phase, created_at, updated_at, spec, state)"
            " VALUES (?, ?, 'm', 'live', 1, 1, ?, ?)",
            (
                session_id,
                NAMESPACE,
                encode({"id": session_id, "machineId": "m", "directory": "/"}),
                encode(state),
            ),
        )
        for item, where, payload in (
            (queued, "queued", None), (accepted, "accepted", accepted), (ended, "delivered", None),
        ):  # fmt: skip
            db.execute(
                "INSERT INTO items (id, session_id, state, body, payload) VALUES (?, ?, ?, ?, ?)",
                (item["id"], session_id, where, encode(item), payload and encode(payload)),
            )
    store = await SqliteStore.open(path, Feed())
    row = await store.get_session(NAMESPACE, session_id)
    assert [(item.id, item.text, item.truncated) for item in row.queue] == [
        (queued["id"], text[:200], True), (accepted["id"], text[:200], True),
    ]  # fmt: skip
    assert [item.text for item in await store.read_queue(NAMESPACE, session_id)] == [text, text]
    [claimed] = await store.claim_items(session_id, 1)
    assert (claimed.id, claimed.text, claimed.attachments[0].data) == (accepted["id"], text, "aGk=")
    await store.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT bytes FROM queued").fetchall() == [
            (len(encode(queued)) + len(encode(accepted)),)
        ]
        assert db.execute("SELECT count(*) FROM item_bodies").fetchone() == (2,)
        assert db.execute("SELECT max(length(body)) FROM items").fetchone()[0] < 500
