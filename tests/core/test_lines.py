from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farsteer.core.lines import LineSplitter, Oversized


@given(st.binary(max_size=200), st.lists(st.integers(1, 30), min_size=1, max_size=50))
def test_any_cut_into_chunks_gives_the_same_lines(data: bytes, sizes: list[int]) -> None:
    splitter = LineSplitter(limit=1000)
    found: list[bytes | Oversized] = []
    rest = data
    while rest:
        for size in sizes:
            found += splitter.feed(rest[:size])
            rest = rest[size:]
    assert [*found, *splitter.finish()] == [line for line in data.split(b"\n") if line]


@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
def test_a_line_over_the_limit_is_told_and_skipped_to_its_newline(chunk: int) -> None:
    data = b"first\n" + b"x" * 50 + b"\nlast\n" + b"y" * 51
    splitter = LineSplitter(limit=10)
    found: list[bytes | Oversized] = []
    for start in range(0, len(data), chunk):
        found += splitter.feed(data[start : start + chunk])
    found += splitter.finish()
    first, big, last, unfinished = found
    assert (first, last) == (b"first", b"last")
    assert isinstance(big, Oversized)
    assert big.size == 50
    assert big.head + b"x" * (50 - len(big.head)) == b"x" * 50
    assert isinstance(unfinished, Oversized)
    assert unfinished.size == 51


def test_the_limit_itself_is_allowed() -> None:
    assert LineSplitter(limit=4).feed(b"1234\n12345\n") == [b"1234", Oversized(5, b"12345")]


def test_an_endless_line_is_not_kept() -> None:
    splitter = LineSplitter(limit=1000)
    for _ in range(1000):
        assert splitter.feed(b"z" * 999) == []
    assert sum(len(part) for part in splitter._parts) <= 1000
    assert splitter.feed(b"\nnext\n") == [Oversized(999_000, b"z" * 200), b"next"]
