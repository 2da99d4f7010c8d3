"""The log is the truth: whatever arrives twice, late or with holes, the store holds what the runner gave."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farsteer.core import events as ev
from farsteer.core.capabilities import MachineInfo
from farsteer.core.errors import NotFound
from farsteer.core.ids import new_id
from farsteer.core.session import SessionSpec
from farsteer.hub.feed import Feed, SyncEvent
from farsteer.hub.store.base import AppendResult, AppendStatus
from farsteer.hub.store.sqlite import entries as entry_rows
from farsteer.hub.store.sqlite import log as log_table
from farsteer.hub.store.sqlite.store import SqliteStore
from farsteer.link.messages import EncodedEntry
from tests.hub.scripted import Log, machine

NS = "default"
LINK = 1


class Bench:
    """A store with one machine, and everything its feed said."""

    def __init__(self, store: SqliteStore, feed: Feed, info: MachineInfo) -> None:
        self.store = store
        self.machine = info
        self.told: list[SyncEvent] = []
        feed.listen(self.told.extend)

    @classmethod
    async def open(cls, path: Path) -> "Bench":
        feed = Feed()
        bench = cls(await SqliteStore.open(path, feed), feed, machine())
        await bench.store.connect_machine(NS, bench.machine, {}, link_id=LINK)
        return bench

    async def begin(self) -> Log:
        spec = SessionSpec(id=new_id(), machine_id=self.machine.id, directory="/work")
        await self.store.begin_session(NS, spec)
        return Log(spec.id)

    async def session(self) -> Log:
        log = await self.begin()
        await self.store.finish_session(log.state.id, log.state)
        return log

    async def append(self, log: Log, items: list[EncodedEntry], *, state: bool = False) -> AppendResult:
        given = log.state if state else None
        return await (
            await self.store.append_entries(NS, self.machine.id, log.state.id, items, given, link_id=LINK)
        )

    async def seqs(self, log: Log, limit: int = 200, before: int | None = None, after: int | None = None):
        page = await self.store.read_page(NS, log.state.id, limit=limit, before=before, after=after)
        return [json.loads(body)["seq"] for body in page.bodies]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = await Bench.open(tmp_path / "hub.db")
    yield bench
    await bench.store.close()


def says(log: Log, count: int) -> list[EncodedEntry]:
    return [log.add(ev.AgentMessage(message_id=str(n), text=f"text {n}")) for n in range(count)]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(slices=st.lists(st.tuples(st.integers(1, 25), st.integers(0, 8)), max_size=20))
def test_any_batches_leave_exactly_the_runners_log(
    slices: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("log") / "hub.db"

    async def main() -> None:
        bench = await Bench.open(path)
        log = await bench.session()
        items = says(log, 32)
        held = 0
        for first, count in slices:
            batch = items[first - 1 : first - 1 + count]
            appended = await bench.append(log, batch)
            if batch and first > held + 1:
                assert appended == AppendResult(AppendStatus.GAP, held)
                continue
            new = max(0, first - 1 + count - held) if batch else 0
            held += new
            assert appended == AppendResult(AppendStatus.STORED, held, new)
        stored = await bench.store.read_page(NS, log.state.id, limit=200, before=None, after=None)
        assert stored.bodies == [bytes(item.body) for item in items[:held]]
        told = [event for event in bench.told if event.type == "message-received"]
        assert [json.loads(event.data)["message"]["seq"] for event in told] == list(range(1, held + 1))
        cursors = [event.cursor for event in bench.told]
        assert cursors == sorted(set(cursors), key=lambda cursor: cursor or 0)
        page = await bench.store.read_feed(NS, 0)
        assert [event.data for event in page.events if event.subject == log.state.id] == [
            event.data for event in bench.told if event.subject == log.state.id
        ], "what was told is what is stored"
        await bench.store.close()

    asyncio.run(main())


async def test_a_batch_with_a_hole_inside_is_refused_whole(bench: Bench) -> None:
    log = await bench.session()
    items = says(log, 4)
    assert await bench.append(log, [items[0], items[2]]) == AppendResult(AppendStatus.GAP, 0)
    assert await bench.append(log, [items[0], items[0]]) == AppendResult(AppendStatus.GAP, 0)
    assert await bench.seqs(log) == []


async def test_no_other_machine_or_namespace_writes_a_session(bench: Bench) -> None:
    log = await bench.session()
    items = says(log, 1)
    other = machine()
    await bench.store.connect_machine(NS, other, {}, link_id=LINK)
    for namespace, machine_id in ((NS, other.id), ("other", bench.machine.id)):
        appended = await (
            await bench.store.append_entries(namespace, machine_id, log.state.id, items, None, link_id=LINK)
        )
        assert appended.status is AppendStatus.UNKNOWN
    unknown = await (
        await bench.store.append_entries(NS, bench.machine.id, new_id(), items, None, link_id=LINK)
    )
    assert unknown.status is AppendStatus.UNKNOWN
    assert await bench.seqs(log) == []


async def test_a_deleted_session_takes_no_events_and_nothing_of_it_is_left(bench: Bench) -> None:
    log = await bench.session()
    items = says(log, 5000)
    await bench.append(log, items[:4999])
    assert await bench.store.delete_session(NS, log.state.id) == bench.machine.id
    assert (await bench.append(log, items[4999:])).status is AppendStatus.DELETED
    await asyncio.gather(*bench.store._purges)
    page = await bench.store.read_feed(NS, 0, session_id=log.state.id, limit=10_000)
    assert [event.type for event in page.events] == ["session-removed"]
    with pytest.raises(NotFound):
        await bench.store.delete_session(NS, log.state.id)
    with pytest.raises(NotFound):
        await bench.seqs(log)


async def test_a_deletion_that_was_cut_short_is_finished_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = await Bench.open(tmp_path / "hub.db")
    log = await bench.session()
    await bench.append(log, says(log, 10))

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "_start_purge", lambda self, session_id: None)
        await bench.store.delete_session(NS, log.state.id)
    page = await bench.store.read_feed(NS, 0, session_id=log.state.id)
    assert len(page.events) > 10
    await bench.store.close()
    again = await SqliteStore.open(tmp_path / "hub.db", Feed())
    await asyncio.gather(*again._purges)
    page = await again.read_feed(NS, 0, session_id=log.state.id)
    assert [event.type for event in page.events] == ["session-removed"]
    await again.close()


async def test_cursors_are_never_given_twice(tmp_path: Path) -> None:
    bench = await Bench.open(tmp_path / "hub.db")
    log = await bench.session()
    await bench.append(log, says(log, 3))
    await bench.store.delete_session(NS, log.state.id)
    highest = (await bench.store.feed_bounds(NS)).highest
    assert highest == max(event.cursor or 0 for event in bench.told)
    await bench.store.close()
    again = await Bench.open(tmp_path / "hub.db")
    await again.session()
    assert min(event.cursor or 0 for event in again.told) > highest
    assert again.store.epoch == bench.store.epoch
    await again.store.close()


async def test_events_of_a_session_in_creation_are_told_after_the_session(bench: Bench) -> None:
    log = await bench.begin()
    await bench.append(log, [log.add(ev.LaunchStart(generation=1, resumed=False))], state=True)
    assert [event for event in bench.told if event.subject == log.state.id] == []
    assert (await bench.store.read_feed(NS, 0, session_id=log.state.id)).events == []
    await bench.append(log, [log.add(ev.StatusUpdate(status=ev.SessionStatus.IDLE))], state=True)
    view = await bench.store.finish_session(log.state.id, None)
    assert (view.status, view.seq) == (ev.SessionStatus.IDLE, 2)
    assert [event.type for event in bench.told if event.subject == log.state.id] == [
        "session-added", "message-received", "message-received",
    ]  # fmt: skip
    assert await bench.seqs(log) == [1, 2]


async def test_a_discarded_creation_leaves_nothing(bench: Bench) -> None:
    log = await bench.begin()
    items = says(log, 2)
    await bench.append(log, items)
    await bench.store.discard_session(log.state.id)
    assert (await bench.append(log, items)).status is AppendStatus.UNKNOWN
    with pytest.raises(NotFound):
        await bench.store.get_session(NS, log.state.id)


async def test_a_runner_is_told_to_forget_what_was_deleted_and_nothing_else(bench: Bench) -> None:
    live, failed, refused, unborn = [await bench.begin() for _ in range(4)]
    await bench.store.finish_session(live.state.id, live.state)
    await bench.store.discard_session(failed.state.id, keep_tombstone=True)
    await bench.store.discard_session(refused.state.id)
    stranger = new_id()
    named = dict.fromkeys([*(log.state.id for log in (live, failed, refused, unborn)), stranger], 0)
    connected = await bench.store.connect_machine(NS, bench.machine, named, link_id=LINK)
    assert connected.stored_seqs == {live.state.id: 0, unborn.state.id: 0}
    assert connected.deleted == [failed.state.id]
    assert connected.unknown == [refused.state.id, stranger]
    assert (await bench.append(failed, says(failed, 1))).status is AppendStatus.DELETED
    assert (await bench.append(refused, says(refused, 1))).status is AppendStatus.UNKNOWN


class TestPages:
    async def test_by_seq_in_both_directions(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, says(log, 10))
        assert await bench.seqs(log, 3) == [8, 9, 10]
        assert await bench.seqs(log, 3, before=8) == [5, 6, 7]
        assert await bench.seqs(log, 3, after=2) == [3, 4, 5]
        assert await bench.seqs(log, 9, after=8) == [9, 10]
        assert await bench.seqs(log, 9, before=4, after=1) == [2, 3]
        assert await bench.seqs(log, 9, after=10) == []
        assert await bench.seqs(log, 9, before=1) == []
        for huge in (10**17, 2**70):
            assert await bench.seqs(log, 9, before=huge) == list(range(2, 11))
            assert await bench.seqs(log, 9, after=huge) == await bench.seqs(log, 9, before=-huge) == []
        first = await bench.store.read_page(NS, log.state.id, limit=3, before=4, after=None)
        assert (first.first_seq, first.last_seq, first.has_older, first.has_newer) == (1, 3, False, True)

    async def test_what_was_cleared_is_not_shown(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, says(log, 10))
        cleared = await bench.store.clear_messages(NS, log.state.id, keep=4)
        assert (cleared.cleared, cleared.remaining) == (6, 4)
        assert await bench.seqs(log) == [7, 8, 9, 10]
        assert await bench.seqs(log, after=2) == [7, 8, 9, 10]
        assert not (await bench.store.read_page(NS, log.state.id, limit=4, before=None, after=None)).has_older
        again = await bench.store.clear_messages(NS, log.state.id, keep=9)
        assert (again.cleared, again.remaining) == (0, 4)
        events = [json.loads(event.data) for event in bench.told if event.type == "messages-cleared"]
        assert [event["data"] for event in events] == [{"clearedSeq": 6, "remaining": 4}]
        await bench.append(log, says(log, 1))
        assert await bench.seqs(log) == [7, 8, 9, 10, 11]

    async def test_a_page_of_huge_messages_ends_early(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(entry_rows, "MAX_PAGE_BYTES", 1000)
        log = await bench.session()
        await bench.append(log, [log.add(ev.AgentMessage(message_id="1", text="x" * 400)) for _ in range(10)])
        newest = await bench.store.read_page(NS, log.state.id, limit=10, before=None, after=None)
        assert (newest.last_seq, len(newest.bodies), newest.has_older) == (10, 2, True)
        oldest = await bench.store.read_page(NS, log.state.id, limit=10, before=None, after=0)
        assert (oldest.first_seq, len(oldest.bodies), oldest.has_newer) == (1, 2, True)
        seen: list[int] = []
        position, more = 0, True
        while more:
            feed = await bench.store.read_feed(NS, position, types=["message-received"])
            seen += [json.loads(event.data)["message"]["seq"] for event in feed.events]
            position, more = feed.next, feed.more
        assert seen == list(range(1, 11))


class TestTheFeed:
    async def test_since_a_cursor_by_namespace_session_and_type(self, bench: Bench) -> None:
        first, second = await bench.session(), await bench.session()
        await bench.append(first, says(first, 3))
        await bench.append(second, says(second, 2))
        await bench.store.connect_machine("other", machine(), {}, link_id=LINK)
        every = await bench.store.read_feed(NS, 0)
        assert not every.more
        assert [event.cursor for event in every.events] == sorted(event.cursor or 0 for event in every.events)
        assert {event.namespace for event in every.events} == {NS}
        one = await bench.store.read_feed(NS, 0, session_id=second.state.id)
        assert [event.type for event in one.events] == ["session-added"] + ["message-received"] * 2
        typed = await bench.store.read_feed(NS, 0, types=["session-added", "machine-updated"])
        assert [event.type for event in typed.events] == [
            "machine-updated",
            "session-added",
            "session-added",
        ]
        assert (await bench.store.read_feed(NS, 0, types=[])).events == []

    async def test_pages_join_without_gap_or_double(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, says(log, 25))
        whole = (await bench.store.read_feed(NS, 0)).events
        pieces: list[SyncEvent] = []
        position, more = 0, True
        while more:
            page = await bench.store.read_feed(NS, position, limit=4)
            pieces += page.events
            position, more = page.next, page.more
        assert pieces == whole
        assert position == (await bench.store.feed_bounds(NS)).highest
        assert (await bench.store.read_feed(NS, position)).events == []

    async def test_far_behind_a_filter_is_read_in_bounded_steps(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log, other = await bench.session(), await bench.session()
        for _ in range(3):
            await bench.append(log, says(log, 2))
            await bench.append(other, says(other, 20))
        whole = (await bench.store.read_feed(NS, 0, session_id=log.state.id)).events
        monkeypatch.setattr(log_table, "MAX_SCAN", 5)
        pieces: list[SyncEvent] = []
        position, more, steps = 0, True, 0
        while more:
            page = await bench.store.read_feed(NS, position, session_id=log.state.id)
            assert page.next <= position + 5
            pieces += page.events
            position, more, steps = page.next, page.more, steps + 1
        assert pieces == whole
        assert steps > 10

    async def test_machines_that_come_and_go_do_not_fill_the_log(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, says(log, 1))
        for _ in range(5):
            await bench.store.disconnect_machine(NS, bench.machine.id, link_id=LINK)
            await bench.store.connect_machine(NS, bench.machine, {}, link_id=LINK)
        told = [event.cursor or 0 for event in bench.told]
        assert told == sorted(set(told))
        page = await bench.store.read_feed(NS, 0)
        assert [event.type for event in page.events] == [
            "session-added", "message-received", "machine-updated", "session-updated",
        ]  # fmt: skip
        assert page.events[-2:] == bench.told[-2:]
        assert await bench.seqs(log) == [1]


class TestChangesOfState:
    async def test_a_change_is_told_as_a_partial_with_what_changed(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, [log.add(ev.TurnStart(turn_id="t"))], state=True)
        await bench.append(
            log,
            [log.add(ev.AgentMessage(message_id="m", text="hello")), log.add(ev.TitleUpdate(title="Hi"))],
            state=True,
        )
        updates = [json.loads(event.data)["data"] for event in bench.told if event.type == "session-updated"]
        for update in updates:
            assert isinstance(update.pop("updatedAt"), int)
        assert updates == [
            {
                "partial": True, "status": "working", "active": True, "thinking": True, "turnId": "t", "seq": 1,
                "lastMessage": None,
            },
            {"partial": True, "title": "Hi", "seq": 3, "lastMessage": "hello"},
        ]  # fmt: skip

    async def test_the_same_state_again_changes_and_tells_nothing(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, [log.add(ev.TurnStart(turn_id="t"))], state=True)
        before, told = await bench.store.get_session(NS, log.state.id), len(bench.told)
        assert await bench.append(log, [], state=True) == AppendResult(AppendStatus.STORED, 1)
        assert await bench.append(log, log.items, state=True) == AppendResult(AppendStatus.STORED, 1)
        assert await bench.store.get_session(NS, log.state.id) == before
        assert len(bench.told) == told

    async def test_a_change_without_an_event_is_taken(self, bench: Bench) -> None:
        log = await bench.session()
        log.state = msgspec.structs.replace(log.state, native_id="theirs", registered=True)
        await bench.append(log, [], state=True)
        assert (await bench.store.get_session(NS, log.state.id)).state.native_id == "theirs"
        assert json.loads(bench.told[-1].data)["data"]["nativeId"] == "theirs"

    async def test_a_state_of_another_moment_or_session_is_ignored(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, says(log, 2))
        for wrong in (
            msgspec.structs.replace(log.state, seq=1, title="old"),
            msgspec.structs.replace(log.state, id=new_id(), title="foreign"),
        ):
            await (
                await bench.store.append_entries(NS, bench.machine.id, log.state.id, [], wrong, link_id=LINK)
            )
        assert (await bench.store.get_session(NS, log.state.id)).state.title is None
