"""The worker's interrupts: they end a turn, and never split a line."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from farsteer.agents.aider.worker_io import Interrupts


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    before = signal.getsignal(signal.SIGINT)
    yield Interrupts()
    signal.signal(signal.SIGINT, before)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_between_turns_nothing_is_interrupted(interrupts: Interrupts) -> None:
    press()
    interrupts.press()
    interrupts.begin()
    with interrupts.allowed():
        pass
    assert not interrupts.requested


def test_a_turn_is_interrupted_and_what_follows_is_not(interrupts: Interrupts) -> None:
    interrupts.begin()
    with pytest.raises(KeyboardInterrupt), interrupts.allowed():
        press()
    press()
    interrupts.end()
    assert interrupts.requested


def test_an_interrupt_waits_for_the_end_of_a_line(interrupts: Interrupts) -> None:
    written: list[str] = []

    def write() -> None:
        with interrupts.held(), interrupts.held():
            press()
            written.append("the whole line")
        written.append("more")

    interrupts.begin()
    with pytest.raises(KeyboardInterrupt), interrupts.allowed():
        write()
    assert written == ["the whole line"]


def test_an_interrupt_that_came_before_the_turn_began_ends_it_at_once(interrupts: Interrupts) -> None:
    interrupts.begin()
    press()
    with pytest.raises(KeyboardInterrupt), interrupts.allowed():
        raise AssertionError("it must not begin")
