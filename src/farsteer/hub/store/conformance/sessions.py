"""Sessions: none is visible before it is complete, and none comes back after it was deleted."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.approvals import Approval, ApprovalKind
from farsteer.core.errors import Conflict, NotFound
from farsteer.core.events import SessionStatus
from farsteer.core.ids import new_id
from farsteer.hub.store.base import AppendStatus, SessionFilter, StoredResponse
from farsteer.hub.store.conformance.harness import (
    NAMESPACE,
    OTHER_NAMESPACE,
    LogBuilder,
    StoreContracts,
    StoreHarness,
    contract,
    new_item,
)


class SessionContracts(StoreContracts):
    # -- creation

    @contract
    async def test_a_session_in_creation_is_invisible_and_accepts_entries(
        self, harness: StoreHarness
    ) -> None:
        log = await harness.begin_session()
        await harness.append(log, [log.add(ev.LaunchStart(generation=1, resumed=False))], state=True)
        assert harness.published_about(log.session_id) == []
        assert await harness.read_feed(session_id=log.session_id) == []
        with pytest.raises(NotFound):
            await harness.store.get_session(NAMESPACE, log.session_id)
        assert await harness.store.list_sessions(NAMESPACE, SessionFilter(), limit=9, after=None) == []
        await harness.append(log, [log.add(ev.StatusUpdate(status=SessionStatus.IDLE))], state=True)
        view = await harness.store.finish_session(log.session_id, None)
        assert (view.status, view.seq) == (SessionStatus.IDLE, 2)
        assert [event.type for event in harness.published_about(log.session_id)] == [
            "session-added", "message-received", "message-received",
        ]  # fmt: skip
        assert await harness.seqs(log) == [1, 2]

    @contract
    async def test_the_first_message_is_stored_with_the_session(self, harness: StoreHarness) -> None:
        log = await harness.begin_session()
        item = new_item("first")
        view = await harness.store.finish_session(log.session_id, log.state, first_message=item)
        assert [waiting.id for waiting in view.queue] == [item.id]
        [added] = harness.published_about(log.session_id)
        assert [waiting["id"] for waiting in json.loads(added.data)["data"]["queue"]] == [item.id]
        claimed = await harness.store.claim_items(log.session_id, 1)
        assert [waiting.id for waiting in claimed] == [item.id]

    @contract
    async def test_the_newer_of_the_runners_answer_and_its_entries_counts(
        self, harness: StoreHarness
    ) -> None:
        log = await harness.begin_session()
        answer = replace(log.state, title="asked for")
        await harness.append(log, [log.add(ev.TitleUpdate(title="newer"))], state=True)
        view = await harness.store.finish_session(log.session_id, answer)
        assert (view.title, view.seq) == ("newer", 1)

    @contract
    async def test_an_imported_history_is_readable_and_not_published(self, harness: StoreHarness) -> None:
        spec = replace(harness.new_spec(), native_id="theirs")
        await harness.store.begin_session(NAMESPACE, spec)
        log = LogBuilder(spec.id)
        await harness.append(log, log.add_messages(3), state=True)
        await harness.store.finish_session(spec.id, log.state)
        assert [event.type for event in harness.published_about(spec.id)] == ["session-added"]
        assert await harness.seqs(log) == [1, 2, 3]
        await harness.append(log, log.add_messages(1))
        assert await harness.seqs(log, 2) == [3, 4]

    @contract
    async def test_a_session_is_finished_once(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        with pytest.raises(NotFound):
            await harness.store.finish_session(log.session_id, log.state)
        with pytest.raises(NotFound):
            await harness.store.finish_session(new_id(), log.state)

    @contract
    async def test_a_discarded_creation_leaves_nothing(self, harness: StoreHarness) -> None:
        log = await harness.begin_session()
        entries = log.add_messages(2)
        await harness.append(log, entries)
        await harness.store.discard_session(log.session_id)
        assert (await harness.append(log, entries)).status is AppendStatus.UNKNOWN
        with pytest.raises(NotFound):
            await harness.store.get_session(NAMESPACE, log.session_id)
        with pytest.raises(NotFound):
            await harness.store.finish_session(log.session_id, log.state)
        assert harness.published_about(log.session_id) == []

    @contract
    async def test_a_creation_that_the_runner_may_know_leaves_a_tombstone(
        self, harness: StoreHarness
    ) -> None:
        log = await harness.begin_session()
        await harness.store.discard_session(log.session_id, keep_tombstone=True)
        assert (await harness.append(log, log.add_messages(1))).status is AppendStatus.DELETED
        assert not await harness.store.is_session_id_unused(log.session_id)

    @contract
    async def test_discarding_does_nothing_to_a_finished_session(self, harness: StoreHarness) -> None:
        log = await harness.create_session(entries=2)
        await harness.store.discard_session(log.session_id)
        await harness.store.discard_session(log.session_id, keep_tombstone=True)
        assert await harness.seqs(log) == [1, 2]

    @contract
    async def test_an_id_is_used_once(self, harness: StoreHarness) -> None:
        spec = harness.new_spec()
        assert await harness.store.is_session_id_unused(spec.id)
        await harness.store.begin_session(NAMESPACE, spec)
        for namespace in (NAMESPACE, OTHER_NAMESPACE):
            with pytest.raises(Conflict):
                await harness.store.begin_session(namespace, spec)
        assert not await harness.store.is_session_id_unused(spec.id)
        await harness.store.finish_session(spec.id, None)
        await harness.store.delete_session(NAMESPACE, spec.id)
        with pytest.raises(Conflict):
            await harness.store.begin_session(NAMESPACE, spec)
        assert not await harness.store.is_session_id_unused(spec.id)

    @contract
    async def test_a_response_is_remembered_in_its_namespace(self, harness: StoreHarness) -> None:
        log = await harness.begin_session()
        response = StoredResponse("key", b"digest", b"answer")
        assert await harness.store.find_response(NAMESPACE, "key") is None
        await harness.store.finish_session(log.session_id, log.state, response=response)
        assert await harness.store.find_response(NAMESPACE, "key") == response
        assert await harness.store.find_response(OTHER_NAMESPACE, "key") is None
        assert await harness.store.find_response(NAMESPACE, "another") is None

    # -- lists

    @contract
    async def test_lists_are_filtered_and_continued(self, harness: StoreHarness) -> None:
        logs = [await harness.create_session() for _ in range(5)]
        for number, log in enumerate(logs):
            await harness.append(log, [log.add(ev.TitleUpdate(title=f"50% of_{number}"))], state=True)
        listed: list[str] = []
        after = None
        while rows := await harness.store.list_sessions(NAMESPACE, SessionFilter(), limit=2, after=after):
            listed += [row.id for row in rows]
            assert [(-row.updated_at, row.id) for row in rows] == sorted(
                (-row.updated_at, row.id) for row in rows
            )
            after = rows[-1].updated_at, rows[-1].id
        assert sorted(listed) == sorted(log.session_id for log in logs)
        for where, expected in (
            (SessionFilter(text="% of_3"), [logs[3].session_id]),
            (SessionFilter(text="50_"), []),
            (SessionFilter(agent="another"), []),
            (SessionFilter(machine_id=new_id()), []),
            (SessionFilter(status=SessionStatus.UNREACHABLE), []),
        ):
            rows = await harness.store.list_sessions(NAMESPACE, where, limit=9, after=None)
            assert [row.id for row in rows] == expected
        await harness.disconnect()
        unreachable = SessionFilter(status=SessionStatus.UNREACHABLE)
        rows = await harness.store.list_sessions(NAMESPACE, unreachable, limit=9, after=None)
        assert len(rows) == 5
        assert not any(row.reachable for row in rows)

    @contract
    async def test_sessions_with_open_approvals_are_found(self, harness: StoreHarness) -> None:
        asking, _ = await harness.create_session(), await harness.create_session()
        assert await harness.store.list_sessions_with_approvals(NAMESPACE) == []
        approval = Approval(id="a", kind=ApprovalKind.PERMISSION, title="run it?", created_at=1)
        await harness.append(asking, [asking.add(ev.ApprovalRequested(approval=approval))], state=True)
        rows = await harness.store.list_sessions_with_approvals(NAMESPACE)
        assert [row.id for row in rows] == [asking.session_id]
        assert await harness.store.list_sessions_with_approvals(OTHER_NAMESPACE) == []

    # -- deletion

    @contract
    async def test_a_deleted_session_is_gone_and_never_revived(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        entries = log.add_messages(5000)
        await harness.append(log, entries[:4999])
        await harness.store.accept_item(NAMESPACE, log.session_id, new_item())
        assert await harness.store.delete_session(NAMESPACE, log.session_id) == harness.machine.id
        assert (await harness.append(log, entries[4999:], state=True)).status is AppendStatus.DELETED
        with pytest.raises(NotFound):
            await harness.store.delete_session(NAMESPACE, log.session_id)
        with pytest.raises(NotFound):
            await harness.seqs(log)
        with pytest.raises(NotFound):
            await harness.store.accept_item(NAMESPACE, log.session_id, new_item())
        assert await harness.store.claim_items(log.session_id, 1) == []
        with pytest.raises(NotFound):
            await harness.store.finish_session(log.session_id, log.state)
        left = await harness.wait_until_purged(log.session_id)
        assert [event.type for event in left] == ["session-removed"]
        assert (await harness.append(log, entries[4999:])).status is AppendStatus.DELETED
