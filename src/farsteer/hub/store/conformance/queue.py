"""Queue items: each is stored once, goes to a runner once per link, and has one outcome."""

from __future__ import annotations

import pytest

from farsteer.core import events as ev
from farsteer.core.errors import Conflict, ErrorCode, NotFound
from farsteer.core.ids import new_id
from farsteer.core.queue import Attachment, Delivery, ItemState, QueueItem
from farsteer.hub.rules.queue import QueueLimits
from farsteer.hub.store.base import AcceptedItem, Claim
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


async def _accept(harness: StoreHarness, log: LogBuilder, item: QueueItem) -> AcceptedItem:
    return await harness.store.accept_item(NAMESPACE, log.session_id, item)


async def _confirm(harness: StoreHarness, log: LogBuilder, item: QueueItem, state: ItemState) -> None:
    update = ev.QueueUpdate(item_id=item.id, state=state, item=item)
    await harness.append(log, [log.add(update)], state=True)


async def _claim(harness: StoreHarness, log: LogBuilder, link_id: int = LINK) -> list[str]:
    return [item.id for item in await harness.store.claim_items(log.session_id, link_id)]


async def _queue(harness: StoreHarness, log: LogBuilder) -> list[str]:
    row = await harness.store.get_session(NAMESPACE, log.session_id)
    return [item.id for item in row.items if item.state is ItemState.ACCEPTED]


class QueueContracts(StoreContracts):
    @contract
    async def test_an_accepted_item_waits_in_order(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        items = [new_item(str(number)) for number in range(3)]
        accepted = [await _accept(harness, log, item) for item in items]
        assert [one.position for one in accepted] == [0, 1, 2]
        assert {one.machine_id for one in accepted} == {harness.machine.id}
        assert await _queue(harness, log) == [item.id for item in items]
        first, *later = harness.updates_of(log.session_id)
        assert [item["id"] for item in first["queue"]] == [items[0].id]
        changes = [(one["id"], one["position"]) for update in later for one in update["queueChanges"]]
        assert changes == [(items[1].id, 1), (items[2].id, 2)]

    @contract
    async def test_a_local_id_is_accepted_once(self, harness: StoreHarness) -> None:
        log, other = await harness.create_session(), await harness.create_session()
        before = new_item("before")
        first = new_item("first", local_id="l")
        await _accept(harness, log, before)
        await _accept(harness, log, first)
        published = len(harness.published)
        again = await _accept(harness, log, new_item("again", local_id="l"))
        assert (again.item, again.position, again.repeated) == (first, 1, True)
        assert len(harness.published) == published
        await _confirm(harness, log, first, ItemState.DELIVERED)
        late = await _accept(harness, log, new_item("late", local_id="l"))
        assert (late.item.id, late.item.state) == (first.id, ItemState.DELIVERED)
        elsewhere = await _accept(harness, other, new_item("elsewhere", local_id="l"))
        assert not elsewhere.repeated

    @contract
    async def test_a_full_queue_refuses_what_is_new(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        items = [new_item(local_id=str(number)) for number in range(QueueLimits().messages)]
        for item in items:
            await _accept(harness, log, item)
        with pytest.raises(Conflict) as refusal:
            await _accept(harness, log, new_item())
        assert refusal.value.code is ErrorCode.QUEUE_FULL
        assert (await _accept(harness, log, new_item(local_id="3"))).repeated
        await _confirm(harness, log, items[0], ItemState.DELIVERED)
        assert (await _accept(harness, log, new_item())).position == QueueLimits().messages - 1

    @contract
    async def test_an_item_is_claimed_once_by_each_link(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        first, second = new_item("first"), new_item("second")
        await _accept(harness, log, first)
        assert await _claim(harness, log) == [first.id]
        await _accept(harness, log, second)
        assert await _claim(harness, log) == [second.id]
        assert await _claim(harness, log) == []
        assert await _claim(harness, log, NEXT_LINK) == [first.id, second.id]
        await _confirm(harness, log, first, ItemState.QUEUED)
        assert await _claim(harness, log, 3) == [second.id]

    @contract
    async def test_a_released_item_is_claimed_again_by_the_same_link(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        items = [new_item(str(number)) for number in range(4)]
        for item in items:
            await _accept(harness, log, item)
        ids = [item.id for item in items]
        claim = harness.store.claim_items
        assert await _claim(harness, log) == ids
        await _confirm(harness, log, items[0], ItemState.QUEUED)
        assert [item.id for item in await claim(log.session_id, LINK, again=True, limit=1)] == ids[1:2]
        assert not await harness.store.cancel_item(NAMESPACE, log.session_id, ids[3]), (
            "the runner may have it"
        )
        assert [item.id for item in await claim(log.session_id, LINK, limit=1)] == ids[2:3]
        assert await _claim(harness, log) == ids[3:]
        assert await _claim(harness, log) == []

    @contract
    async def test_an_item_is_claimed_as_it_is_accepted_unless_another_waits(
        self, harness: StoreHarness
    ) -> None:
        log = await harness.create_session()
        claim = Claim(harness.machine.id, LINK)
        accept = harness.store.accept_item
        first, second, third = new_item("first"), new_item("second"), new_item("third")
        assert (await accept(NAMESPACE, log.session_id, first, claim)).claimed_by == LINK
        assert (await _accept(harness, log, second)).claimed_by is None
        assert (await accept(NAMESPACE, log.session_id, third, claim)).claimed_by is None
        assert await _claim(harness, log) == [second.id, third.id]
        elsewhere = await accept(NAMESPACE, log.session_id, new_item("fourth"), Claim(new_id(), LINK))
        assert elsewhere.claimed_by is None

    @contract
    async def test_urgent_items_are_claimed_first(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        items = [new_item(str(number)) for number in range(3)]
        urgent = new_item("now", delivery=Delivery.NOW)
        for item in (*items, urgent):
            await _accept(harness, log, item)
        assert await _claim(harness, log) == [urgent.id, *(item.id for item in items)]

    @contract
    async def test_a_claimed_item_is_complete_and_a_shown_one_has_no_data(
        self, harness: StoreHarness
    ) -> None:
        log = await harness.create_session()
        item = new_item(attachments=(Attachment(name="a.txt", data="aGk=", size=2),))
        accepted = await _accept(harness, log, item)
        assert accepted.item.attachments[0].data is None
        row = await harness.store.get_session(NAMESPACE, log.session_id)
        assert row.items[0].attachments == (Attachment(name="a.txt", size=2),)
        assert await harness.store.claim_items(log.session_id, LINK) == [item]

    @contract
    async def test_the_sessions_of_a_machine_with_accepted_items_are_found(
        self, harness: StoreHarness
    ) -> None:
        waiting, idle = await harness.create_session(), await harness.create_session()
        item = new_item()
        await _accept(harness, waiting, item)
        find = harness.store.list_sessions_with_accepted_items
        assert await find(NAMESPACE, harness.machine.id) == [waiting.session_id]
        assert await find(NAMESPACE, new_id()) == await find(OTHER_NAMESPACE, harness.machine.id) == []
        await _confirm(harness, waiting, item, ItemState.QUEUED)
        assert await find(NAMESPACE, harness.machine.id) == []
        assert idle.session_id != waiting.session_id

    @contract
    async def test_an_outcome_is_never_changed(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        item = new_item(local_id="l")
        await _accept(harness, log, item)
        for state in (ItemState.QUEUED, ItemState.ACCEPTED, ItemState.CANCELLED, ItemState.DELIVERED):
            await _confirm(harness, log, item, state)
        await harness.store.fail_item(log.session_id, item.id, "too late")
        assert (await _accept(harness, log, new_item(local_id="l"))).item.state is ItemState.CANCELLED

    @contract
    async def test_an_item_that_the_runner_refuses_fails(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        item = new_item(local_id="l")
        await _accept(harness, log, item)
        await harness.store.claim_items(log.session_id, LINK)
        await harness.store.fail_item(log.session_id, item.id, "no such agent")
        assert await _queue(harness, log) == []
        assert harness.updates_of(log.session_id)[-1]["queue"][0]["state"] == "failed"
        assert (await _accept(harness, log, new_item(local_id="l"))).item.state is ItemState.FAILED

    # -- cancel

    @contract
    async def test_an_unclaimed_item_is_cancelled_here(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        item = new_item()
        await _accept(harness, log, item)
        assert await harness.store.cancel_item(NAMESPACE, log.session_id, item.id)
        assert harness.updates_of(log.session_id)[-1]["queue"][0]["state"] == "cancelled"
        published = len(harness.published)
        assert await harness.store.cancel_item(NAMESPACE, log.session_id, item.id), "idempotent"
        assert len(harness.published) == published
        assert await _claim(harness, log) == []

    @contract
    async def test_the_runner_cancels_what_it_may_have(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        item = new_item()
        await _accept(harness, log, item)
        await harness.store.claim_items(log.session_id, LINK)
        assert not await harness.store.cancel_item(NAMESPACE, log.session_id, item.id)
        await _confirm(harness, log, item, ItemState.QUEUED)
        assert not await harness.store.cancel_item(NAMESPACE, log.session_id, item.id)
        await _confirm(harness, log, item, ItemState.DELIVERED)
        with pytest.raises(Conflict) as refusal:
            await harness.store.cancel_item(NAMESPACE, log.session_id, item.id)
        assert refusal.value.code is ErrorCode.NOT_CANCELLABLE
        with pytest.raises(NotFound):
            await harness.store.cancel_item(NAMESPACE, log.session_id, new_id())

    # -- prioritize

    @contract
    async def test_an_unclaimed_item_is_prioritized_here(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        first, urgent = new_item("first"), new_item("urgent")
        await _accept(harness, log, first)
        await _accept(harness, log, urgent)
        prioritized = await harness.store.prioritize_item(NAMESPACE, log.session_id, urgent.id)
        assert (prioritized.machine_id, prioritized.claimed) == (harness.machine.id, False)
        claimed = await harness.store.claim_items(log.session_id, LINK)
        assert [(item.id, item.delivery) for item in claimed] == [
            (urgent.id, Delivery.NOW), (first.id, Delivery.QUEUE),
        ]  # fmt: skip

    @contract
    async def test_the_runner_prioritizes_what_it_may_have(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        item = new_item()
        await _accept(harness, log, item)
        await harness.store.claim_items(log.session_id, LINK)
        prioritize = harness.store.prioritize_item
        assert (await prioritize(NAMESPACE, log.session_id, item.id)).claimed
        assert not (await prioritize(NAMESPACE, log.session_id, item.id, ignore_claim=True)).claimed
        [again] = await harness.store.claim_items(log.session_id, NEXT_LINK)
        assert again.delivery is Delivery.NOW
        await _confirm(harness, log, item, ItemState.QUEUED)
        assert (await prioritize(NAMESPACE, log.session_id, item.id, ignore_claim=True)).claimed
        await _confirm(harness, log, item, ItemState.HANDED_OVER)
        with pytest.raises(Conflict):
            await prioritize(NAMESPACE, log.session_id, item.id)
        with pytest.raises(NotFound):
            await prioritize(NAMESPACE, log.session_id, new_id())
