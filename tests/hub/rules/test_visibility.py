"""Arithmetic on ranges, compared with marking every entry."""

from hypothesis import given
from hypothesis import strategies as st

from farsteer.hub.rules.visibility import (
    SeqRange,
    clear_position,
    count_entries,
    merge_cut,
    page_bounds,
    visible_newest_first,
    visible_oldest_first,
)

END = 40
SEQ = st.integers(1, END)
RANGES = st.lists(st.tuples(SEQ, SEQ), max_size=8)


def cut_all(ranges: list[tuple[int, int]]) -> tuple[list[SeqRange], set[int]]:
    """The cuts that result from hiding each range, oldest first, and the entries that are hidden."""
    cuts: list[SeqRange] = []
    hidden: set[int] = set()
    for first, last in ranges:
        merged = merge_cut(cuts, SeqRange(first, last))
        hidden |= {*range(first, last + 1)}
        if merged is not None:
            cuts = [cut for cut in cuts if not merged.first <= cut.first <= merged.last]
            cuts.append(merged)
    return sorted(cuts), hidden


def entries(ranges: list[SeqRange]) -> list[int]:
    return [seq for first, last in ranges for seq in range(first, last + 1)]


@given(RANGES)
def test_cuts_never_overlap_and_hide_exactly_what_was_cut(ranges: list[tuple[int, int]]) -> None:
    cuts, hidden = cut_all(ranges)
    assert entries(cuts) == sorted(hidden)


def test_an_empty_range_cuts_nothing() -> None:
    assert merge_cut([SeqRange(1, 5)], SeqRange(4, 3)) is None
    assert merge_cut([], SeqRange(9, 3)) is None


@given(RANGES, st.integers(0, END), st.integers(0, END + 1))
def test_both_directions_yield_what_is_not_cut(ranges: list[tuple[int, int]], low: int, high: int) -> None:
    cuts, hidden = cut_all(ranges)
    visible = [seq for seq in range(low + 1, high) if seq not in hidden]
    oldest = [*visible_oldest_first(cuts, low, high)]
    newest = [*visible_newest_first(reversed(cuts), low, high)]
    assert entries(oldest) == visible
    assert newest == oldest[::-1]
    assert count_entries(newest) == len(visible)
    assert all(first <= last for first, last in oldest)


def test_no_more_cuts_are_read_than_needed() -> None:
    read: list[int] = []

    def cuts():
        for first in (30, 20, 10):
            read.append(first)
            yield SeqRange(first, first + 2)

    assert next(visible_newest_first(cuts(), 0, 41)) == SeqRange(33, 40)
    assert read == [30]


@given(RANGES, st.integers(0, END), st.integers(0, END + 5))
def test_clearing_keeps_the_newest_visible_entries(
    ranges: list[tuple[int, int]], cleared: int, keep: int
) -> None:
    cuts, hidden = cut_all(ranges)
    visible = [seq for seq in range(cleared + 1, END + 1) if seq not in hidden]
    newest = visible_newest_first(reversed(cuts), cleared, END + 1)
    position = clear_position(newest, keep, cleared)
    assert [seq for seq in visible if seq > position] == visible[max(0, len(visible) - keep) :]
    if keep >= len(visible):
        assert position == cleared


def test_a_page_lies_between_what_was_asked_for_and_what_there_is() -> None:
    assert page_bounds(10, 0, None, None) == (0, 11)
    assert page_bounds(10, 4, None, None) == (4, 11)
    assert page_bounds(10, 4, 8, 2) == (4, 8)
    assert page_bounds(10, 4, 8, 6) == (6, 8)
    assert page_bounds(10, 0, 2**70, 2**70) == (10, 11)
    assert page_bounds(10, 0, -(2**70), -(2**70)) == (0, 0)
