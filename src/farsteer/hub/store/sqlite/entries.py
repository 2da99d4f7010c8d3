"""Reading a session's log: `log` and `copies` hold its entries, `cuts` the ranges that rewinds removed.

The first `copied` entries of a log are in `copies`, the others in `log`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import islice

from farsteer.core.api import MessagesCleared
from farsteer.core.errors import NotFound
from farsteer.core.events import Entry, Rewound, decode_entry
from farsteer.core.wire import encode
from farsteer.hub.rules.rewind import (
    RewindPoint,
    RewindResult,
    first_removed,
    items_cancelled_by_rewind,
    last_answer,
    last_message,
)
from farsteer.hub.rules.visibility import (
    SeqRange,
    clear_position,
    count_entries,
    merge_cut,
    page_bounds,
    visible_newest_first,
    visible_oldest_first,
)
from farsteer.hub.store.base import LogPage
from farsteer.hub.store.sqlite.checks import check_entry
from farsteer.hub.store.sqlite.sessions import find
from farsteer.hub.store.sqlite.transaction import Transaction

MAX_PAGE_BYTES = 16 * 1024 * 1024
"""A page of a log or of the feed ends with the row that exceeds this."""


def page(
    db: sqlite3.Connection,
    namespace: str,
    session_id: str,
    *,
    limit: int,
    before: int | None,
    after: int | None,
) -> LogPage:
    session = find(db, namespace, session_id)
    low, high = page_bounds(session.seq, session.cleared_seq, before, after)
    read = newest_first if after is None else oldest_first
    rows: list[tuple[int, bytes]] = []
    size = 0
    for row in islice(read(db, session_id, session.copied, low, high), limit):
        rows.append(row)
        size += len(row[1])
        if size > MAX_PAGE_BYTES:
            break
    if after is None:
        rows.reverse()
    if not rows:
        return LogPage([], None, None, has_older=False, has_newer=False)
    first, last = rows[0][0], rows[-1][0]
    return LogPage(
        [body for _, body in rows],
        first,
        last,
        has_older=_any_visible(db, session_id, session.cleared_seq, first),
        has_newer=_any_visible(db, session_id, last, session.seq + 1),
    )


def clear(tx: Transaction, namespace: str, session_id: str, keep: int) -> MessagesCleared:
    session = find(tx.db, namespace, session_id)
    cleared, end = session.cleared_seq, session.seq + 1
    upto = clear_position(_visible(tx.db, session_id, cleared, end), keep, cleared)
    hidden = count_entries(_visible(tx.db, session_id, cleared, upto + 1))
    remaining = count_entries(_visible(tx.db, session_id, upto, end))
    if hidden:
        tx.db.execute("UPDATE sessions SET cleared_seq = ? WHERE id = ?", (upto, session_id))
        data = encode({"clearedSeq": upto, "remaining": remaining})
        tx.publish(namespace, "messages-cleared", session_id, data)
    return MessagesCleared(cleared=hidden, remaining=remaining)


def rewind_point(db: sqlite3.Connection, namespace: str, session_id: str, seq: int) -> RewindPoint:
    session = find(db, namespace, session_id)
    entry = None
    if session.cleared_seq < seq <= session.seq:
        entry = _read_uncut(db, session_id, session.copied, seq)
    if entry is None:
        raise NotFound(f"there is no entry {seq} in this conversation")
    first = first_removed(entry, _read_uncut(db, session_id, session.copied, seq - 1))
    # From the beginning: what was cleared the agent still knows.
    before = newest_first(db, session_id, session.copied, 0, first)
    anchor, answered = last_answer(body for _, body in before)
    return RewindPoint(entry, first, anchor, answered, session.seq)


def rewind_result(
    db: sqlite3.Connection, namespace: str, session_id: str, first_seq: int, since: int
) -> RewindResult:
    session = find(db, namespace, session_id)
    cut = _cut_at(db, session_id, first_seq)
    if cut is None:
        raise NotFound("the conversation was not rewound")
    entries = read_range(db, session_id, session.copied, SeqRange(since + 1, cut.last))
    return RewindResult(cut.last + 1, items_cancelled_by_rewind(body for _, body in entries))


def record_rewind(tx: Transaction, session_id: str, rewound: Rewound, seq: int) -> None:
    """Hide what a `rewound` entry says was removed."""
    new = SeqRange(rewound.first_seq, seq - 1)
    cut = merge_cut(_cuts_reaching(tx.db, session_id, new), new)
    if cut is not None:
        tx.db.execute("DELETE FROM cuts WHERE session_id = ? AND first BETWEEN ? AND ?", (session_id, *cut))
        tx.db.execute("INSERT INTO cuts (session_id, first, last) VALUES (?, ?, ?)", (session_id, *cut))
    copied, cleared = tx.db.execute(
        "SELECT copied, cleared_seq FROM sessions WHERE id = ?", (session_id,)
    ).fetchone()
    left = newest_first(tx.db, session_id, copied, cleared, rewound.first_seq)
    text = last_message(body for _, body in left)
    tx.db.execute("UPDATE sessions SET last_message = ? WHERE id = ?", (text, session_id))


def visible_ranges(
    db: sqlite3.Connection, namespace: str, session_id: str, upto: int | None
) -> list[SeqRange]:
    session = find(db, namespace, session_id)
    end = session.seq if upto is None else min(upto, session.seq)
    low, high = session.cleared_seq, end + 1
    return [*visible_oldest_first(_cuts_oldest_first(db, session_id, low, high), low, high)]


# -- rows


def newest_first(
    db: sqlite3.Connection, session_id: str, copied: int, low: int, high: int
) -> Iterator[tuple[int, bytes]]:
    """Yield the visible (seq, body) between `low` and `high`, both excluded. Rows are read as they are needed."""
    for found in _visible(db, session_id, low, high):
        yield from read_range(db, session_id, copied, found, newest=True)


def oldest_first(
    db: sqlite3.Connection, session_id: str, copied: int, low: int, high: int
) -> Iterator[tuple[int, bytes]]:
    for found in visible_oldest_first(_cuts_oldest_first(db, session_id, low, high), low, high):
        yield from read_range(db, session_id, copied, found)


def read_range(
    db: sqlite3.Connection, session_id: str, copied: int, wanted: SeqRange, *, newest: bool = False
) -> Iterator[tuple[int, bytes]]:
    """Yield the (seq, body) of a range, visible or not."""
    sources = [
        (
            "copies",
            "SELECT seq, body FROM copies WHERE session_id = ?",
            wanted.first,
            min(wanted.last, copied),
        ),
        ("log", "SELECT seq, body FROM log WHERE subject = ?", max(wanted.first, copied + 1), wanted.last),
    ]
    order = "DESC" if newest else "ASC"
    for table, select, low, high in reversed(sources) if newest else sources:
        if low <= high:
            rows = db.execute(
                f"{select} AND seq BETWEEN ? AND ? ORDER BY seq {order}", (session_id, low, high)
            )
            # A statement that a damaged row leaves open would hold on to what was read, also after the repair.
            with closing(rows):
                for seq, body in rows:
                    yield seq, check_entry(body, table, session_id, seq)


def _read_uncut(db: sqlite3.Connection, session_id: str, copied: int, seq: int) -> Entry | None:
    """Return an entry, or None if there is none or it was removed by a rewind."""
    if _cut_at(db, session_id, seq) is None:
        for _, body in read_range(db, session_id, copied, SeqRange(seq, seq)):
            return decode_entry(body)
    return None


def _any_visible(db: sqlite3.Connection, session_id: str, low: int, high: int) -> bool:
    return next(_visible(db, session_id, low, high), None) is not None


def _visible(db: sqlite3.Connection, session_id: str, low: int, high: int) -> Iterator[SeqRange]:
    """Yield the visible ranges between `low` and `high`, newest first."""
    return visible_newest_first(_cuts_newest_first(db, session_id, high - 1), low, high)


# -- cuts


def _cuts_newest_first(db: sqlite3.Connection, session_id: str, upto: int) -> Iterator[SeqRange]:
    """Yield the cuts that begin at `upto` or before."""
    rows = db.execute(
        "SELECT first, last FROM cuts WHERE session_id = ? AND first <= ? ORDER BY first DESC",
        (session_id, upto),
    )
    return (SeqRange(*row) for row in rows)


def _cuts_oldest_first(db: sqlite3.Connection, session_id: str, low: int, high: int) -> Iterator[SeqRange]:
    """Yield the cuts between `low` and `high`, beginning with the one that `low` may be in."""
    rows = db.execute(
        "SELECT first, last FROM cuts WHERE session_id = :session AND first < :high AND first >= coalesce("
        "  (SELECT max(first) FROM cuts WHERE session_id = :session AND first <= :low), :low)"
        " ORDER BY first",
        {"session": session_id, "low": low, "high": high},
    )
    return (SeqRange(*row) for row in rows)


def _cuts_reaching(db: sqlite3.Connection, session_id: str, wanted: SeqRange) -> Iterator[SeqRange]:
    """Yield the cuts that overlap a range."""
    for cut in _cuts_newest_first(db, session_id, wanted.last):
        if cut.last < wanted.first:
            return
        yield cut


def _cut_at(db: sqlite3.Connection, session_id: str, seq: int) -> SeqRange | None:
    """Return the cut that an entry is in."""
    return next(_cuts_reaching(db, session_id, SeqRange(seq, seq)), None)
