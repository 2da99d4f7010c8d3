"""What a store says to a machine that has lost something, and outcomes that the log does not have yet."""

from __future__ import annotations

import pytest

from farsteer.core import events as ev
from farsteer.core.errors import Conflict, NotFound
from farsteer.core.ids import new_id
from farsteer.core.queue import ItemState, QueueItem
from farsteer.hub.store.conformance.harness import (
    LINK,
    NAMESPACE,
    NEXT_LINK,
    OTHER_NAMESPACE,
    LogBuilder,
    StoreContracts,
    StoreHarness,
    contract,
    new_item,
)


async def _accept(harness: StoreHarness, log: LogBuilder) -> QueueItem:
    item = new_item()
    await harness.store.accept_item(NAMESPACE, log.session_id, item)
    return item


async def _log(harness: StoreHarness, log: LogBuilder, item: QueueItem, *states: ItemState) -> None:
    updates = [ev.QueueUpdate(item_id=item.id, state=state, item=item) for state in states]
    await harness.append(log, [log.add(update) for update in updates], state=True)


async def _unlogged(harness: StoreHarness) -> list[tuple[str, ItemState, int]]:
    found = await harness.store.list_unlogged_outcomes(NAMESPACE, harness.machine.id)
    return [(outcome.item.id, outcome.item.state, outcome.seq) for outcome in found]


class SettlingContracts(StoreContracts):
    @contract
    async def test_a_machine_learns_the_items_on_which_it_and_the_store_differ(
        self, harness: StoreHarness
    ) -> None:
        log, lost = await harness.create_session(), await harness.create_session(entries=3)
        settled, queued, held, accepted = [await _accept(harness, log) for _ in range(4)]
        offered, waiting = await _accept(harness, lost), new_item()
        await harness.store.claim_items(lost.session_id, LINK)
        await harness.store.accept_item(NAMESPACE, lost.session_id, waiting)
        await _log(harness, log, settled, ItemState.QUEUED, ItemState.DELIVERED)
        await _log(harness, log, queued, ItemState.QUEUED)
        await _log(harness, log, held, ItemState.QUEUED)
        connected = await harness.store.connect_machine(
            NAMESPACE,
            harness.machine,
            {log.session_id: log.state.seq},
            {log.session_id: [settled.id, held.id, new_id()], lost.session_id: [settled.id]},
            link_id=NEXT_LINK,
        )
        assert connected.items == {
            log.session_id: {settled.id: ItemState.DELIVERED, queued.id: ItemState.QUEUED},
            lost.session_id: {offered.id: ItemState.ACCEPTED},
        }
        assert connected.behind == [lost.session_id]
        assert connected.stored_seqs == {log.session_id: log.state.seq, lost.session_id: 3}
        assert accepted.id not in connected.items[log.session_id]

    @contract
    async def test_a_machine_that_does_not_name_its_items_gets_what_it_named(
        self, harness: StoreHarness
    ) -> None:
        log = await harness.create_session()
        await _log(harness, log, await _accept(harness, log), ItemState.QUEUED)
        connected = await harness.store.connect_machine(NAMESPACE, harness.machine, {}, link_id=NEXT_LINK)
        assert (connected.items, connected.behind, connected.stored_seqs) == ({}, [], {})

    @contract
    async def test_what_a_runner_needs_to_go_on_with_its_sessions(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        await harness.append(log, [log.add(ev.TurnStart(turn_id="t"))], state=True)
        deleted = await harness.create_session()
        await harness.store.delete_session(NAMESPACE, deleted.session_id)
        ids = [deleted.session_id, log.session_id, new_id()]
        [known] = (await harness.store.read_known_sessions(NAMESPACE, ids)).sessions
        assert (known.spec.id, known.state) == (log.session_id, log.state)
        assert (await harness.store.read_known_sessions(OTHER_NAMESPACE, ids)).sessions == []

    @contract
    async def test_much_is_read_in_parts(self, harness: StoreHarness) -> None:
        ids: list[str] = []
        for _ in range(30):
            log = await harness.create_session()
            commands = tuple(ev.SlashCommand(str(number), "x" * 250) for number in range(450))
            await harness.append(log, [log.add(ev.CommandsUpdate(commands=commands))], state=True)
            ids.append(log.session_id)
        found: list[str] = []
        parts, rest = 0, ids
        while rest:
            page = await harness.store.read_known_sessions(NAMESPACE, rest)
            found += [known.spec.id for known in page.sessions]
            parts, rest = parts + 1, page.rest
        assert found == ids
        assert parts > 1

    # -- outcomes that the log does not have

    @contract
    async def test_an_outcome_of_the_hub_is_unlogged_until_an_entry_has_it(
        self, harness: StoreHarness
    ) -> None:
        log = await harness.create_session(entries=2)
        failed, cancelled, settled = [await _accept(harness, log) for _ in range(3)]
        await harness.store.fail_item(log.session_id, failed.id, "no such agent")
        await harness.store.cancel_item(NAMESPACE, log.session_id, cancelled.id)
        assert await harness.store.settle_item(log.session_id, settled.id, ItemState.DELIVERED)
        assert not await harness.store.settle_item(log.session_id, settled.id, ItemState.UNKNOWN)
        expected = [
            (failed.id, ItemState.FAILED, 2),
            (cancelled.id, ItemState.CANCELLED, 2),
            (settled.id, ItemState.DELIVERED, 2),
        ]
        assert await _unlogged(harness) == expected
        await harness.crash()
        assert await _unlogged(harness) == expected
        await harness.connect()
        await _log(harness, log, failed, ItemState.FAILED)
        await _log(harness, log, settled, ItemState.DELIVERED)
        assert await _unlogged(harness) == [(cancelled.id, ItemState.CANCELLED, 4)]
        assert await harness.store.list_unlogged_outcomes(OTHER_NAMESPACE, harness.machine.id) == []
        await harness.store.delete_session(NAMESPACE, log.session_id)
        assert await _unlogged(harness) == []

    @contract
    async def test_the_log_counts_if_it_has_another_outcome_than_the_hub_gave(
        self, harness: StoreHarness
    ) -> None:
        log = await harness.create_session()
        item = await _accept(harness, log)
        await harness.store.cancel_item(NAMESPACE, log.session_id, item.id)
        await _log(harness, log, item, ItemState.DELIVERED)
        assert await _unlogged(harness) == []
        with pytest.raises(Conflict) as refusal:
            await harness.store.cancel_item(NAMESPACE, log.session_id, item.id)
        assert refusal.value.details["state"] == "delivered"
        await _log(harness, log, item, ItemState.UNKNOWN)
        with pytest.raises(Conflict) as refusal:
            await harness.store.cancel_item(NAMESPACE, log.session_id, item.id)
        assert refusal.value.details["state"] == "delivered", "a logged outcome is never changed"

    @contract
    async def test_an_outcome_that_the_runner_logged_is_not_unlogged(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        item = await _accept(harness, log)
        await _log(harness, log, item, ItemState.QUEUED, ItemState.DELIVERED)
        assert not await harness.store.settle_item(log.session_id, item.id, ItemState.DELIVERED)
        assert await _unlogged(harness) == []

    @contract
    async def test_what_only_the_runner_has_can_be_cancelled_by_it(self, harness: StoreHarness) -> None:
        """As after the store was set back: it shows the message and does not have it."""
        log = await harness.create_session()
        item = new_item()
        await _log(harness, log, item, ItemState.QUEUED)
        assert not await harness.store.cancel_item(NAMESPACE, log.session_id, item.id)
        assert (await harness.store.prioritize_item(NAMESPACE, log.session_id, item.id)).claimed
        await _log(harness, log, item, ItemState.CANCELLED)
        with pytest.raises(NotFound):
            await harness.store.cancel_item(NAMESPACE, log.session_id, item.id)
