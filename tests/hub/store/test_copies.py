"""A fork begins with a copy of the conversation: whole or not there, no news to anybody, its source untouched."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.errors import NotFound
from farsteer.core.ids import new_id
from farsteer.core.queue import ItemState
from farsteer.core.session import Fork, SessionSpec
from farsteer.hub.feed import Feed
from farsteer.hub.rules import fork as fork_rules
from farsteer.hub.store.base import AppendStatus, CopyProgress, SeqRange
from farsteer.hub.store.sqlite.store import SqliteStore
from tests.hub.scripted import Log
from tests.hub.store.test_log import NS, Bench, says
from tests.hub.store.test_visible import path_of, rewound, turn


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = await Bench.open(tmp_path / "hub.db")
    yield bench
    await bench.store.close()


async def begin(bench: Bench, source: Log, upto: int | None = None) -> tuple[Log, CopyProgress]:
    """A fork in creation, with its copy."""
    spec = SessionSpec(id=new_id(), machine_id=bench.machine.id, directory="/work")
    await bench.store.begin_session(NS, spec)
    stretches = await bench.store.visible_ranges(NS, source.state.id, upto)
    copied = CopyProgress()
    while not copied.done:
        copied = await bench.store.copy_entries(NS, source.state.id, spec.id, stretches, copied)
    fork = Fork(session_id=source.state.id, seq=upto or source.state.seq, native_id="n", copied=copied.count)
    await bench.store.finish_copy(replace(spec, fork=fork), copied)
    return Log(spec.id, seq=copied.count), copied


async def fork(bench: Bench, source: Log, upto: int | None = None) -> tuple[Log, CopyProgress]:
    log, copied = await begin(bench, source, upto)
    await bench.append(log, [log.add(ev.LaunchStart(generation=1, resumed=False))], state=True)
    await bench.store.finish_session(log.state.id, log.state)
    return log, copied


async def entries(bench: Bench, log: Log) -> list[Any]:
    page = await bench.store.read_page(NS, log.state.id, limit=200, before=None, after=None)
    return [json.loads(body) for body in page.bodies]


def rows(bench: Bench) -> int:
    db = sqlite3.connect(path_of(bench))
    found = db.execute("SELECT count(*) FROM copies").fetchone()[0]
    db.close()
    return found


async def test_the_conversation_is_taken_over_and_how_it_came_about_is_not(bench: Bench) -> None:
    source = await bench.session()
    items = [
        source.add(ev.LaunchStart(generation=1, resumed=False)),
        source.add(ev.StatusUpdate(status=ev.SessionStatus.IDLE)),
        source.add(ev.QueueUpdate(item_id="one", state=ItemState.QUEUED)),
        *turn(source, "one", anchor="a"),
        source.add(ev.UsageUpdate(input_tokens=1)),
        source.add(ev.Notice(text="careful")),
        source.add(ev.TitleUpdate(title="t")),
    ]
    await bench.append(source, items)
    log, copied = await fork(bench, source)
    assert (copied.count, copied.anchor, copied.answered, copied.last_message) == (6, "a", True, "to one")
    found = await entries(bench, log)
    assert [entry["content"]["kind"] for entry in found] == [
        "turn_start", "user_message", "agent_thought", "agent_message", "turn_end", "notice", "launch_start",
    ]  # fmt: skip
    assert [entry["id"] for entry in found] == [f"{log.state.id}:{n}" for n in range(1, 8)]
    assert found[1] | {"id": None, "seq": None} == json.loads(bytes(source.items[4].body)) | {
        "id": None,
        "seq": None,
    }
    row = await bench.store.get_session(NS, log.state.id)
    assert (row.seq, row.last_message) == (7, "to one")
    assert await bench.seqs(log, 2, before=7) == [5, 6]
    assert await bench.seqs(log, 3, after=5) == [6, 7]


async def test_a_copy_is_no_news(bench: Bench) -> None:
    source = await bench.session()
    await bench.append(source, turn(source, "one"))
    log, _ = await fork(bench, source)
    told = [event.type for event in bench.told if event.subject == log.state.id]
    assert told == ["session-added", "message-received"]
    page = await bench.store.read_feed(NS, 0, session_id=log.state.id)
    assert [event.type for event in page.events] == told


async def test_nobody_sees_what_was_rewound_in_a_fork_either(bench: Bench) -> None:
    source = await bench.session()
    await bench.append(source, [*turn(source, "one"), *turn(source, "two"), source.add(rewound(6))])
    await bench.append(source, turn(source, "three"))
    log, copied = await fork(bench, source)
    said = [entry["content"].get("text") for entry in await entries(bench, log) if entry["role"] == "user"]
    assert (said, copied.count) == (["one", "three"], 10)
    await bench.append(log, [log.add(rewound(6))])
    assert await bench.seqs(log) == [1, 2, 3, 4, 5, 12]
    again, _ = await fork(bench, log)
    said = [entry["content"].get("text") for entry in await entries(bench, again) if entry["role"] == "user"]
    assert said == ["one"]


async def test_a_turn_that_is_cut_in_two_has_an_end(bench: Bench) -> None:
    source = await bench.session()
    await bench.append(source, turn(source, "one"))
    log, _ = await fork(bench, source, upto=4)
    end = (await entries(bench, log))[4]["content"]
    assert (end["kind"], end["turnId"], end["reason"]) == ("turn_end", "one", "cancelled")
    cleared, _ = await fork(bench, source, upto=0)
    assert [entry["content"]["kind"] for entry in await entries(bench, cleared)] == ["launch_start"]


async def test_what_was_cleared_is_not_taken_over(bench: Bench) -> None:
    source = await bench.session()
    await bench.append(source, [*turn(source, "one"), *turn(source, "two")])
    await bench.store.clear_messages(NS, source.state.id, keep=3)
    log, _ = await fork(bench, source)
    kinds = [entry["content"]["kind"] for entry in await entries(bench, log)]
    assert kinds == ["agent_thought", "agent_message", "launch_start"]


async def test_a_long_copy_is_made_in_bounded_steps_while_its_source_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_rules, "CHUNK_ENTRIES", 7)
    source = await bench.session()
    for text in "abcdef":
        await bench.append(source, turn(source, text))
    spec = SessionSpec(id=new_id(), machine_id=bench.machine.id, directory="/work")
    await bench.store.begin_session(NS, spec)
    stretches = await bench.store.visible_ranges(NS, source.state.id, None)
    copied = CopyProgress()
    steps = 0
    while not copied.done:
        before = copied.count
        copied = await bench.store.copy_entries(NS, source.state.id, spec.id, stretches, copied)
        assert copied.count - before <= 8
        await bench.append(
            source, [source.add(rewound(6)) if steps == 1 else source.add(ev.Notice(text="on"))]
        )
        steps += 1
    assert (copied.count, steps) == (30, 5)


async def test_a_source_that_is_deleted_meanwhile_is_not_found(bench: Bench) -> None:
    source = await bench.session()
    await bench.append(source, turn(source, "one"))
    spec = SessionSpec(id=new_id(), machine_id=bench.machine.id, directory="/work")
    await bench.store.begin_session(NS, spec)
    stretches = await bench.store.visible_ranges(NS, source.state.id, None)
    await bench.store.delete_session(NS, source.state.id)
    with pytest.raises(NotFound):
        await bench.store.copy_entries(NS, source.state.id, spec.id, stretches, CopyProgress())


async def test_a_fork_outlives_its_source_and_leaves_nothing_when_it_is_deleted(bench: Bench) -> None:
    source = await bench.session()
    await bench.append(source, [*turn(source, "one"), *says(source, 2500)])
    log, copied = await fork(bench, source)
    await bench.store.delete_session(NS, source.state.id)
    await asyncio.gather(*bench.store._purges)
    assert rows(bench) == copied.count == 2505
    assert await bench.seqs(log, 2, after=0) == [1, 2]
    await bench.store.delete_session(NS, log.state.id)
    await asyncio.gather(*bench.store._purges)
    assert rows(bench) == 0


async def test_a_fork_that_failed_leaves_nothing(bench: Bench) -> None:
    source = await bench.session()
    await bench.append(source, turn(source, "one"))
    log, _ = await begin(bench, source)
    await bench.store.discard_session(log.state.id)
    await asyncio.gather(*bench.store._purges)
    assert rows(bench) == 0
    late = await bench.append(log, [log.add(ev.Notice(text="late"))])
    assert late.status is not AppendStatus.STORED
    with pytest.raises(NotFound):
        await bench.store.copy_entries(NS, source.state.id, log.state.id, [SeqRange(1, 5)], CopyProgress())


async def test_a_crash_in_the_middle_of_a_fork_leaves_nothing(tmp_path: Path) -> None:
    bench = await Bench.open(tmp_path / "hub.db")
    source = await bench.session()
    await bench.append(source, turn(source, "one"))
    log, _ = await begin(bench, source)
    assert [event for event in bench.told if event.subject == log.state.id] == []
    with pytest.raises(NotFound):
        await bench.store.get_session(NS, log.state.id)
    await bench.store.close()
    again = await SqliteStore.open(tmp_path / "hub.db", Feed())
    await asyncio.gather(*again._purges)
    assert rows(bench) == 0
    with pytest.raises(NotFound):
        await again.get_session(NS, log.state.id)
    assert (await again.read_page(NS, source.state.id, limit=9, before=None, after=None)).last_seq == 5
    await again.close()
