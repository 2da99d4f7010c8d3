"""Drivers take turns, one that fails leaves, and the medians are of what was measured."""

import pytest

from bench.agents.driver import Conversation, Driver, Warm
from bench.agents.overhead import PEER, Field, summarize
from bench.history import Timing
from bench.peers.base import Unavailable


class NoDriver(Driver):
    def open(self) -> Conversation:
        raise NotImplementedError


def test_another_driver_begins_in_each_round() -> None:
    order: list[str] = []
    field = Field({name: NoDriver() for name in "abc"})
    taken = field.in_turn(4, lambda way, _: order.append(way))
    assert "".join(order) == "abc" + "bca" + "cab" + "abc"
    assert {way: len(values) for way, values in taken.items()} == {"a": 4, "b": 4, "c": 4}


def test_some_are_left_out_of_a_part() -> None:
    field = Field({name: NoDriver() for name in "ab"})
    assert field.in_turn(2, lambda way, _: way, without="b") == {"a": ["a", "a"]}


def test_one_that_fails_leaves_with_its_reason() -> None:
    field = Field({"a": NoDriver(), PEER: NoDriver()})

    def take(way: str, _: Driver) -> str:
        if way == PEER:
            raise Unavailable("it takes no message")
        return way

    assert field.in_turn(3, take) == {"a": ["a", "a", "a"]}
    assert field.failures == {PEER: "it takes no message"}
    assert list(field.drivers) == ["a"]


def warm(pieces: int) -> Warm:
    return Warm(texts=[3.0, 5.0], words=Timing(1.0, 2.0), pieces=pieces)


def test_words_that_come_one_by_one_have_an_age() -> None:
    found = summarize([3.0, 1.0, 2.0], [None, 7.0], [warm(100), warm(90)], 100, 0.1)
    assert (found.first_text, found.first_message, found.warm_text) == (2.0, 7.0, 4.0)
    assert found.words == Timing(1.0, 2.0)
    assert found.pieces == pytest.approx(0.95)


def test_the_age_of_words_in_whole_blocks_is_not_told() -> None:
    found = summarize([1.0], [], [warm(1)], 50, None)
    assert (found.words, found.pieces, found.first_message) == (None, 0.02, None)


def test_what_was_not_measured_is_missing() -> None:
    found = summarize([1.0], [2.0], [], 100, None)
    assert (found.warm_text, found.words, found.pieces, found.session_mb) == (None, None, None, None)
