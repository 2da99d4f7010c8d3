"""A fork takes over the conversation, in chunks that join to the same copy."""

import pytest

from farsteer.core import events as ev
from farsteer.core.events import Entry, decode_entry
from farsteer.core.queue import ItemState
from farsteer.hub.rules import fork as fork_rules
from farsteer.hub.rules.fork import CopyProgress, copy_chunk
from farsteer.hub.store.conformance import LogBuilder


def copy(log: LogBuilder) -> tuple[list[Entry], CopyProgress, int]:
    """The whole copy, the final progress, and the number of chunks."""
    copied: list[Entry] = []
    progress, chunks = CopyProgress(), 0
    while not progress.done:
        source = ((entry.seq, bytes(entry.body)) for entry in log.entries if entry.seq > progress.source_seq)
        before = progress
        entries, progress = copy_chunk("fork", source, progress)
        assert progress is not before
        assert [seq for seq, _ in entries] == [*range(before.count + 1, progress.count + 1)]
        copied += [decode_entry(body) for _, body in entries]
        chunks += 1
    return copied, progress, chunks


def test_the_conversation_is_copied_and_numbered_anew() -> None:
    log = LogBuilder("source")
    log.add(ev.LaunchStart(generation=1, resumed=False))
    log.add(ev.QueueUpdate(item_id="one", state=ItemState.QUEUED))
    log.add_turn("one", anchor="a")
    log.add(ev.UsageUpdate(input_tokens=1))
    log.add(ev.Plan(entries=()))
    log.add(ev.TitleUpdate(title="t"))
    copied, progress, _ = copy(log)
    assert [type(entry.content) for entry in copied] == [
        ev.TurnStart, ev.UserMessage, ev.AgentThought, ev.AgentMessage, ev.TurnEnd, ev.Plan,
    ]  # fmt: skip
    assert [entry.id for entry in copied] == [f"fork:{seq}" for seq in range(1, 7)]
    assert [entry.seq for entry in copied] == [*range(1, 7)]
    original = decode_entry(bytes(log.entries[3].body))
    assert (copied[1].content, copied[1].created_at) == (original.content, original.created_at)
    assert progress == CopyProgress(
        count=6, source_seq=10, source_time=10, anchor="a", answered=True, last_message="to one", done=True
    )


def test_an_empty_source_is_copied_at_once() -> None:
    assert copy(LogBuilder("source")) == ([], CopyProgress(done=True), 1)


def test_every_turn_of_the_copy_ends_once() -> None:
    log = LogBuilder("source")
    log.add(ev.TurnEnd(turn_id="unknown", reason=ev.TurnEndReason.END_TURN))
    log.add(ev.TurnStart(turn_id="lost"))
    log.add_turn("one")
    log.add(ev.TurnStart(turn_id="open"))
    log.add(ev.UserMessage(item_id="i", text="hello"))
    copied, progress, _ = copy(log)
    ends = [entry.content for entry in copied if isinstance(entry.content, ev.TurnEnd)]
    assert [(end.turn_id, end.reason) for end in ends] == [
        ("lost", ev.TurnEndReason.CANCELLED), ("one", ev.TurnEndReason.END_TURN), ("open", ev.TurnEndReason.CANCELLED),
    ]  # fmt: skip
    assert copied[-1].content is ends[-1]
    assert copied[-1].created_at == log.state.seq
    assert progress.open_turn is None


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_chunks_of_any_size_join_to_the_same_copy(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogBuilder("source")
    for text in "abcdef":
        log.add_turn(text, anchor=text)
        log.add(ev.UsageUpdate(input_tokens=1))
    log.add(ev.TurnStart(turn_id="open"))
    whole, final, _ = copy(log)
    monkeypatch.setattr(fork_rules, "CHUNK_ENTRIES", size)
    copied, progress, chunks = copy(log)
    assert (copied, progress) == (whole, final)
    assert chunks == log.state.seq // size + 1


def test_a_chunk_of_huge_entries_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_rules, "CHUNK_BYTES", 1000)
    log = LogBuilder("source")
    for _ in range(6):
        log.add(ev.AgentMessage(message_id="m", text="x" * 600))
    copied, _, chunks = copy(log)
    assert (len(copied), chunks) == (6, 4)


def test_the_progress_that_was_given_is_not_changed() -> None:
    log = LogBuilder("source")
    log.add_turn("one")
    given = CopyProgress()
    copy_chunk("fork", [(entry.seq, bytes(entry.body)) for entry in log.entries], given)
    assert given == CopyProgress()
