"""What only concerns SQLite: rows that are left behind, bounded work, and random logs against a model."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.errors import NotFound
from farsteer.hub.feed import SyncEvent
from farsteer.hub.rules import fork as fork_rules
from farsteer.hub.rules.visibility import count_entries
from farsteer.hub.store.base import AppendResult, AppendStatus, CopyProgress, SeqRange
from farsteer.hub.store.conformance import LogBuilder, StoreHarness
from farsteer.hub.store.conformance.harness import NAMESPACE
from farsteer.hub.store.sqlite import entries as entry_rows
from farsteer.hub.store.sqlite import log as log_rows
from farsteer.hub.store.sqlite.store import SqliteStore
from tests.hub.store.factory import SqliteFactory


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[StoreHarness]:
    harness = await StoreHarness.open(SqliteFactory(tmp_path))
    yield harness
    await harness.store.close()


def path_of(harness: StoreHarness) -> Path:
    assert isinstance(harness.factory, SqliteFactory)
    return harness.factory.path


def query(harness: StoreHarness, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path_of(harness))) as db:
        return db.execute(sql).fetchall()


def cuts(harness: StoreHarness) -> list[tuple[str, int, int]]:
    return query(harness, "SELECT session_id, first, last FROM cuts")


def copied_rows(harness: StoreHarness) -> int:
    return query(harness, "SELECT count(*) FROM copies")[0][0]


async def purged(harness: StoreHarness) -> None:
    assert isinstance(harness.store, SqliteStore)
    await harness.store._purges.wait()


# -- random logs


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(slices=st.lists(st.tuples(st.integers(1, 25), st.integers(0, 8)), max_size=20))
def test_any_batches_leave_exactly_the_runners_log(
    slices: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def main() -> None:
        harness = await StoreHarness.open(SqliteFactory(tmp_path_factory.mktemp("log")))
        log = await harness.create_session()
        entries = log.add_messages(32)
        held = 0
        for first, count in slices:
            batch = entries[first - 1 : first - 1 + count]
            appended = await harness.append(log, batch)
            if batch and first > held + 1:
                assert appended == AppendResult(AppendStatus.GAP, held)
                continue
            new = max(0, first - 1 + count - held) if batch else 0
            held += new
            assert appended == AppendResult(AppendStatus.STORED, held, new)
        stored = await harness.page(log)
        assert stored.bodies == [bytes(entry.body) for entry in entries[:held]]
        published = harness.published_about(log.session_id, "message-received")
        assert [json.loads(event.data)["message"]["seq"] for event in published] == [*range(1, held + 1)]
        cursors = [event.cursor or 0 for event in harness.published]
        assert cursors == sorted(set(cursors))
        events = await harness.read_feed(session_id=log.session_id)
        assert [event.data for event in events] == [
            event.data for event in harness.published_about(log.session_id)
        ], "what was published is what is stored"
        await harness.store.close()

    asyncio.run(main())


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 40)), max_size=12),
    clear=st.none() | st.integers(0, 12),
    limit=st.integers(1, 7),
)
def test_pages_in_both_directions_join_to_exactly_what_is_visible(
    steps: list[tuple[int, int]], clear: int | None, limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Compared with a model that marks every entry. Rewinds may name any entry, also one that is hidden."""

    async def main() -> None:
        harness = await StoreHarness.open(SqliteFactory(tmp_path_factory.mktemp("log")))
        log = await harness.create_session()
        visible: list[int] = []
        for count, first_removed in steps:
            await harness.append(log, log.add_messages(count))
            visible += range(log.state.seq - count + 1, log.state.seq + 1)
            if first_removed:
                await harness.append(log, [log.add_rewind(first_removed)])
                visible = [seq for seq in visible if seq < first_removed] + [log.state.seq]
        if clear is not None:
            cleared = await harness.store.clear_messages(NAMESPACE, log.session_id, clear)
            left = visible[len(visible) - min(clear, len(visible)) :]
            assert (cleared.cleared, cleared.remaining) == (len(visible) - len(left), len(left))
            visible = left
        for forward in (True, False):
            found: list[int] = []
            position, more = (0 if forward else None), True
            while more:
                page = await (
                    harness.page(log, limit, after=position)
                    if forward
                    else harness.page(log, limit, before=position)
                )
                part = [json.loads(body)["seq"] for body in page.bodies]
                found = [*found, *part] if forward else [*part, *found]
                position = page.last_seq if forward else page.first_seq
                more = page.has_newer if forward else page.has_older
                assert part or not more
            assert found == visible
        await harness.store.close()

    asyncio.run(main())


# -- bounded work


async def test_a_page_of_huge_messages_ends_early(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_rows, "MAX_PAGE_BYTES", 1000)
    log = await harness.create_session()
    await harness.append(log, [log.add(ev.AgentMessage(message_id="1", text="x" * 400)) for _ in range(10)])
    newest = await harness.page(log, 10)
    assert (newest.last_seq, len(newest.bodies), newest.has_older) == (10, 2, True)
    oldest = await harness.page(log, 10, after=0)
    assert (oldest.first_seq, len(oldest.bodies), oldest.has_newer) == (1, 2, True)
    events = await harness.read_feed(types=["message-received"])
    assert [json.loads(event.data)["message"]["seq"] for event in events] == [*range(1, 11)]


async def test_a_filter_that_matches_little_is_read_in_bounded_steps(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, other = await harness.create_session(), await harness.create_session()
    for _ in range(3):
        await harness.append(log, log.add_messages(2))
        await harness.append(other, other.add_messages(20))
    whole = (await harness.store.read_feed(NAMESPACE, 0, session_id=log.session_id)).events
    monkeypatch.setattr(log_rows, "MAX_SCAN", 5)
    parts: list[SyncEvent] = []
    position, more, steps = 0, True, 0
    while more:
        page = await harness.store.read_feed(NAMESPACE, position, session_id=log.session_id)
        assert page.next <= position + 5
        parts += page.events
        position, more, steps = page.next, page.more, steps + 1
    assert parts == whole
    assert steps > 10


async def test_a_hundred_thousand_hidden_entries_cost_a_page_nothing(harness: StoreHarness) -> None:
    log = await harness.create_session(entries=60)
    few = sqlite_steps(harness, log)
    filler = [(NAMESPACE, "message-received", log.session_id, seq, b"{}") for seq in range(61, 100_061)]
    with closing(sqlite3.connect(path_of(harness))) as db, db:
        db.executemany(
            "INSERT INTO log (namespace, type, subject, seq, created_at, body) VALUES (?, ?, ?, ?, 0, ?)",
            filler,
        )
        db.execute("UPDATE sessions SET seq = 100060 WHERE id = ?", (log.session_id,))
    log.state = replace(log.state, seq=100_060)
    await harness.append(log, [log.add_rewind(11), *log.add_messages(10)])
    assert await harness.seqs(log, 20) == [*range(2, 11), *range(100_061, 100_072)]
    assert await harness.seqs(log, 20, after=8) == [9, 10, *range(100_061, 100_072)]
    assert sqlite_steps(harness, log) < few + 2000


def sqlite_steps(harness: StoreHarness, log: LogBuilder) -> int:
    """How many instructions SQLite runs for two pages and a count."""
    done = 0

    def step() -> None:
        nonlocal done
        done += 10

    with closing(sqlite3.connect(path_of(harness))) as db:
        db.set_progress_handler(step, 10)
        for after in (None, 5):
            entry_rows.page(db, NAMESPACE, log.session_id, limit=20, before=None, after=after)
        count_entries(entry_rows._visible(db, log.session_id, 0, log.state.seq + 1))
    return done


async def test_a_long_copy_is_made_in_bounded_steps_while_its_source_goes_on(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_rules, "CHUNK_ENTRIES", 7)
    source = await harness.create_session()
    for text in "abcdef":
        await harness.append(source, source.add_turn(text))
    spec = harness.new_spec()
    await harness.store.begin_session(NAMESPACE, spec)
    ranges = await harness.store.visible_ranges(NAMESPACE, source.session_id, None)
    progress = CopyProgress()
    steps = 0
    while not progress.done:
        before = progress.count
        progress = await harness.store.copy_entries(NAMESPACE, source.session_id, spec.id, ranges, progress)
        assert progress.count - before <= 8
        added = source.add_rewind(6) if steps == 1 else source.add(ev.Notice(text="on"))
        await harness.append(source, [added])
        steps += 1
    assert (progress.count, steps) == (30, 5)


# -- rows that are left behind


async def test_a_rewind_replaces_the_cuts_inside_it(harness: StoreHarness) -> None:
    log = await harness.create_session()
    await harness.append(log, [*log.add_turn("one"), *log.add_turn("two"), log.add_rewind(6)])
    await harness.append(log, [*log.add_turn("three"), log.add_rewind(12), log.add_rewind(1)])
    assert cuts(harness) == [(log.session_id, 1, 17)]


async def test_a_deletion_removes_the_cuts(harness: StoreHarness) -> None:
    log = await harness.create_session()
    await harness.append(log, [*log.add_turn("one"), log.add_rewind(1)])
    await harness.store.delete_session(NAMESPACE, log.session_id)
    await purged(harness)
    assert cuts(harness) == []


async def test_a_deletion_that_was_interrupted_is_completed_when_the_store_is_opened(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await harness.create_session(entries=10)
    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "_start_purge", lambda self, session_id: None)
        await harness.store.delete_session(NAMESPACE, log.session_id)
    assert len(await harness.read_feed(session_id=log.session_id)) > 10
    await harness.reopen()
    await purged(harness)
    left = await harness.read_feed(session_id=log.session_id)
    assert [event.type for event in left] == ["session-removed"]


async def test_a_fork_outlives_its_source_and_leaves_nothing_when_it_is_deleted(
    harness: StoreHarness,
) -> None:
    source = await harness.create_session()
    await harness.append(source, [*source.add_turn("one"), *source.add_messages(2500)])
    log, copied = await harness.fork(source)
    await harness.store.delete_session(NAMESPACE, source.session_id)
    await purged(harness)
    assert copied_rows(harness) == copied.count == 2505
    assert await harness.seqs(log, 2, after=0) == [1, 2]
    await harness.store.delete_session(NAMESPACE, log.session_id)
    await purged(harness)
    assert copied_rows(harness) == 0


async def test_a_fork_that_failed_leaves_nothing(harness: StoreHarness) -> None:
    source = await harness.create_session()
    await harness.append(source, source.add_turn("one"))
    log, _ = await harness.begin_fork(source)
    await harness.store.discard_session(log.session_id)
    await purged(harness)
    assert copied_rows(harness) == 0
    late = await harness.append(log, [log.add(ev.Notice(text="late"))])
    assert late.status is not AppendStatus.STORED
    with pytest.raises(NotFound):
        await harness.store.copy_entries(
            NAMESPACE, source.session_id, log.session_id, [SeqRange(1, 5)], CopyProgress()
        )


async def test_a_restart_in_the_middle_of_a_fork_leaves_nothing(harness: StoreHarness) -> None:
    source = await harness.create_session()
    await harness.append(source, source.add_turn("one"))
    log, _ = await harness.begin_fork(source)
    assert harness.published_about(log.session_id) == []
    with pytest.raises(NotFound):
        await harness.store.get_session(NAMESPACE, log.session_id)
    await harness.reopen()
    await purged(harness)
    assert copied_rows(harness) == 0
    with pytest.raises(NotFound):
        await harness.store.get_session(NAMESPACE, log.session_id)
    assert (await harness.page(source, 9)).last_seq == 5
