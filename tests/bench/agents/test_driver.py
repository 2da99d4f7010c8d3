"""How old words are, and when a message was confirmed and answered."""

import time

import pytest

from bench.agents.driver import Answered, Conversation, Driver, OnText, Stopwatch, WordClock


def words(number: int) -> str:
    return "".join(f"{time.monotonic_ns()} " for _ in range(number))


def test_a_word_in_two_pieces_is_one_word() -> None:
    clock = WordClock()
    text = words(2)
    clock.hear(text[:5])
    clock.hear("")
    clock.hear(text[5:])
    assert 0 <= clock.timing(2).p50 < 60_000
    assert clock.pieces == 2


def test_a_missing_word_is_an_error() -> None:
    clock = WordClock()
    clock.hear(words(2))
    with pytest.raises(RuntimeError, match="2 of 3"):
        clock.timing(3)


def test_the_first_text_and_the_first_confirmation_count() -> None:
    watch = Stopwatch()
    watch.hear("")
    watch.confirm()
    watch.hear("a")
    first = watch.answered()
    watch.confirm()
    watch.hear("b")
    assert watch.answered() == first
    assert first.confirmed is not None
    assert first.confirmed <= first.first_text


def test_an_answer_without_text_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="without a text"):
        Stopwatch().answered()


class InstantConversation(Conversation):
    def __init__(self, driver: "InstantDriver") -> None:
        self._driver = driver

    def ask(self, text: str, on_text: OnText = lambda _: None) -> Answered:
        watch = Stopwatch()
        watch.confirm()
        answer = words(3) if "clock" in text else "hello"
        watch.hear(answer)
        on_text(answer)
        return watch.answered()

    def close(self) -> None:
        self._driver.live -= 1


class InstantDriver(Driver):
    """Answers at once, and needs 2 MB for each session."""

    def __init__(self) -> None:
        self.live = 0

    def open(self) -> Conversation:
        self.live += 1
        return InstantConversation(self)

    def memory(self) -> float:
        return 10 + 2 * self.live


def test_every_conversation_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.agents.driver.SETTLE", 0.0)
    monkeypatch.setattr("bench.agents.driver.PAUSE", 0.0)
    driver = InstantDriver()
    assert driver.first_text() >= 0
    assert driver.first_message() is not None
    warm = driver.warm(messages=4, words=3)
    assert (len(warm.texts), warm.pieces) == (4, 1)
    assert driver.session_mb(5) == pytest.approx(2)
    assert driver.live == 0
