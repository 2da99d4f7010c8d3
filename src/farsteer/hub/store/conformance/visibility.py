"""What is visible of a log after it was cleared, rewound or copied."""

from __future__ import annotations

import json

import pytest

from farsteer.core import events as ev
from farsteer.core.errors import NotFound
from farsteer.core.queue import REWIND_REASON, ItemState
from farsteer.hub.store.base import AppendStatus, CopyProgress, SeqRange
from farsteer.hub.store.conformance.harness import (
    NAMESPACE,
    LogBuilder,
    StoreContracts,
    StoreHarness,
    contract,
)


async def _clear(harness: StoreHarness, log: LogBuilder, keep: int) -> tuple[int, int]:
    cleared = await harness.store.clear_messages(NAMESPACE, log.session_id, keep)
    return cleared.cleared, cleared.remaining


async def _last_message(harness: StoreHarness, log: LogBuilder) -> str | None:
    return (await harness.store.get_session(NAMESPACE, log.session_id)).last_message


async def _kinds(harness: StoreHarness, log: LogBuilder) -> list[str]:
    return [entry["content"]["kind"] for entry in await harness.read(log)]


async def _user_texts(harness: StoreHarness, log: LogBuilder) -> list[str]:
    return [entry["content"]["text"] for entry in await harness.read(log) if entry["role"] == "user"]


class VisibilityContracts(StoreContracts):
    # -- clear

    @contract
    async def test_cleared_entries_are_hidden(self, harness: StoreHarness) -> None:
        log = await harness.create_session(entries=10)
        assert await _clear(harness, log, 4) == (6, 4)
        assert await harness.seqs(log) == await harness.seqs(log, after=2) == [7, 8, 9, 10]
        assert not (await harness.page(log, 4)).has_older
        assert await _clear(harness, log, 9) == (0, 4)
        events = harness.published_about(log.session_id, "messages-cleared")
        assert [json.loads(event.data)["data"] for event in events] == [{"clearedSeq": 6, "remaining": 4}]
        await harness.append(log, log.add_messages(1))
        assert await harness.seqs(log) == [7, 8, 9, 10, 11]

    @contract
    async def test_clearing_counts_what_is_visible(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        await harness.append(log, [*log.add_turn("one"), *log.add_turn("two"), log.add_rewind(6)])
        assert await _clear(harness, log, 3) == (3, 3)
        assert await harness.seqs(log) == [4, 5, 11]
        assert not (await harness.page(log, 3)).has_older
        assert await _clear(harness, log, 1) == (2, 1)
        assert await harness.seqs(log) == [11]
        assert await _clear(harness, log, 5) == (0, 1)

    # -- rewind

    @contract
    async def test_rewound_entries_are_hidden(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        await harness.append(log, [*log.add_turn("one"), *log.add_turn("two"), log.add_rewind(6)], state=True)
        assert await harness.seqs(log) == [1, 2, 3, 4, 5, 11]
        assert await harness.seqs(log, 2) == [5, 11]
        assert await harness.seqs(log, 2, before=11) == await harness.seqs(log, 2, before=8) == [4, 5]
        assert await harness.seqs(log, 2, after=4) == [5, 11]
        assert await harness.seqs(log, 2, after=7) == [11]
        newest = await harness.page(log, 1)
        assert (newest.first_seq, newest.has_older, newest.has_newer) == (11, True, False)
        older = await harness.page(log, 5, before=11)
        assert (older.first_seq, older.last_seq, older.has_older, older.has_newer) == (1, 5, False, True)

    @contract
    async def test_a_later_rewind_includes_earlier_ones(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        await harness.append(log, [*log.add_turn("one"), *log.add_turn("two"), log.add_rewind(6)])
        await harness.append(log, [*log.add_turn("three"), log.add_rewind(12)])
        assert await harness.seqs(log) == [1, 2, 3, 4, 5, 11, 17]
        assert await harness.store.visible_ranges(NAMESPACE, log.session_id, None) == [
            (1, 5), (11, 11), (17, 17),
        ]  # fmt: skip
        await harness.append(log, [log.add_rewind(1)])
        assert await harness.seqs(log) == [18]
        assert await harness.store.visible_ranges(NAMESPACE, log.session_id, None) == [(18, 18)]

    @contract
    async def test_the_feed_has_what_was_rewound(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        await harness.append(log, [*log.add_turn("one"), log.add_rewind(1)])
        events = await harness.read_feed(session_id=log.session_id, types=["message-received"])
        entries = [json.loads(event.data)["message"] for event in events]
        assert [entry["seq"] for entry in entries] == [1, 2, 3, 4, 5, 6]
        assert entries[-1]["content"]["kind"] == "rewound"

    @contract
    async def test_the_last_message_is_the_last_visible_one(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        await harness.append(log, [*log.add_turn("one"), *log.add_turn("two")], state=True)
        assert await _last_message(harness, log) == "to two"
        await harness.append(log, [log.add_rewind(6)], state=True)
        assert await _last_message(harness, log) == "to one"
        assert harness.updates_of(log.session_id)[-1]["lastMessage"] == "to one"
        await harness.append(log, [log.add(ev.TitleUpdate(title="x"))], state=True)
        assert await _last_message(harness, log) == "to one"
        await harness.append(log, [log.add_rewind(1)], state=True)
        assert await _last_message(harness, log) is None

    @contract
    async def test_a_rewind_removes_the_whole_turn_and_keeps_the_last_anchor(
        self, harness: StoreHarness
    ) -> None:
        log = await harness.create_session()
        await harness.append(log, log.add_turn("one", thought_anchor="a1", anchor="a2"))
        await harness.append(log, log.add_turn("two", thought_anchor="b1", anchor="b2"))
        await harness.append(log, log.add_turn("three"))
        find = harness.store.find_rewind_point
        first = await find(NAMESPACE, log.session_id, 2)
        assert (first.first_seq, first.cut_at, first.answered, first.last_seq) == (1, None, False, 15)
        second = await find(NAMESPACE, log.session_id, 7)
        assert (second.first_seq, second.cut_at, second.answered) == (6, "a2", True)
        assert (await find(NAMESPACE, log.session_id, 12)).cut_at == "b2"

    @contract
    async def test_a_message_into_a_running_turn_is_removed_alone(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        entries = [
            log.add(ev.TurnStart(turn_id="t", item_id="one")),
            log.add(ev.UserMessage(item_id="one", text="one")),
            log.add(ev.AgentMessage(message_id="m", text="to one", anchor="a")),
            log.add(ev.UserMessage(item_id="two", text="two")),
        ]
        await harness.append(log, entries)
        point = await harness.store.find_rewind_point(NAMESPACE, log.session_id, 4)
        assert (point.first_seq, point.cut_at) == (4, "a")

    @contract
    async def test_hidden_entries_are_no_rewind_points(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        await harness.append(log, log.add_turn("one", anchor="a"))
        rewound = [*log.add_turn("two", anchor="b"), log.add_rewind(6)]
        await harness.append(log, [*rewound, *log.add_turn("three")])
        find = harness.store.find_rewind_point
        for seq in (6, 7, 10, 0, 17, 2**53):
            with pytest.raises(NotFound):
                await find(NAMESPACE, log.session_id, seq)
        assert (await find(NAMESPACE, log.session_id, 13)).cut_at == "a", (
            "anchors that were removed do not count"
        )
        await harness.store.clear_messages(NAMESPACE, log.session_id, keep=5)
        with pytest.raises(NotFound):
            await find(NAMESPACE, log.session_id, 2)
        point = await find(NAMESPACE, log.session_id, 13)
        assert point.cut_at == "a", "the agent still knows what was cleared"

    @contract
    async def test_the_result_of_a_rewind_names_what_it_cancelled(self, harness: StoreHarness) -> None:
        log = await harness.create_session()
        await harness.append(log, log.add_turn("one"))
        cancelled = [("x", "cancelled by the sender"), ("y", REWIND_REASON), ("z", REWIND_REASON)]
        updates = [
            log.add(ev.QueueUpdate(item_id=item, state=ItemState.CANCELLED, reason=reason))
            for item, reason in cancelled
        ]
        await harness.append(log, [*updates, log.add_rewind(1)])
        result = await harness.store.find_rewind_result(NAMESPACE, log.session_id, 1, 5)
        assert (result.seq, result.cancelled) == (9, ["y", "z"])
        with pytest.raises(NotFound):
            await harness.store.find_rewind_result(NAMESPACE, log.session_id, 9, 9)

    # -- copy

    @contract
    async def test_a_copy_has_the_conversation_and_not_how_it_came_about(self, harness: StoreHarness) -> None:
        source = await harness.create_session()
        entries = [
            source.add(ev.LaunchStart(generation=1, resumed=False)),
            source.add(ev.StatusUpdate(status=ev.SessionStatus.IDLE)),
            source.add(ev.QueueUpdate(item_id="one", state=ItemState.QUEUED)),
            *source.add_turn("one", anchor="a"),
            source.add(ev.UsageUpdate(input_tokens=1)),
            source.add(ev.Notice(text="careful")),
            source.add(ev.TitleUpdate(title="t")),
        ]
        await harness.append(source, entries)
        log, copied = await harness.fork(source)
        assert (copied.count, copied.anchor, copied.answered, copied.last_message) == (6, "a", True, "to one")
        assert await _kinds(harness, log) == [
            "turn_start", "user_message", "agent_thought", "agent_message", "turn_end", "notice", "launch_start",
        ]  # fmt: skip
        found = await harness.read(log)
        assert [entry["id"] for entry in found] == [f"{log.session_id}:{seq}" for seq in range(1, 8)]
        original = json.loads(bytes(source.entries[4].body))
        assert found[1] | {"id": None, "seq": None} == original | {"id": None, "seq": None}
        row = await harness.store.get_session(NAMESPACE, log.session_id)
        assert (row.seq, row.last_message) == (7, "to one")
        assert await harness.seqs(log, 2, before=7) == [5, 6]
        assert await harness.seqs(log, 3, after=5) == [6, 7]

    @contract
    async def test_a_copy_is_not_published(self, harness: StoreHarness) -> None:
        source = await harness.create_session()
        await harness.append(source, source.add_turn("one"))
        log, _ = await harness.fork(source)
        published = [event.type for event in harness.published_about(log.session_id)]
        assert published == ["session-added", "message-received"]
        assert [event.type for event in await harness.read_feed(session_id=log.session_id)] == published

    @contract
    async def test_hidden_entries_are_not_copied(self, harness: StoreHarness) -> None:
        source = await harness.create_session()
        await harness.append(source, [*source.add_turn("one"), *source.add_turn("two"), source.add_rewind(6)])
        await harness.append(source, source.add_turn("three"))
        log, copied = await harness.fork(source)
        assert (await _user_texts(harness, log), copied.count) == (["one", "three"], 10)
        await harness.append(log, [log.add_rewind(6)])
        assert await harness.seqs(log) == [1, 2, 3, 4, 5, 12]
        again, _ = await harness.fork(log)
        assert await _user_texts(harness, again) == ["one"]
        await harness.store.clear_messages(NAMESPACE, source.session_id, keep=3)
        rest, _ = await harness.fork(source)
        assert await _kinds(harness, rest) == ["agent_thought", "agent_message", "launch_start"]

    @contract
    async def test_a_turn_that_the_copy_cuts_is_ended(self, harness: StoreHarness) -> None:
        source = await harness.create_session()
        await harness.append(source, source.add_turn("one"))
        log, _ = await harness.fork(source, upto=4)
        end = (await harness.read(log))[4]["content"]
        assert (end["kind"], end["turnId"], end["reason"]) == ("turn_end", "one", "cancelled")
        empty, _ = await harness.fork(source, upto=0)
        assert await _kinds(harness, empty) == ["launch_start"]

    @contract
    async def test_what_happens_to_the_source_does_not_change_the_copy(self, harness: StoreHarness) -> None:
        source = await harness.create_session()
        await harness.append(source, source.add_turn("one"))
        ranges = await harness.store.visible_ranges(NAMESPACE, source.session_id, None)
        spec = harness.new_spec()
        await harness.store.begin_session(NAMESPACE, spec)
        await harness.append(source, [source.add_rewind(1), *source.add_turn("two")])
        copied = await harness.store.copy_entries(
            NAMESPACE, source.session_id, spec.id, ranges, CopyProgress()
        )
        assert (copied.count, copied.last_message) == (5, "to one")
        log, _ = await harness.fork(source)
        await harness.store.delete_session(NAMESPACE, source.session_id)
        await harness.wait_until_purged(source.session_id)
        assert await _user_texts(harness, log) == ["two"]

    @contract
    async def test_a_deleted_source_or_a_discarded_target_ends_the_copy(self, harness: StoreHarness) -> None:
        source = await harness.create_session()
        await harness.append(source, source.add_turn("one"))
        log, _ = await harness.begin_fork(source)
        await harness.store.discard_session(log.session_id)
        late = await harness.append(log, [log.add(ev.Notice(text="late"))])
        assert late.status is not AppendStatus.STORED
        ranges = [SeqRange(1, 5)]
        copy = harness.store.copy_entries
        with pytest.raises(NotFound):
            await copy(NAMESPACE, source.session_id, log.session_id, ranges, CopyProgress())
        target, _ = await harness.begin_fork(source)
        await harness.store.delete_session(NAMESPACE, source.session_id)
        with pytest.raises(NotFound):
            await copy(NAMESPACE, source.session_id, target.session_id, ranges, CopyProgress())
