"""A session's log is what its runner sent: each entry once, without gaps, whatever is repeated, late or missing."""

from __future__ import annotations

import json

from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.approvals import Outcome
from farsteer.core.identity import Identity
from farsteer.core.ids import new_id
from farsteer.hub.store.base import AppendResult, AppendStatus, Resolution, UsageFilter
from farsteer.hub.store.conformance.harness import (
    LINK,
    NAMESPACE,
    NEXT_LINK,
    OTHER_NAMESPACE,
    StoreContracts,
    StoreHarness,
    contract,
)


class LogContracts(StoreContracts):
    @contract
    async def test_repeated_and_overlapping_batches_store_each_entry_once(
        self, harness: StoreHarness
    ) -> None:
        log = await harness.create_session()
        entries = log.add_messages(40)
        held = 0
        for step in range(60):
            first, count = max(1, held + step * 5 % 7 - 3), step * 7 % 9
            batch = entries[first - 1 : first - 1 + count]
            result = await harness.append(log, batch)
            if batch and first > held + 1:
                assert result == AppendResult(AppendStatus.GAP, held)
                continue
            new = max(0, first - 1 + len(batch) - held) if batch else 0
            held += new
            assert result == AppendResult(AppendStatus.STORED, held, new)
        page = await harness.page(log)
        assert page.bodies == [bytes(entry.body) for entry in entries[:held]]
        published = harness.published_about(log.session_id, "message-received")
        assert [json.loads(event.data)["message"]["seq"] for event in published] == [*range(1, held + 1)]

    @contract
    async def test_a_batch_with_a_gap_is_refused_whole(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        entries = log.add_messages(4)
        for batch in ([entries[1]], [entries[0], entries[2]], [entries[0], entries[0]]):
            assert await harness.append(log, batch) == AppendResult(AppendStatus.GAP, 0)
        assert await harness.seqs(log) == []

    @contract
    async def test_batches_are_stored_in_the_order_they_were_submitted(self, harness: StoreHarness) -> None:
        logs = [await harness.create_session() for _ in range(3)]
        waiting = [await harness.submit(log, log.add_messages(2)) for _ in range(20) for log in logs]
        results = [await future for future in waiting]
        assert [result.last_seq for result in results] == [2 * batch for batch in range(1, 21) for _ in logs]
        for log in logs:
            assert await harness.seqs(log) == [*range(1, 41)]

    @contract
    async def test_only_the_sessions_own_machine_appends(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        entries = log.add_messages(1)
        other = await harness.connect_another(LINK)
        for namespace, machine_id, session_id in (
            (NAMESPACE, other.id, log.session_id),
            (OTHER_NAMESPACE, harness.machine.id, log.session_id),
            (NAMESPACE, harness.machine.id, new_id()),
        ):
            future = await harness.store.append_entries(
                namespace, machine_id, session_id, entries, None, link_id=LINK
            )
            assert await future == AppendResult(AppendStatus.UNKNOWN)
        assert await harness.seqs(log) == []

    @contract
    async def test_what_a_replaced_link_still_sends_is_refused(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        late, now = log.add_messages(2)
        assert (await harness.append(log, [late])).status is AppendStatus.STORED
        await harness.connect(NEXT_LINK)
        assert await harness.append(log, [now]) == AppendResult(AppendStatus.STALE_LINK)
        assert await harness.seqs(log) == [1]
        assert (await harness.append(log, [now], link_id=NEXT_LINK)).status is AppendStatus.STORED

    @contract
    async def test_a_state_may_keep_the_commands(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        commands = (ev.SlashCommand("test", "Run the tests"), ev.SlashCommand("lint", "Run the linter"))
        await harness.append(log, [log.add(ev.CommandsUpdate(commands=commands))], state=True)
        assert "commands" in json.loads(harness.published[-1].data)["data"]

        entry = log.add(ev.TurnStart(turn_id="t"))
        await harness.append(log, [entry], state=True, keeps_commands=True)
        assert "commands" not in json.loads(harness.published[-1].data)["data"]
        row = await harness.store.get_session(NAMESPACE, log.session_id)
        assert (row.state.commands, row.state.turn_id) == (commands, "t")
        [known] = (await harness.store.read_known_sessions(NAMESPACE, [log.session_id])).sessions
        assert known.state == row.state

        await harness.append(log, [log.add(ev.CommandsUpdate(commands=()))], state=True)
        assert (await harness.store.get_session(NAMESPACE, log.session_id)).state.commands == ()
        assert json.loads(harness.published[-1].data)["data"]["commands"] == []

    @contract
    async def test_the_same_state_again_changes_and_publishes_nothing(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        await harness.append(log, [log.add(ev.TurnStart(turn_id="t"))], state=True)
        before, published = await harness.store.get_session(NAMESPACE, log.session_id), len(harness.published)
        assert await harness.append(log, [], state=True) == AppendResult(AppendStatus.STORED, 1)
        assert await harness.append(log, log.entries, state=True) == AppendResult(AppendStatus.STORED, 1)
        assert await harness.store.get_session(NAMESPACE, log.session_id) == before
        assert len(harness.published) == published

    @contract
    async def test_a_change_of_state_is_published_with_the_fields_that_changed(
        self, harness: StoreHarness
    ) -> None:
        log = await harness.create_session()
        await harness.append(log, [log.add(ev.TurnStart(turn_id="t"))], state=True)
        message = log.add(ev.AgentMessage(message_id="m", text="hello"))
        await harness.append(log, [message, log.add(ev.TitleUpdate(title="Hi"))], state=True)
        updates = harness.updates_of(log.session_id)
        for update in updates:
            assert isinstance(update.pop("updatedAt"), int)
        assert updates == [
            {
                "partial": True, "status": "working", "active": True, "thinking": True, "turnId": "t", "seq": 1,
                "lastMessage": None,
            },
            {"partial": True, "title": "Hi", "seq": 3, "lastMessage": "hello"},
        ]  # fmt: skip

    @contract
    async def test_a_state_without_an_entry_is_stored(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        log.state = replace(log.state, native_id="theirs", registered=True)
        await harness.append(log, [], state=True)
        row = await harness.store.get_session(NAMESPACE, log.session_id)
        assert row.state.native_id == "theirs"
        assert harness.updates_of(log.session_id)[-1]["nativeId"] == "theirs"

    @contract
    async def test_a_state_of_another_entry_or_session_is_ignored(self, harness: StoreHarness) -> None:
        log = await harness.create_session(entries=2)
        for wrong in (
            replace(log.state, seq=1, title="old"),
            replace(log.state, id=new_id(), title="foreign"),
        ):
            await (
                await harness.store.append_entries(
                    NAMESPACE, harness.machine.id, log.session_id, [], wrong, link_id=LINK
                )
            )
        assert (await harness.store.get_session(NAMESPACE, log.session_id)).state.title is None

    @contract
    async def test_only_activity_moves_a_session_up_in_the_list(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        before = (await harness.store.get_session(NAMESPACE, log.session_id)).updated_at
        await harness.append(log, [log.add(ev.TitleUpdate(title="Hi"))], state=True)
        assert (await harness.store.get_session(NAMESPACE, log.session_id)).updated_at == before

    @contract
    async def test_how_an_approval_ended_can_be_found(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        store = harness.store
        assert await store.find_resolution(NAMESPACE, log.session_id, "a") is None
        identity = Identity(token_id=new_id(), label="phone", claimed_email="ann")
        denied = ev.ApprovalResolved(approval_id="a", outcome=Outcome.DENIED, by="ann", identity=identity)
        await harness.append(log, [log.add(denied)])
        found = await store.find_resolution(NAMESPACE, log.session_id, "a")
        assert found is not None
        assert (found.outcome, found.by, found.identity) == (Outcome.DENIED, "ann", identity)
        expired = ev.ApprovalResolved(approval_id="b", outcome=Outcome.TIMED_OUT)
        await harness.append(log, [log.add(expired)])
        assert await store.find_resolution(NAMESPACE, log.session_id, "b") == Resolution(
            Outcome.TIMED_OUT, None, None
        )

    @contract
    async def test_usage_is_counted_once_and_outlives_the_session(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        log.add(ev.UsageUpdate(turn_id="t", model="m", output_tokens=3, cost_usd=0.5))
        for _ in range(2):
            await harness.append(log, log.entries, state=True)
        total = (await harness.store.report_usage(NAMESPACE, UsageFilter(), "model", 10)).total
        assert (total.turns, total.output_tokens, total.cost_usd) == (1, 3, 0.5)
        await harness.append(log, [log.add_rewind(1)])
        await harness.store.clear_messages(NAMESPACE, log.session_id, 0)
        await harness.store.delete_session(NAMESPACE, log.session_id)
        report = await harness.store.report_usage(NAMESPACE, UsageFilter(), "session", 10)
        assert report.total == total
        assert [group.key for group in report.groups] == [None]
        foreign = await harness.store.report_usage(OTHER_NAMESPACE, UsageFilter(), "session", 10)
        assert foreign.groups == []

    # -- pages

    @contract
    async def test_pages_by_seq_in_both_directions(self, harness: StoreHarness) -> None:
        log = await harness.create_session(entries=10)
        assert await harness.seqs(log, 3) == [8, 9, 10]
        assert await harness.seqs(log, 3, before=8) == [5, 6, 7]
        assert await harness.seqs(log, 3, after=2) == [3, 4, 5]
        assert await harness.seqs(log, 9, after=8) == [9, 10]
        assert await harness.seqs(log, 9, before=4, after=1) == [2, 3]
        assert await harness.seqs(log, 9, after=10) == []
        assert await harness.seqs(log, 9, before=1) == []
        for huge in (10**17, 2**70):
            assert await harness.seqs(log, 9, before=huge) == [*range(2, 11)]
            assert await harness.seqs(log, 9, after=huge) == []
            assert await harness.seqs(log, 9, before=-huge) == []

    @contract
    async def test_a_page_says_whether_there_is_more(self, harness: StoreHarness) -> None:
        log = await harness.create_session(entries=10)
        first = await harness.page(log, 3, before=4)
        assert (first.first_seq, first.last_seq, first.has_older, first.has_newer) == (1, 3, False, True)
        middle = await harness.page(log, 3, after=4)
        assert (middle.first_seq, middle.last_seq, middle.has_older, middle.has_newer) == (5, 7, True, True)
        nothing = await harness.page(log, 3, before=1)
        assert (nothing.first_seq, nothing.last_seq, nothing.has_older, nothing.has_newer) == (
            None, None, False, False,
        )  # fmt: skip
