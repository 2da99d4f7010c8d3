"""The feed has one order: what was published is what is stored, and no cursor is given twice."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

from farsteer.core import events as ev
from farsteer.hub.feed import SyncEvent
from farsteer.hub.store.conformance.harness import (
    NAMESPACE,
    OTHER_NAMESPACE,
    StoreContracts,
    StoreHarness,
    contract,
    new_item,
)


def _cursors(events: list[SyncEvent]) -> list[int]:
    return [event.cursor or 0 for event in events]


class FeedContracts(StoreContracts):
    @contract
    async def test_what_was_published_is_what_is_stored(self, harness: StoreHarness) -> None:
        log = await harness.create_session(entries=3)
        await harness.store.accept_item(NAMESPACE, log.session_id, new_item())
        await harness.append(log, [log.add(ev.TurnStart(turn_id="t"))], state=True)
        await harness.store.clear_messages(NAMESPACE, log.session_id, 1)
        stored = await harness.read_feed(session_id=log.session_id)
        assert [event.data for event in stored] == [
            event.data for event in harness.published_about(log.session_id)
        ]

    @contract
    async def test_cursors_rise_in_the_order_of_publication(self, harness: StoreHarness) -> None:
        logs = [await harness.create_session() for _ in range(4)]

        async def work(number: int) -> None:
            log = logs[number]
            for turn in range(10):
                await harness.append(log, [log.add(ev.TurnStart(turn_id=str(turn)))], state=True)
                await harness.store.accept_item(NAMESPACE, log.session_id, new_item(str(turn)))

        await asyncio.gather(*(work(number) for number in range(4)))
        published = _cursors(harness.published)
        assert all(earlier < later for earlier, later in pairwise(published))
        stored = _cursors(await harness.read_feed(limit=7))
        assert stored == sorted(set(stored))
        assert stored[-1] == published[-1] == (await harness.store.feed_bounds(NAMESPACE)).highest

    @contract
    async def test_cursors_are_never_given_twice(self, harness: StoreHarness) -> None:
        log = await harness.create_session(entries=3)
        await harness.store.delete_session(NAMESPACE, log.session_id)
        await harness.wait_until_purged(log.session_id)
        highest = (await harness.store.feed_bounds(NAMESPACE)).highest
        assert highest == max(_cursors(harness.published))
        epoch = harness.store.epoch
        await harness.reopen()
        await harness.create_session()
        assert min(_cursors(harness.published)) > highest
        assert harness.store.epoch == epoch

    @contract
    async def test_the_feed_knows_where_it_stands_when_the_store_is_opened(
        self, harness: StoreHarness
    ) -> None:
        await harness.create_session(entries=2)
        await harness.reopen()
        highest = (await harness.store.feed_bounds(NAMESPACE)).highest
        assert harness.feed.head(NAMESPACE) == highest
        await harness.create_session()
        assert harness.feed.head(NAMESPACE) == (await harness.store.feed_bounds(NAMESPACE)).highest > highest

    @contract
    async def test_it_is_read_by_namespace_session_and_type(self, harness: StoreHarness) -> None:
        first, second = await harness.create_session(entries=3), await harness.create_session(entries=2)
        await harness.connect_another(namespace=OTHER_NAMESPACE)
        every = await harness.store.read_feed(NAMESPACE, 0)
        assert not every.more
        assert {event.namespace for event in every.events} == {NAMESPACE}
        assert {event.subject for event in every.events} == {
            harness.machine.id, first.session_id, second.session_id,
        }  # fmt: skip
        one = await harness.read_feed(session_id=second.session_id)
        assert [event.type for event in one] == ["session-added"] + ["message-received"] * 2
        typed = await harness.read_feed(types=["session-added", "machine-updated"])
        assert [event.type for event in typed] == ["machine-updated", "session-added", "session-added"]
        assert await harness.read_feed(types=[]) == []

    @contract
    async def test_pages_join_without_gaps_or_repeats(self, harness: StoreHarness) -> None:
        log = await harness.create_session(entries=25)
        whole = (await harness.store.read_feed(NAMESPACE, 0)).events
        assert await harness.read_feed(limit=4) == whole
        highest = (await harness.store.feed_bounds(NAMESPACE)).highest
        assert (await harness.store.read_feed(NAMESPACE, highest)).events == []
        middle = whole[10].cursor or 0
        assert (await harness.store.read_feed(NAMESPACE, middle)).events == whole[11:]
        entries = [event for event in whole if event.type == "message-received"]
        assert [json.loads(event.data)["message"]["seq"] for event in entries] == await harness.seqs(log)

    @contract
    async def test_machines_that_come_and_go_do_not_fill_the_feed(self, harness: StoreHarness) -> None:
        log = await harness.create_session(entries=1)
        for _ in range(5):
            await harness.disconnect()
            await harness.connect()
        published = _cursors(harness.published)
        assert published == sorted(set(published))
        events = await harness.read_feed()
        assert [event.type for event in events] == [
            "session-added", "message-received", "machine-updated", "session-updated",
        ]  # fmt: skip
        assert events[-2:] == harness.published[-2:]
        assert await harness.seqs(log) == [1]
