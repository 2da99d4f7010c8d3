"""What a rewind removed is history nobody sees: pages step over it, the feed still tells it, the rows stay."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.errors import NotFound
from farsteer.core.events import FileRestore, FilesRestored
from farsteer.core.queue import REWIND_REASON, ItemState
from farsteer.hub.rules.visibility import count_entries
from farsteer.hub.store.sqlite import entries as entry_rows
from farsteer.link.messages import EncodedEntry
from tests.hub.scripted import Log
from tests.hub.store.test_log import NS, Bench, says


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = await Bench.open(tmp_path / "hub.db")
    yield bench
    await bench.store.close()


def rewound(first_seq: int) -> ev.Rewound:
    return ev.Rewound(first_seq=first_seq, files=FilesRestored(status=FileRestore.SKIPPED))


def turn(log: Log, text: str, *, anchor: str | None = None, thought: str | None = None) -> list[EncodedEntry]:
    """A person's message and its answer: five entries."""
    return [
        log.add(ev.TurnStart(turn_id=text, item_id=text)),
        log.add(ev.UserMessage(item_id=text, text=text)),
        log.add(ev.AgentThought(message_id="t", text="hm", anchor=thought)),
        log.add(ev.AgentMessage(message_id="m", text=f"to {text}", anchor=anchor)),
        log.add(ev.TurnEnd(turn_id=text, reason=ev.TurnEndReason.END_TURN)),
    ]


class TestPages:
    async def test_nobody_sees_what_was_rewound(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, [*turn(log, "one"), *turn(log, "two"), log.add(rewound(6))], state=True)
        assert await bench.seqs(log) == [1, 2, 3, 4, 5, 11]
        assert await bench.seqs(log, 2) == [5, 11]
        assert await bench.seqs(log, 2, before=11) == [4, 5]
        assert await bench.seqs(log, 2, before=8) == [4, 5]
        assert await bench.seqs(log, 2, after=4) == [5, 11]
        assert await bench.seqs(log, 2, after=7) == [11]
        page = await bench.store.read_page(NS, log.state.id, limit=1, before=None, after=None)
        assert (page.first_seq, page.has_older, page.has_newer) == (11, True, False)
        page = await bench.store.read_page(NS, log.state.id, limit=5, before=11, after=None)
        assert (page.first_seq, page.last_seq, page.has_older, page.has_newer) == (1, 5, False, True)

    async def test_a_later_rewind_swallows_those_inside_it(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, [*turn(log, "one"), *turn(log, "two"), log.add(rewound(6))])
        await bench.append(log, [*turn(log, "three"), log.add(rewound(12))])
        assert await bench.seqs(log) == [1, 2, 3, 4, 5, 11, 17]
        await bench.append(log, [log.add(rewound(1))])
        assert await bench.seqs(log) == [18]
        assert cuts(bench) == [(log.state.id, 1, 17)]

    async def test_the_feed_tells_all_of_it_and_the_rows_have_no_gap(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, [*turn(log, "one"), log.add(rewound(1))])
        page = await bench.store.read_feed(NS, 0, session_id=log.state.id, types=["message-received"])
        entries = [json.loads(event.data)["message"] for event in page.events]
        assert [entry["seq"] for entry in entries] == [1, 2, 3, 4, 5, 6]
        assert entries[-1]["content"]["kind"] == "rewound"

    async def test_clearing_counts_what_is_visible(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, [*turn(log, "one"), *turn(log, "two"), log.add(rewound(6))])
        cleared = await bench.store.clear_messages(NS, log.state.id, keep=3)
        assert (cleared.cleared, cleared.remaining) == (3, 3)
        assert await bench.seqs(log) == [4, 5, 11]
        assert not (await bench.store.read_page(NS, log.state.id, limit=3, before=None, after=None)).has_older
        again = await bench.store.clear_messages(NS, log.state.id, keep=1)
        assert (again.cleared, again.remaining) == (2, 1)
        assert await bench.seqs(log) == [11]
        none = await bench.store.clear_messages(NS, log.state.id, keep=5)
        assert (none.cleared, none.remaining) == (0, 1)

    async def test_the_list_shows_the_last_message_that_is_left(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, [*turn(log, "one"), *turn(log, "two")], state=True)
        assert (await bench.store.get_session(NS, log.state.id)).last_message == "to two"
        await bench.append(log, [log.add(rewound(6))], state=True)
        assert (await bench.store.get_session(NS, log.state.id)).last_message == "to one"
        assert json.loads(bench.told[-1].data)["data"]["lastMessage"] == "to one"
        await bench.append(log, [log.add(ev.TitleUpdate(title="x"))], state=True)
        assert (await bench.store.get_session(NS, log.state.id)).last_message == "to one"
        await bench.append(log, [log.add(rewound(1))], state=True)
        assert (await bench.store.get_session(NS, log.state.id)).last_message is None

    async def test_a_hundred_thousand_hidden_entries_cost_a_page_nothing(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, says(log, 60))
        few = steps(bench, log)
        filler = [(NS, "message-received", log.state.id, seq, b"{}") for seq in range(61, 100_061)]
        with sqlite3.connect(path_of(bench)) as db:
            db.executemany(
                "INSERT INTO log (namespace, type, subject, seq, created_at, body) VALUES (?, ?, ?, ?, 0, ?)",
                filler,
            )
            db.execute("UPDATE sessions SET seq = 100060 WHERE id = ?", (log.state.id,))
        db.close()
        log.state = replace(log.state, seq=100_060)
        await bench.append(log, [log.add(rewound(11)), *says(log, 10)])
        assert await bench.seqs(log, 20) == [*range(2, 11), *range(100_061, 100_072)]
        assert await bench.seqs(log, 20, after=8) == [9, 10, *range(100_061, 100_072)]
        assert steps(bench, log) < few + 2000

    async def test_deletion_takes_the_cuts_along(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, [*turn(log, "one"), log.add(rewound(1))])
        await bench.store.delete_session(NS, log.state.id)
        await asyncio.gather(*bench.store._purges)
        assert cuts(bench) == []


class TestPlaces:
    async def test_the_cut_begins_with_the_messages_turn_and_keeps_the_last_anchor(
        self, bench: Bench
    ) -> None:
        log = await bench.session()
        await bench.append(log, turn(log, "one", thought="a1", anchor="a2"))
        await bench.append(log, turn(log, "two", thought="b1", anchor="b2"))
        await bench.append(log, turn(log, "three"))
        first = await bench.store.find_rewind_point(NS, log.state.id, 2)
        assert (first.first_seq, first.cut_at, first.last_seq) == (1, None, 15)
        second = await bench.store.find_rewind_point(NS, log.state.id, 7)
        assert (second.first_seq, second.cut_at) == (6, "a2")
        assert (await bench.store.find_rewind_point(NS, log.state.id, 12)).cut_at == "b2"

    async def test_a_message_that_was_steered_in_begins_no_turn(self, bench: Bench) -> None:
        log = await bench.session()
        items = [
            log.add(ev.TurnStart(turn_id="t", item_id="one")),
            log.add(ev.UserMessage(item_id="one", text="one")),
            log.add(ev.AgentMessage(message_id="m", text="to one", anchor="a")),
            log.add(ev.UserMessage(item_id="two", text="two")),
        ]
        await bench.append(log, items)
        place = await bench.store.find_rewind_point(NS, log.state.id, 4)
        assert (place.first_seq, place.cut_at) == (4, "a")

    async def test_what_was_rewound_is_no_place_and_its_anchors_do_not_count(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, turn(log, "one", anchor="a"))
        await bench.append(log, [*turn(log, "two", anchor="b"), log.add(rewound(6)), *turn(log, "three")])
        for seq in (6, 7, 10, 0, 17, 2**53):
            with pytest.raises(NotFound):
                await bench.store.find_rewind_point(NS, log.state.id, seq)
        assert (await bench.store.find_rewind_point(NS, log.state.id, 13)).cut_at == "a"

    async def test_what_was_cleared_is_no_place_but_the_agent_still_knows_it(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, [*turn(log, "one", anchor="a"), *turn(log, "two", anchor="b")])
        await bench.store.clear_messages(NS, log.state.id, keep=5)
        with pytest.raises(NotFound):
            await bench.store.find_rewind_point(NS, log.state.id, 2)
        assert (await bench.store.find_rewind_point(NS, log.state.id, 7)).cut_at == "a"

    async def test_what_a_rewind_cancelled_is_told_from_what_others_did(self, bench: Bench) -> None:
        log = await bench.session()
        await bench.append(log, turn(log, "one"))
        cancelled = [("x", "cancelled by the sender"), ("y", REWIND_REASON), ("z", REWIND_REASON)]
        updates = [
            log.add(ev.QueueUpdate(item_id=item, state=ItemState.CANCELLED, reason=why))
            for item, why in cancelled
        ]
        await bench.append(log, [*updates, log.add(rewound(1))])
        done = await bench.store.find_rewind_result(NS, log.state.id, 1, 5)
        assert (done.seq, done.cancelled) == (9, ["y", "z"])
        with pytest.raises(NotFound):
            await bench.store.find_rewind_result(NS, log.state.id, 9, 9)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 40)), max_size=12),
    clear=st.none() | st.integers(0, 12),
    limit=st.integers(1, 7),
)
def test_pages_in_both_directions_join_to_exactly_what_is_visible(
    steps: list[tuple[int, int]], clear: int | None, limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Against a model that marks every entry: rewinds may go anywhere, also to where they cannot."""
    path = tmp_path_factory.mktemp("log") / "hub.db"

    async def main() -> None:
        bench = await Bench.open(path)
        log = await bench.session()
        seen: list[int] = []
        for count, place in steps:
            await bench.append(log, says(log, count))
            seen += range(log.state.seq - count + 1, log.state.seq + 1)
            if place:
                await bench.append(log, [log.add(rewound(place))])
                seen = [seq for seq in seen if seq < place] + [log.state.seq]
        if clear is not None:
            gone = await bench.store.clear_messages(NS, log.state.id, clear)
            left = seen[len(seen) - min(clear, len(seen)) :]
            assert (gone.cleared, gone.remaining) == (len(seen) - len(left), len(left))
            seen = left
        for forward in (True, False):
            found: list[int] = []
            place, more = (0 if forward else None), True
            while more:
                where: dict[str, Any] = (
                    {"after": place, "before": None} if forward else {"before": place, "after": None}
                )
                page = await bench.store.read_page(NS, log.state.id, limit=limit, **where)
                part = [json.loads(body)["seq"] for body in page.bodies]
                found = [*found, *part] if forward else [*part, *found]
                place, more = (page.last_seq, page.has_newer) if forward else (page.first_seq, page.has_older)
                assert part or not more
            assert found == seen
        await bench.store.close()

    asyncio.run(main())


def path_of(bench: Bench) -> Path:
    return bench.store._readers._path


def cuts(bench: Bench) -> list[tuple[str, int, int]]:
    with sqlite3.connect(path_of(bench)) as db:
        found = db.execute("SELECT session_id, first, last FROM cuts").fetchall()
    db.close()
    return found


def steps(bench: Bench, log: Log) -> int:
    """How much work SQLite has with two pages and a count."""
    done = 0

    def step() -> None:
        nonlocal done
        done += 10

    db = sqlite3.connect(path_of(bench))
    db.set_progress_handler(step, 10)
    for where in ({"before": None, "after": None}, {"before": None, "after": 5}):
        entry_rows.page(db, NS, log.state.id, limit=20, **where)
    count_entries(entry_rows._visible(db, log.state.id, 0, log.state.seq + 1))
    db.close()
    return done
