"""Text that arrives in deltas and again as a complete message is returned once."""

from hypothesis import given
from hypothesis import strategies as st

from farsteer.client.live_events import StreamedText
from farsteer.core.events import Delta, DeltaKind


def delta(text: str, offset: int, message_id: str = "m") -> Delta:
    return Delta(message_id=message_id, kind=DeltaKind.MESSAGE, text=text, offset=offset)


@given(st.text(max_size=40), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10))))
def test_lost_repeated_and_overlapping_deltas_give_the_text_once(
    text: str, pieces: list[tuple[int, int]]
) -> None:
    live = StreamedText()
    shown = "".join(live.add_delta(delta(text[at : at + size], at)) for at, size in pieces if at <= len(text))
    assert shown + live.complete("m", text) == text


def test_nothing_is_new_after_the_complete_message() -> None:
    live = StreamedText()
    assert live.complete("m", "hello") == "hello"
    assert live.add_delta(delta("hello", 0)) == ""
    assert live.complete("m", "hello") == ""
    assert live.is_complete("m")


def test_messages_do_not_mix() -> None:
    live = StreamedText()
    assert live.add_delta(delta("ab", 0, "1")) == "ab"
    assert live.add_delta(delta("xy", 0, "2")) == "xy"
    assert live.complete("1", "abc") == "c"
    assert live.complete("2", "xyz") == "z"


def test_memory_is_bounded() -> None:
    live = StreamedText()
    for number in range(10_000):
        live.add_delta(delta("a", 0, str(number)))
        live.complete(str(number), "a")
    assert len(live._completed) <= 512
    assert not live._returned
