"""What of a session's log is seen. A rewind hides a stretch of it: the rows stay, and readers step over them.

Since a log has no gaps, all of this is arithmetic on the few rows of `cuts`; nothing walks over what is hidden.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from farsteer.hub.store.sqlite.transaction import Transaction

Stretch = tuple[int, int]
"""The first and the last number of entries that follow each other."""


def cut(tx: Transaction, session_id: str, first: int, last: int) -> None:
    """Hide a stretch. What was hidden inside it or reaches into it becomes a part of it."""
    reaching = _cut_at(tx.db, session_id, first)
    if reaching is not None:
        first = reaching[0]
    if first > last:
        return
    inside = "session_id = ? AND first BETWEEN ? AND ?"
    end = tx.db.execute(
        f"SELECT max(last) FROM cuts WHERE {inside}",  # noqa: S608
        (session_id, first, last),
    ).fetchone()[0]
    tx.db.execute(f"DELETE FROM cuts WHERE {inside}", (session_id, first, last))  # noqa: S608
    tx.db.execute(
        "INSERT INTO cuts (session_id, first, last) VALUES (?, ?, ?)",
        (session_id, first, max(last, end or 0)),
    )


def hidden(db: sqlite3.Connection, session_id: str, seq: int) -> Stretch | None:
    """The cut that this entry is in."""
    return _cut_at(db, session_id, seq)


def newest_first(db: sqlite3.Connection, session_id: str, low: int, high: int) -> Iterator[Stretch]:
    """The visible stretches of what lies between `low` and `high`, without these two."""
    top = high - 1
    cuts = db.execute(
        "SELECT first, last FROM cuts WHERE session_id = ? AND first <= ? ORDER BY first DESC",
        (session_id, top),
    )
    for first, last in cuts:
        if last <= low:
            break
        if last < top:
            yield last + 1, top
        top = min(top, first - 1)
    if top > low:
        yield low + 1, top


def oldest_first(db: sqlite3.Connection, session_id: str, low: int, high: int) -> Iterator[Stretch]:
    """The same from the other end."""
    bottom = low + 1
    reaching = _cut_at(db, session_id, bottom)
    if reaching is not None:
        bottom = reaching[1] + 1
    cuts = db.execute(
        "SELECT first, last FROM cuts WHERE session_id = ? AND first >= ? AND first < ? ORDER BY first",
        (session_id, bottom, high),
    )
    for first, last in cuts:
        if first > bottom:
            yield bottom, first - 1
        bottom = last + 1
    if bottom < high:
        yield bottom, high - 1


def any_between(db: sqlite3.Connection, session_id: str, low: int, high: int) -> bool:
    return next(newest_first(db, session_id, low, high), None) is not None


def count(db: sqlite3.Connection, session_id: str, low: int, high: int) -> int:
    return sum(last - first + 1 for first, last in newest_first(db, session_id, low, high))


def place_of(db: sqlite3.Connection, session_id: str, low: int, high: int, keep: int) -> int:
    """The number behind which the newest `keep` visible entries are; `low`, if there are not that many."""
    for first, last in newest_first(db, session_id, low, high):
        if keep < last - first + 1:
            return last - keep
        keep -= last - first + 1
    return low


def rows(
    db: sqlite3.Connection, session_id: str, copied: int, stretch: Stretch, *, newest: bool = False
) -> Iterator[tuple[int, bytes]]:
    """The entries of a stretch: the first `copied` of a log are a copy, the others were told."""
    first, last = stretch
    sources = [
        ("SELECT seq, body FROM copies WHERE session_id = ?", first, min(last, copied)),
        ("SELECT seq, body FROM log WHERE subject = ?", max(first, copied + 1), last),
    ]
    order = "DESC" if newest else "ASC"
    for select, low, high in reversed(sources) if newest else sources:
        if low <= high:
            found = db.execute(
                f"{select} AND seq BETWEEN ? AND ? ORDER BY seq {order}", (session_id, low, high)
            )
            yield from found


def newest_rows(
    db: sqlite3.Connection, session_id: str, copied: int, low: int, high: int
) -> Iterator[tuple[int, bytes]]:
    """Visible entries between `low` and `high`, the newest first; read as they are taken."""
    for stretch in newest_first(db, session_id, low, high):
        yield from rows(db, session_id, copied, stretch, newest=True)


def oldest_rows(
    db: sqlite3.Connection, session_id: str, copied: int, low: int, high: int
) -> Iterator[tuple[int, bytes]]:
    for stretch in oldest_first(db, session_id, low, high):
        yield from rows(db, session_id, copied, stretch)


def _cut_at(db: sqlite3.Connection, session_id: str, seq: int) -> Stretch | None:
    found = db.execute(
        "SELECT first, last FROM cuts WHERE session_id = ? AND first <= ? ORDER BY first DESC LIMIT 1",
        (session_id, seq),
    ).fetchone()
    return found if found is not None and found[1] >= seq else None
