"""Server-sent events arrive whole, however the network cuts them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farsteer.client.sse import EventParser, ServerEvent
from farsteer.core.errors import TooLarge

WIRE = (
    b": hello\n\n"
    b'event: ready\ndata: {"cursor":"e-1"}\n\n'
    b'id: e-2\ndata: {"type":"a"}\n\n'
    b": heartbeat\n\n"
    b"data: one\r\ndata: two\r\nid: e-3\r\n\r\n"
    b"data:tight\n\n"
    b"retry: 3\nunknown: x\n\n"
    b"data: unfinished\n"
)
EVENTS = [
    ServerEvent("ready", b'{"cursor":"e-1"}', None),
    ServerEvent("message", b'{"type":"a"}', "e-2"),
    ServerEvent("message", b"one\ntwo", "e-3"),
    ServerEvent("message", b"tight", None),
]


@given(st.lists(st.integers(0, len(WIRE)), max_size=20))
def test_any_cut_gives_the_same_events(cuts: list[int]) -> None:
    parser = EventParser()
    marks = [0, *sorted(cuts), len(WIRE)]
    pieces = [WIRE[a:b] for a, b in pairwise(marks)]
    assert [event for piece in pieces for event in parser.feed(piece)] == EVENTS


def test_an_endless_event_is_refused() -> None:
    parser = EventParser(limit=1000)
    parser.feed(b"data: " + b"x" * 900)
    with pytest.raises(TooLarge):
        parser.feed(b"x" * 200)


def test_endless_lines_of_one_event_are_refused() -> None:
    parser = EventParser(limit=1000)
    for _ in range(50):
        parser.feed(b"data: " + b"x" * 19 + b"\n")
    with pytest.raises(TooLarge):
        parser.feed(b"data: " + b"x" * 50 + b"\n")


def test_the_limit_is_per_event() -> None:
    parser = EventParser(limit=1000)
    for _ in range(100):
        assert len(parser.feed(b"data: " + b"x" * 900 + b"\n\n: beat\n\n")) == 1
