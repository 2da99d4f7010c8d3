"""The `log` table: what runners append, pages of one session's history, and the feed since a cursor."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from farsteer.core.api import MessagesCleared
from farsteer.core.events import ApprovalResolved, Entry, QueueUpdate, Rewound, decode_entry
from farsteer.core.session import SessionState
from farsteer.core.wire import decode, encode
from farsteer.hub.feed import SyncEvent, sync_event
from farsteer.hub.rules.view import changed_fields, combined_queue, encode_update, without_attachment_data
from farsteer.hub.store.base import AppendResult, AppendStatus, FeedBounds, FeedPage, LogPage
from farsteer.hub.store.sqlite import items as item_table
from farsteer.hub.store.sqlite import rewinds, visible
from farsteer.hub.store.sqlite import usage as usage_table
from farsteer.hub.store.sqlite.sessions import CREATING, LIVE, Shown, find, write_state
from farsteer.hub.store.sqlite.transaction import Transaction
from farsteer.link.messages import EncodedEntry

MAX_PAGE_BYTES = 16 * 1024 * 1024
"""A page ends early rather than hold more than this and one entry."""

MAX_SCAN = 50_000
"""How many rows of the feed one page looks at, so that a filter that matches little holds no reader up."""

_HOUSEKEEPING = frozenset(
    {
        "status_update", "launch_start", "launch_end", "mode_update", "title_update", "commands_update",
        "usage_update", "notice",
    }
)  # fmt: skip
"""What happens to a session without anybody saying or doing something in it: it moves none in the list."""

_CONCERNS_US = frozenset({"queue_update", "approval_resolved", "rewound", usage_table.KIND})


def append(
    tx: Transaction,
    namespace: str,
    machine_id: str,
    session_id: str,
    items: Sequence[EncodedEntry],
    state: SessionState | None,
) -> AppendResult:
    row = tx.db.execute(
        "SELECT phase, seq, state FROM sessions WHERE id = ? AND namespace = ? AND machine_id = ?",
        (session_id, namespace, machine_id),
    ).fetchone()
    if row is None or row[0] not in (LIVE, CREATING):
        return AppendResult(AppendStatus.UNKNOWN if row is None else AppendStatus.DELETED)
    phase, held, old = row
    news = _news(items, held)
    if news is None:
        return AppendResult(AppendStatus.GAP, held)
    notes = [decode_entry(bytes(item.body)) for item in news if item.kind in _CONCERNS_US]
    after = held + len(news)
    if state is not None:
        state = without_attachment_data(state) if state.seq == after and state.id == session_id else None
    body = None if state is None else encode(state)
    if body == old:
        state = body = None
    if not news and state is None:
        return AppendResult(AppendStatus.STORED, held)
    entries = [(item.seq, item.body) for item in news]
    if phase == CREATING:
        tx.db.executemany(
            "INSERT INTO held (session_id, seq, body) VALUES (?, ?, ?)",
            [(session_id, seq, entry) for seq, entry in entries],
        )
    elif entries:
        tx.tell_messages(namespace, session_id, entries)
    _note(tx, session_id, notes)
    if phase == LIVE:
        usage_table.note(tx, namespace, machine_id, session_id, notes, state or old)
    lived = any(item.kind not in _HOUSEKEEPING for item in news)
    if state is None:
        tx.db.execute(
            "UPDATE sessions SET seq = ?, updated_at = iif(?, ?, updated_at) WHERE id = ?",
            (after, lived, tx.now, session_id),
        )
    else:
        shown = write_state(tx, session_id, after, state, body, lived=lived)
        if phase == LIVE:
            _tell_change(tx, namespace, session_id, decode(old, SessionState), state, after, shown)
    return AppendResult(AppendStatus.STORED, after, len(news))


def _news(items: Sequence[EncodedEntry], held: int) -> Sequence[EncodedEntry] | None:
    """The items we do not have yet; None if they do not continue what we have."""
    if not items:
        return items
    first = items[0].seq
    if any(item.seq != seq for seq, item in enumerate(items, first)) or first > held + 1 or first < 1:
        return None
    return items[held + 1 - first :]


def _note(tx: Transaction, session_id: str, notes: Iterable[Entry]) -> None:
    """What the hub itself keeps of the log: the states of messages, how approvals ended, what is hidden."""
    for entry in notes:
        note = entry.content
        if isinstance(note, QueueUpdate):
            item_table.follow(tx, session_id, note)
        elif isinstance(note, ApprovalResolved):
            tx.db.execute(
                "INSERT OR REPLACE INTO resolved (session_id, approval_id, outcome, by) VALUES (?, ?, ?, ?)",
                (session_id, note.approval_id, note.outcome.value, note.by),
            )
        elif isinstance(note, Rewound):
            rewinds.follow(tx, session_id, note, entry.seq)


def _tell_change(
    tx: Transaction, namespace: str, session_id: str, old: SessionState, new: SessionState, seq: int,
    shown: Shown,
) -> None:  # fmt: skip
    changes = changed_fields(old, new)
    if old.queue != new.queue:
        changes["queue"] = combined_queue(new, item_table.accepted(tx.db, session_id))
    rewound = old.last_message is not None and new.last_message is None
    if changes or rewound:
        changes |= {"seq": seq, "updatedAt": shown.updated_at, "lastMessage": shown.last_message}
        tx.tell(namespace, "session-updated", session_id, encode_update(changes))


def page(
    db: sqlite3.Connection,
    namespace: str,
    session_id: str,
    *,
    limit: int,
    before: int | None,
    after: int | None,
) -> LogPage:
    seq, cleared, copied = find(db, namespace, session_id, "seq, cleared_seq, copied")
    low = min(max(after or 0, cleared), seq)
    high = seq + 1 if before is None else max(0, min(before, seq + 1))
    read = visible.newest_rows if after is None else visible.oldest_rows
    rows: list[tuple[int, bytes]] = []
    size = 0
    for row in islice(read(db, session_id, copied, low, high), limit):
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
        has_older=visible.any_between(db, session_id, cleared, first),
        has_newer=visible.any_between(db, session_id, last, seq + 1),
    )


def clear(tx: Transaction, namespace: str, session_id: str, keep: int) -> MessagesCleared:
    """Hide all but the newest `keep` of what is visible."""
    seq, cleared = find(tx.db, namespace, session_id, "seq, cleared_seq")
    upto = visible.place_of(tx.db, session_id, cleared, seq + 1, keep)
    gone = visible.count(tx.db, session_id, cleared, upto + 1)
    remaining = visible.count(tx.db, session_id, upto, seq + 1)
    if gone:
        tx.db.execute("UPDATE sessions SET cleared_seq = ? WHERE id = ?", (upto, session_id))
        data = encode({"clearedSeq": upto, "remaining": remaining})
        tx.tell(namespace, "messages-cleared", session_id, data)
    return MessagesCleared(cleared=gone, remaining=remaining)


def read_feed(
    db: sqlite3.Connection,
    epoch: str,
    namespace: str,
    cursor: int,
    *,
    session_id: str | None,
    types: Collection[str] | None,
    limit: int,
) -> FeedPage:
    highest = bounds(db).highest
    end = min(cursor + MAX_SCAN, highest)
    # The unary plus keeps SQLite from sorting all rows of a session instead of reading on from the cursor.
    where, values = ["cursor > ?", "cursor <= ?", "namespace = ?"], [cursor, end, namespace]
    if session_id is not None:
        where.append("+subject = ?")
        values.append(session_id)
    if types is not None:
        where.append(f"type IN ({', '.join('?' * len(types))})")
        values += types
    events: list[SyncEvent] = []
    size = 0
    found = db.execute(
        f"SELECT cursor, type, subject, body FROM log WHERE {' AND '.join(where)} ORDER BY cursor LIMIT ?",  # noqa: S608
        (*values, limit),
    )
    for place, type, about, body in found:
        events.append(sync_event(namespace, type, about, body, epoch=epoch, cursor=place))
        size += len(events[-1].data)
        if len(events) == limit or size > MAX_PAGE_BYTES:
            return FeedPage(events, next=place, more=place < highest)
    return FeedPage(events, next=max(cursor, end), more=end < highest)


def bounds(db: sqlite3.Connection) -> FeedBounds:
    return FeedBounds(lowest=0, highest=db.execute("SELECT max(cursor) FROM log").fetchone()[0] or 0)
