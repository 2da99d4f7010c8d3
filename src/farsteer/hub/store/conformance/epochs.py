"""A store that was set back begins a new epoch, and no other does."""

from __future__ import annotations

import json

from farsteer.core.ids import new_id
from farsteer.hub.rules.lease import LeaseClaim
from farsteer.hub.store.conformance.harness import (
    LINK,
    NAMESPACE,
    NEXT_LINK,
    StoreContracts,
    StoreHarness,
    contract,
)


class EpochContracts(StoreContracts):
    @contract
    async def test_a_restart_and_a_crash_keep_the_epoch(self, harness: StoreHarness) -> None:
        log = await harness.create_session(entries=3)
        epoch = harness.store.epoch
        for restart in (harness.reopen, harness.crash, harness.crash, harness.reopen):
            await restart()
            await harness.connect(confirmed={log.session_id: 3})
            assert harness.store.epoch == epoch

    @contract
    async def test_a_machine_that_has_seen_more_of_a_log_begins_an_epoch(self, harness: StoreHarness) -> None:
        log = await harness.create_session(entries=3)
        earlier = harness.store.epoch
        changes: list[str] = []
        harness.feed.on_new_epoch(lambda: changes.append(harness.store.epoch))
        harness.published.clear()
        await harness.connect(NEXT_LINK, confirmed={log.session_id: 5})
        epoch = harness.store.epoch
        assert changes == [epoch] != [earlier]
        assert {json.loads(event.data)["cursor"].partition("-")[0] for event in harness.published} == {epoch}
        page = await harness.store.read_feed(NAMESPACE, 0)
        assert {event.epoch for event in page.events} == {epoch}
        await harness.crash()
        assert harness.store.epoch == epoch

    @contract
    async def test_a_machine_that_had_a_later_lease_begins_an_epoch(self, harness: StoreHarness) -> None:
        async def connect(last: int, link_id: int) -> int:
            claim = LeaseClaim(instance="a runner", place="here", boot="now", last=last)
            found = await harness.store.connect_machine(
                NAMESPACE, harness.machine, {}, link_id=link_id, claim=claim
            )
            return found.lease

        await harness.store.disconnect_machine(NAMESPACE, harness.machine.id, link_id=LINK, released=True)
        generation = await connect(0, NEXT_LINK)
        epoch = harness.store.epoch
        assert await connect(generation, NEXT_LINK + 1) >= generation
        assert harness.store.epoch == epoch
        await connect(generation + 5, NEXT_LINK + 2)
        assert harness.store.epoch != epoch

    @contract
    async def test_a_session_that_was_lost_begins_an_epoch_once(self, harness: StoreHarness) -> None:
        lost = new_id()
        earlier = harness.store.epoch
        await harness.connect(NEXT_LINK, confirmed={lost: 7})
        epoch = harness.store.epoch
        assert epoch != earlier
        await harness.reopen()
        await harness.connect(confirmed={lost: 9})
        assert harness.store.epoch == epoch

    @contract
    async def test_false_claims_begin_one_epoch_at_most(self, harness: StoreHarness) -> None:
        log = await harness.create_session(entries=1)
        await harness.connect(NEXT_LINK, confirmed={log.session_id: 100})
        epoch = harness.store.epoch
        await harness.connect(NEXT_LINK + 1, confirmed={log.session_id: 1000, new_id(): 5})
        assert harness.store.epoch == epoch

    @contract
    async def test_what_another_machine_has_or_what_was_deleted_is_no_evidence(
        self, harness: StoreHarness
    ) -> None:
        log = await harness.create_session(entries=1)
        deleted = await harness.create_session(entries=1)
        await harness.store.delete_session(NAMESPACE, deleted.session_id)
        epoch = harness.store.epoch
        other = await harness.connect_another()
        claims = {log.session_id: 50}
        await harness.store.connect_machine(NAMESPACE, other, claims, link_id=7, confirmed=claims)
        await harness.connect(confirmed={deleted.session_id: 50})
        assert harness.store.epoch == epoch
