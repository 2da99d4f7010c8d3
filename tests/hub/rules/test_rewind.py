"""Where a conversation is cut, what the agent remembers before it, and what the cut cancelled."""

from collections.abc import Iterator

from farsteer.core import events as ev
from farsteer.core.events import Entry, decode_entry
from farsteer.core.queue import REWIND_REASON, ItemState
from farsteer.hub.rules import rewind
from farsteer.hub.rules.rewind import (
    first_removed,
    items_cancelled_by_rewind,
    last_answer,
    last_message,
    message_text,
)
from farsteer.hub.store.conformance import LogBuilder


def decoded(log: LogBuilder) -> list[Entry]:
    return [decode_entry(bytes(entry.body)) for entry in log.entries]


def newest_first(log: LogBuilder) -> Iterator[bytes]:
    return (bytes(entry.body) for entry in reversed(log.entries))


def test_a_message_takes_the_start_of_its_own_turn_along() -> None:
    log = LogBuilder("s")
    log.add_turn("one")
    steered = decode_entry(bytes(log.add(ev.UserMessage(item_id="two", text="two")).body))
    start, message, thought, *_ = decoded(log)
    assert first_removed(message, start) == 1
    assert first_removed(message, None) == 2
    assert first_removed(thought, message) == 3
    assert first_removed(steered, start) == 6, "a turn that another message started"


def test_the_last_anchor_counts() -> None:
    log = LogBuilder("s")
    log.add_turn("one", thought_anchor="a1", anchor="a2")
    assert last_answer(newest_first(log)) == ("a2", True)
    log.add_turn("two", thought_anchor="b1")
    assert last_answer(newest_first(log)) == ("b1", True)
    log.add_turn("three")
    assert last_answer(newest_first(log)) == ("b1", True)


def test_without_anchors_a_complete_message_is_an_answer() -> None:
    log = LogBuilder("s")
    assert last_answer(newest_first(log)) == (None, False)
    log.add(ev.UserMessage(item_id="one", text='"kind":"agent_message" "anchor":'))
    assert last_answer(newest_first(log)) == (None, False)
    log.add(ev.AgentMessage(message_id="m", text="to", partial=True))
    assert last_answer(newest_first(log)) == (None, False)
    log.add(ev.AgentMessage(message_id="m", text="to one"))
    assert last_answer(newest_first(log)) == (None, True)


def test_the_last_message_is_found_behind_other_entries() -> None:
    log = LogBuilder("s")
    assert last_message(newest_first(log)) is None
    log.add_turn("one")
    log.add(ev.Notice(text="a notice"))
    assert last_message(newest_first(log)) == "to one"
    log.add(ev.UserMessage(item_id="two", text="two"))
    assert last_message(newest_first(log)) == "two"


def test_the_search_for_the_last_message_is_bounded() -> None:
    log = LogBuilder("s")
    log.add(ev.UserMessage(item_id="one", text="one"))
    for _ in range(rewind._MAX_LOOK_BACK - 1):
        log.add(ev.Notice(text="a notice"))
    assert last_message(newest_first(log)) == "one"
    log.add(ev.Notice(text="one too many"))
    assert last_message(newest_first(log)) is None


def test_a_long_message_is_shown_clipped() -> None:
    assert message_text(ev.Notice(text="a notice")) is None
    text = message_text(ev.AgentMessage(message_id="m", text="x" * 1000))
    assert text is not None
    assert len(text) == 200


def test_only_what_the_rewind_itself_cancelled_is_named() -> None:
    log = LogBuilder("s")
    for item, state, reason in (
        ("a", ItemState.CANCELLED, "cancelled by the sender"),
        ("b", ItemState.CANCELLED, REWIND_REASON),
        ("c", ItemState.FAILED, REWIND_REASON),
        ("d", ItemState.CANCELLED, REWIND_REASON),
    ):
        log.add(ev.QueueUpdate(item_id=item, state=state, reason=reason))
    log.add(ev.UserMessage(item_id="e", text=f'"kind":"queue_update" {REWIND_REASON}'))
    assert items_cancelled_by_rewind(bytes(entry.body) for entry in log.entries) == ["b", "d"]
