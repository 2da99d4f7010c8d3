"""Which entries of a session's log are visible.

A rewind cuts a range of entries out of the conversation; clearing hides everything up to an entry. The entries stay
stored, and readers skip them. A log has no gaps, so all of this is arithmetic on a few ranges; no hidden entry is read.

Cuts never overlap. Functions that take several take them in order and read no more of them than they need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class SeqRange(NamedTuple):
    """Consecutive entries of a log; both ends are included."""

    first: int
    last: int


def merge_cut(cuts: Iterable[SeqRange], new: SeqRange) -> SeqRange | None:
    """Return the cut that replaces `new` and the existing ones it touches, or None if there is nothing to hide.

    `cuts` must include every cut that overlaps `new`.
    """
    overlapping = [cut for cut in cuts if cut.last >= new.first and cut.first <= new.last]
    first = min([new.first, *(cut.first for cut in overlapping)])
    last = max([new.last, *(cut.last for cut in overlapping)])
    return SeqRange(first, last) if new.first <= new.last else None


def visible_newest_first(cuts: Iterable[SeqRange], low: int, high: int) -> Iterator[SeqRange]:
    """Yield the visible ranges between `low` and `high`, both excluded. `cuts`: the newest first."""
    top = high - 1
    for first, last in cuts:
        if last <= low:
            break
        if last < top:
            yield SeqRange(last + 1, top)
        top = min(top, first - 1)
    if top > low:
        yield SeqRange(low + 1, top)


def visible_oldest_first(cuts: Iterable[SeqRange], low: int, high: int) -> Iterator[SeqRange]:
    """Yield the same ranges as `visible_newest_first` in the other order. `cuts`: the oldest first."""
    bottom = low + 1
    for first, last in cuts:
        if first >= high:
            break
        if first > bottom:
            yield SeqRange(bottom, first - 1)
        bottom = max(bottom, last + 1)
    if bottom < high:
        yield SeqRange(bottom, high - 1)


def count_entries(ranges: Iterable[SeqRange]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def clear_position(newest_first: Iterable[SeqRange], keep: int, cleared: int) -> int:
    """Return the entry up to which to clear so that the newest `keep` visible entries stay.

    `newest_first` are the visible ranges and `cleared` is the position so far, which is returned if there are not more
    than `keep`.
    """
    for first, last in newest_first:
        count = last - first + 1
        if keep < count:
            return last - keep
        keep -= count
    return cleared


def page_bounds(last_seq: int, cleared: int, before: int | None, after: int | None) -> tuple[int, int]:
    """Return the two entries, both excluded, between which a page lies."""
    low = min(max(after or 0, cleared), last_seq)
    high = last_seq + 1 if before is None else max(0, min(before, last_seq + 1))
    return low, high
