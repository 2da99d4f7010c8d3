"""After a crash: what was answered is there, and what was unfinished is gone or marked."""

from __future__ import annotations

import json

import pytest

from farsteer.core import events as ev
from farsteer.core.errors import Conflict, NotFound
from farsteer.core.ids import new_id
from farsteer.hub.rules.view import session_view
from farsteer.hub.store.base import AppendStatus, SessionFilter, StoredResponse, TokenRow
from farsteer.hub.store.conformance.harness import (
    LINK,
    NAMESPACE,
    NEXT_LINK,
    StoreContracts,
    StoreHarness,
    contract,
    new_item,
)


class RestartContracts(StoreContracts):
    @contract
    async def test_an_answered_batch_survives_with_its_state(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        await harness.append(log, [*log.add_messages(9), log.add(ev.TurnStart(turn_id="t"))], state=True)
        before = await harness.read_feed(session_id=log.session_id)
        await harness.crash()
        assert await harness.seqs(log) == [*range(1, 11)]
        row = await harness.store.get_session(NAMESPACE, log.session_id)
        assert (row.seq, row.state.turn_id) == (10, "t")
        after = await harness.read_feed(session_id=log.session_id)
        assert after[: len(before)] == before
        await harness.connect(NEXT_LINK)
        result = await harness.append(log, log.entries, link_id=NEXT_LINK)
        assert (result.status, result.last_seq, result.stored) == (AppendStatus.STORED, 10, 0)

    @contract
    async def test_an_unanswered_batch_is_there_whole_or_not_at_all(self, harness: StoreHarness) -> None:
        logs = [await harness.create_session() for _ in range(3)]
        waiting = [
            await harness.submit(log, [*log.add_messages(4), log.add(ev.TurnStart(turn_id=str(batch)))], state=True)
            for batch in range(30)
            for log in logs
        ]  # fmt: skip
        answered = [(await waiting[number]).last_seq for number in range(len(logs) * 3)]
        await harness.crash()
        for log, promised in zip(logs, answered[-len(logs) :], strict=True):
            row = await harness.store.get_session(NAMESPACE, log.session_id)
            assert row.seq >= promised
            assert row.seq % 5 == 0
            assert row.state.seq == row.seq, "the state is the one after the last entry"
            seqs = await harness.seqs(log)
            assert seqs == [*range(1, row.seq + 1)]
            events = await harness.read_feed(session_id=log.session_id, types=["message-received"])
            assert [json.loads(event.data)["message"]["seq"] for event in events] == seqs
        for future in waiting:
            future.cancel()

    @contract
    async def test_cursors_continue_after_a_crash(self, harness: StoreHarness) -> None:
        await harness.create_session(entries=2)
        highest, epoch = (await harness.store.feed_bounds(NAMESPACE)).highest, harness.store.epoch
        await harness.crash()
        assert harness.store.epoch == epoch
        await harness.connect()
        await harness.create_session(entries=1)
        cursors = [event.cursor or 0 for event in harness.published]
        assert cursors == sorted(set(cursors))
        assert cursors[0] > highest

    @contract
    async def test_a_crash_disconnects_every_machine(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        await harness.crash()
        assert not (await harness.store.get_machine(NAMESPACE, harness.machine.id)).active
        row = await harness.store.get_session(NAMESPACE, log.session_id)
        assert session_view(row).status.value == "unreachable"
        assert [event.type for event in (await harness.read_feed())[-2:]] == [
            "machine-updated", "session-updated",
        ]  # fmt: skip
        await harness.connect()
        assert (await harness.store.get_session(NAMESPACE, log.session_id)).reachable

    @contract
    async def test_a_machine_that_was_connected_before_may_connect_by_a_new_link(
        self, harness: StoreHarness
    ) -> None:
        log = await harness.create_session()
        await harness.crash()
        await harness.connect(NEXT_LINK)
        assert (
            await harness.append(log, log.add_messages(1), link_id=LINK)
        ).status is AppendStatus.STALE_LINK
        assert (await harness.append(log, log.entries, link_id=NEXT_LINK)).status is AppendStatus.STORED

    @contract
    async def test_accepted_items_survive_and_go_to_the_next_link(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        claimed, unclaimed = new_item("claimed", local_id="1"), new_item("unclaimed", local_id="2")
        await harness.store.accept_item(NAMESPACE, log.session_id, claimed)
        await harness.store.claim_items(log.session_id, LINK)
        await harness.store.accept_item(NAMESPACE, log.session_id, unclaimed)
        await harness.crash()
        assert (await harness.store.accept_item(NAMESPACE, log.session_id, claimed)).repeated
        assert not await harness.store.cancel_item(NAMESPACE, log.session_id, claimed.id)
        items = await harness.store.claim_items(log.session_id, NEXT_LINK)
        assert [item.id for item in items] == [claimed.id, unclaimed.id]

    @contract
    async def test_an_unfinished_creation_is_discarded_and_its_id_is_spent(
        self, harness: StoreHarness
    ) -> None:
        spec = harness.new_spec()
        await harness.store.begin_session(NAMESPACE, spec)
        source = await harness.create_session()
        await harness.append(source, source.add_turn("one"))
        fork, _ = await harness.begin_fork(source)
        await harness.append(fork, fork.add_messages(2))
        await harness.crash()
        rows = await harness.store.list_sessions(NAMESPACE, SessionFilter(), limit=9, after=None)
        assert [row.id for row in rows] == [source.session_id]
        for session_id in (spec.id, fork.session_id):
            with pytest.raises(NotFound):
                await harness.store.finish_session(session_id, None)
            assert not await harness.store.is_session_id_unused(session_id)
            assert await harness.read_feed(session_id=session_id) == []
        with pytest.raises(Conflict):
            await harness.store.begin_session(NAMESPACE, spec)
        named = {spec.id: 0, fork.session_id: 7, source.session_id: 5}
        connected = await harness.store.connect_machine(NAMESPACE, harness.machine, named, link_id=NEXT_LINK)
        assert connected.deleted == [spec.id, fork.session_id]
        assert connected.stored_seqs == {source.session_id: 5}
        late = await harness.append(fork, fork.add_messages(1), link_id=NEXT_LINK)
        assert late.status is AppendStatus.DELETED

    @contract
    async def test_a_deletion_is_completed_after_a_crash(self, harness: StoreHarness) -> None:
        log = await harness.create_session(entries=5000)
        await harness.store.delete_session(NAMESPACE, log.session_id)
        await harness.crash()
        with pytest.raises(NotFound):
            await harness.store.get_session(NAMESPACE, log.session_id)
        left = await harness.wait_until_purged(log.session_id)
        assert [event.type for event in left] == ["session-removed"]
        assert (await harness.append(log, log.add_messages(1))).status is AppendStatus.DELETED

    @contract
    async def test_what_is_hidden_stays_hidden(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        await harness.append(log, [*log.add_turn("one"), *log.add_turn("two"), log.add_rewind(6)], state=True)
        await harness.store.clear_messages(NAMESPACE, log.session_id, keep=3)
        await harness.crash()
        assert await harness.seqs(log) == [4, 5, 11]
        assert (await harness.store.get_session(NAMESPACE, log.session_id)).last_message == "to one"

    @contract
    async def test_tokens_and_responses_survive(self, harness: StoreHarness) -> None:
        token = TokenRow(new_id(), b"1", "first", NAMESPACE, ("read",), created_at=1)
        await harness.store.add_token(token)
        log = await harness.begin_session()
        response = StoredResponse("key", b"digest", b"answer")
        await harness.store.finish_session(log.session_id, log.state, response=response)
        await harness.crash()
        assert await harness.store.list_tokens() == [token]
        assert await harness.store.find_response(NAMESPACE, "key") == response
