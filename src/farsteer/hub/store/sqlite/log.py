"""Writing the `log` table, which is both the feed and the logs of all sessions, and reading the feed."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing

from msgspec.structs import replace

from farsteer.core.events import ApprovalResolved, QueueUpdate, Rewound, SlashCommand, UsageUpdate
from farsteer.core.session import SessionState
from farsteer.core.wire import encode
from farsteer.hub.feed import SyncEvent, sync_event
from farsteer.hub.rules.log import AppendPlan, AppendResult, StoredLog, plan_append
from farsteer.hub.rules.session import SessionPhase
from farsteer.hub.rules.view import encode_state_change
from farsteer.hub.store.base import FeedBounds, FeedPage
from farsteer.hub.store.sqlite import commands, items, usage
from farsteer.hub.store.sqlite import entries as entry_rows
from farsteer.hub.store.sqlite.checks import check_payload
from farsteer.hub.store.sqlite.sessions import write_state
from farsteer.hub.store.sqlite.transaction import Transaction, last_cursor
from farsteer.link.messages import EncodedEntry
from farsteer.storage.quarantine import decode_row

MAX_SCAN = 50_000
"""How many rows of the feed one page reads at most, so that a filter that matches little does not block a reader."""


def append(
    tx: Transaction,
    namespace: str,
    machine_id: str,
    session_id: str,
    entries: Sequence[EncodedEntry],
    state: SessionState | None,
    *,
    keeps_commands: bool,
) -> AppendResult:
    row = tx.db.execute(
        "SELECT phase, seq, state FROM sessions WHERE id = ? AND namespace = ? AND machine_id = ?",
        (session_id, namespace, machine_id),
    ).fetchone()
    stored = None if row is None else StoredLog(SessionPhase(row[0]), row[1], row[2] or b"")
    plan = plan_append(session_id, stored, entries, state, keeps_commands=keeps_commands)
    if stored is None or not (plan.entries or plan.state or plan.commands is not None):
        return plan.result
    new = [(entry.seq, entry.body) for entry in plan.entries]
    if stored.phase is SessionPhase.CREATING:
        tx.db.executemany(
            "INSERT INTO held (session_id, seq, body) VALUES (?, ?, ?)",
            [(session_id, seq, body) for seq, body in new],
        )
    elif new:
        tx.publish_entries(namespace, session_id, new)
    for entry in plan.recorded:
        event = entry.content
        if isinstance(event, QueueUpdate):
            items.record_update(tx, session_id, event)
        elif isinstance(event, ApprovalResolved):
            _record_resolution(tx, session_id, event)
        elif isinstance(event, Rewound):
            entry_rows.record_rewind(tx, session_id, event, entry.seq)
        elif isinstance(event, UsageUpdate) and stored.phase is SessionPhase.LIVE:
            known = plan.state or _decode_state(session_id, stored)
            usage.record(tx.db, (namespace, session_id, machine_id), entry, known, tx.now)
    _write_session(tx, namespace, session_id, stored, plan)
    return plan.result


def _record_resolution(tx: Transaction, session_id: str, resolved: ApprovalResolved) -> None:
    tx.db.execute(
        "INSERT OR REPLACE INTO resolved (session_id, approval_id, outcome, by, identity) VALUES (?, ?, ?, ?, ?)",
        (
            session_id,
            resolved.approval_id,
            resolved.outcome.value,
            resolved.by,
            None if resolved.identity is None else encode(resolved.identity),
        ),
    )


def _write_session(
    tx: Transaction, namespace: str, session_id: str, stored: StoredLog, plan: AppendPlan
) -> None:
    last_seq = plan.result.last_seq
    old_commands = _write_commands(tx.db, session_id, plan)
    if plan.state is None and old_commands is None:
        tx.db.execute(
            "UPDATE sessions SET seq = ?, updated_at = iif(?, ?, updated_at) WHERE id = ?",
            (last_seq, plan.is_activity, tx.now, session_id),
        )
        return
    new = plan.state or _decode_state(session_id, stored)
    written = write_state(tx, session_id, last_seq, new, plan.encoded_state, is_activity=plan.is_activity)
    if stored.phase is not SessionPhase.LIVE:
        return
    old = _decode_state(session_id, stored)
    if old_commands is not None and plan.commands is not None:
        old, new = replace(old, commands=old_commands), replace(new, commands=plan.commands)
    change = encode_state_change(
        old,
        new,
        items.read_short_queue(tx.db, session_id, new.queue) if old.queue != new.queue else None,
        seq=last_seq,
        updated_at=written.updated_at,
        last_message=written.last_message,
    )
    if change is not None:
        tx.publish(namespace, "session-updated", session_id, change)


def _write_commands(
    db: sqlite3.Connection, session_id: str, plan: AppendPlan
) -> tuple[SlashCommand, ...] | None:
    """Write the commands if they differ from the stored ones. Return the old ones in that case."""
    if plan.commands is None:
        return None
    old = commands.read(db, session_id)
    if plan.commands == old:
        return None
    commands.write(db, session_id, plan.commands)
    return old


def _decode_state(session_id: str, stored: StoredLog) -> SessionState:
    return decode_row(stored.state, SessionState, "sessions", session_id, session_id)


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
    highest = last_cursor(db)
    end = min(cursor + MAX_SCAN, highest)
    # The unary plus keeps SQLite from sorting all rows of a session instead of reading on from the cursor.
    query = "SELECT cursor, type, subject, body FROM log WHERE cursor > ? AND cursor <= ? AND namespace = ?"
    values: list[object] = [cursor, end, namespace]
    if session_id is not None:
        query += " AND +subject = ?"
        values.append(session_id)
    if types is not None:
        query += f" AND type IN ({', '.join('?' * len(types))})"
        values += types
    events: list[SyncEvent] = []
    size = 0
    with closing(db.execute(query + " ORDER BY cursor LIMIT ?", (*values, limit))) as rows:
        for position, type, subject, body in rows:
            payload = check_payload(body, type, position, subject)
            events.append(sync_event(namespace, type, subject, payload, epoch=epoch, cursor=position))
            size += len(events[-1].data)
            if len(events) == limit or size > entry_rows.MAX_PAGE_BYTES:
                return FeedPage(events, next=position, more=position < highest)
    return FeedPage(events, next=max(cursor, end), more=end < highest)


def bounds(db: sqlite3.Connection) -> FeedBounds:
    """Nothing is removed from the start of the feed, so every cursor up to the last one can be resumed from."""
    return FeedBounds(lowest=0, highest=last_cursor(db))
