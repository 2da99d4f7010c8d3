"""Text that comes live and again whole is shown once, complete."""

from hypothesis import given
from hypothesis import strategies as st

from farsteer.client.text import LiveText
from farsteer.core.events import Delta, DeltaKind


def delta(text: str, offset: int, message_id: str = "m") -> Delta:
    return Delta(message_id=message_id, kind=DeltaKind.MESSAGE, text=text, offset=offset)


@given(st.text(max_size=40), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10))))
def test_lost_repeated_and_overlapping_fragments_give_the_text_once(
    text: str, pieces: list[tuple[int, int]]
) -> None:
    live = LiveText()
    shown = "".join(live.fragment(delta(text[at : at + size], at)) for at, size in pieces if at <= len(text))
    assert shown + live.whole("m", text) == text


def test_what_comes_after_the_whole_is_old() -> None:
    live = LiveText()
    assert live.whole("m", "hello") == "hello"
    assert live.fragment(delta("hello", 0)) == ""
    assert live.whole("m", "hello") == ""
    assert live.finished("m")


def test_messages_do_not_mix() -> None:
    live = LiveText()
    assert live.fragment(delta("ab", 0, "1")) == "ab"
    assert live.fragment(delta("xy", 0, "2")) == "xy"
    assert live.whole("1", "abc") == "c"
    assert live.whole("2", "xyz") == "z"


def test_memory_is_bounded() -> None:
    live = LiveText()
    for number in range(10_000):
        live.fragment(delta("a", 0, str(number)))
        live.whole(str(number), "a")
    assert len(live._finished) <= 512
    assert not live._shown
