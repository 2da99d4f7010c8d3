"""The `usage` table: what was spent, a row for each session, turn, model and day.

It only grows: neither a rewind nor a cleared history takes anything back. A deleted session's rows stay without its
id: what it spent was spent, by a session that nobody can name any more. What an adopted or forked conversation used
before it was this session is not counted: it was counted, or not, where it was spent.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from farsteer.core.api import UsageGroup, UsageGrouping, UsageResponse, UsageTotal
from farsteer.core.events import Entry, UsageUpdate, decode_entry
from farsteer.core.session import SessionState
from farsteer.core.wire import decode
from farsteer.hub.store.base import UsageFilter
from farsteer.hub.store.sqlite.sessions import find
from farsteer.hub.store.sqlite.transaction import Transaction

KIND = "usage_update"

_MOST_TOKENS = 2**40
_MOST_DOLLARS = 1e6
"""In one update. More is an agent's mistake, and must neither stop its log nor make every sum useless."""
_NAME_CHARS = 200

# Several rows with no session do not collide: NULL is no value. `n` orders turns by when they first spent something;
# `turns` is 1 in the first row of a turn and `model_turns` in its first of a model, so that counting them is adding.
TABLE = """
    CREATE TABLE usage (
        n INTEGER PRIMARY KEY,
        namespace TEXT NOT NULL,
        session_id TEXT,
        turn_id TEXT NOT NULL,
        model TEXT NOT NULL,
        day TEXT NOT NULL,
        agent TEXT NOT NULL,
        machine_id TEXT NOT NULL,
        turns INTEGER NOT NULL,
        model_turns INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        cache_read_tokens INTEGER NOT NULL,
        cache_write_tokens INTEGER NOT NULL,
        cost_usd REAL NOT NULL,
        UNIQUE (session_id, turn_id, model, day)
    );
    CREATE INDEX usage_by_day ON usage (namespace, day);
"""

_ADD = """
    INSERT INTO usage (
        namespace, session_id, machine_id, turn_id, model, day, agent, turns, model_turns,
        input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd
    ) VALUES (
        :namespace, :session, :machine, :turn, :model, :day, :agent,
        :turn != '' AND NOT EXISTS (SELECT 1 FROM usage WHERE session_id = :session AND turn_id = :turn),
        :turn != '' AND NOT EXISTS (
            SELECT 1 FROM usage WHERE session_id = :session AND turn_id = :turn AND model = :model
        ),
        :input, :output, :read, :written, :cost
    ) ON CONFLICT (session_id, turn_id, model, day) DO UPDATE SET
        input_tokens = input_tokens + excluded.input_tokens,
        output_tokens = output_tokens + excluded.output_tokens,
        cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
        cost_usd = cost_usd + excluded.cost_usd
"""

_SUMS = (
    "sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(cost_usd)"
)
_KEYS = {
    "day": "day",
    "model": "nullif(model, '')",
    "session": "session_id",
    "agent": "agent",
    "machine": "machine_id",
    "turn": "nullif(turn_id, '')",
}
_NEWEST = {"day": "key DESC", "turn": "max(n) DESC"}
_DEAREST = (
    "sum(cost_usd) DESC, sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) DESC, key"
)


def install(db: sqlite3.Connection) -> None:
    """Make the table, and count what the logs of an older version hold."""
    for statement in TABLE.split(";"):
        db.execute(statement)
    rows = db.execute(
        "SELECT l.namespace, s.machine_id, s.id, s.state, l.body FROM log AS l JOIN sessions AS s ON s.id = l.subject"
        " WHERE l.type = 'message-received' AND s.phase = 'live' AND instr(l.body, CAST(? AS BLOB)) > 0"
        " ORDER BY l.cursor",
        (f'"kind":"{KIND}"',),
    )
    for namespace, machine_id, session_id, state, body in rows.fetchall():
        entry = decode_entry(body)
        whose = (namespace, session_id, machine_id)
        _add(db, whose, decode(state, SessionState), entry, entry.created_at)


def note(
    tx: Transaction,
    namespace: str,
    machine_id: str,
    session_id: str,
    entries: Iterable[Entry],
    state: SessionState | bytes,
) -> None:
    """Count the updates among `entries` of a session that is there, in the transaction that stores them."""
    for entry in entries:
        if isinstance(entry.content, UsageUpdate):
            if isinstance(state, bytes):
                state = decode(state, SessionState)
            _add(tx.db, (namespace, session_id, machine_id), state, entry, tx.now)


def _add(
    db: sqlite3.Connection, whose: tuple[str, str, str], state: SessionState, entry: Entry, now: int
) -> None:
    used = entry.content
    if not isinstance(used, UsageUpdate):
        return
    tokens = {
        name: min(max(count, 0), _MOST_TOKENS)
        for name, count in (
            ("input", used.input_tokens),
            ("output", used.output_tokens),
            ("read", used.cache_read_tokens),
            ("written", used.cache_write_tokens),
        )
    }
    cost = used.cost_usd or 0.0
    if not 0 <= cost <= _MOST_DOLLARS:
        cost = 0.0
    if not any(tokens.values()) and not cost:
        return  # it says how full the context is, and no more
    # A machine's clock may be wrong, but nothing is spent tomorrow.
    at = min(max(entry.created_at, 0), now)
    day = datetime.fromtimestamp(at / 1000, UTC).date().isoformat()
    model = used.model or state.model or ""
    namespace, session_id, machine_id = whose
    row = {
        "namespace": namespace, "session": session_id, "machine": machine_id, "agent": state.agent, "day": day,
        "turn": (used.turn_id or "")[:_NAME_CHARS], "model": model[:_NAME_CHARS], "cost": cost, **tokens,
    }  # fmt: skip
    db.execute(_ADD, row)


def report(
    db: sqlite3.Connection, namespace: str, where: UsageFilter, group_by: UsageGrouping, limit: int
) -> UsageResponse:
    """Sums by `group_by`, at most `limit` of them, and of everything."""
    conditions, values = ["namespace = ?"], [namespace]
    if where.session_id is not None:
        find(db, namespace, where.session_id, "id")
        # The unary plus keeps SQLite from walking over everybody's days.
        conditions = ["+namespace = ?", "session_id = ?"]
        values.append(where.session_id)
    if where.first_day is not None:
        conditions.append("day >= ?")
        values.append(where.first_day)
    if where.last_day is not None:
        conditions.append("day <= ?")
        values.append(where.last_day)
    chosen = f"FROM usage WHERE {' AND '.join(conditions)}"
    turns = "model_turns" if group_by == "model" else "turns"
    rows = db.execute(
        f"SELECT {_KEYS[group_by]} AS key, sum({turns}), sum(turns), {_SUMS} {chosen} GROUP BY 1"
        f" ORDER BY {_NEWEST.get(group_by, _DEAREST)} LIMIT ?",
        (*values, limit + 1),
    ).fetchall()
    truncated = len(rows) > limit
    if truncated:
        whole = db.execute(f"SELECT sum(turns), {_SUMS} {chosen}", values).fetchone()
    else:
        whole = [sum(column) for column in zip(*(row[2:] for row in rows), strict=True)] or [0] * 6
    groups = [UsageGroup(key, *_rounded([shown, *sums])) for key, shown, _, *sums in rows[:limit]]
    return UsageResponse(groups, UsageTotal(*_rounded(whole)), truncated)


def _rounded(sums: Sequence[float]) -> tuple[int, int, int, int, int, float]:
    """A sum of fractions of a cent has no use for its last binary digits."""
    turns, *tokens, cost = sums
    return (int(turns), *map(int, tokens), round(cost, 9))  # pyright: ignore[reportReturnType]
