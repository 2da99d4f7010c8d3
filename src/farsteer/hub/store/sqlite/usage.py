"""The `usage` table: what was used, a row for each session, turn, model and day.

It only grows: neither a rewind nor a cleared history takes anything back. The rows of a deleted session stay, without
its id. What a forked or imported conversation used before it became this session is not counted here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec.structs import asdict

from farsteer.core.api import UsageGroup, UsageGrouping, UsageResponse, UsageTotal
from farsteer.core.events import Entry, decode_entry
from farsteer.core.session import SessionState
from farsteer.core.wire import decode
from farsteer.hub.rules.usage import usage_record
from farsteer.hub.store.base import UsageFilter
from farsteer.hub.store.sqlite.sessions import find

# Several rows without a session do not collide: NULL differs from NULL. `n` orders turns by their first use. `turns` is
# 1 in the first row of a turn and `model_turns` in its first row of a model, so that turns are counted by adding.
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
        :namespace, :session_id, :machine_id, :turn_id, :model, :day, :agent,
        :turn_id != '' AND NOT EXISTS (SELECT 1 FROM usage WHERE session_id = :session_id AND turn_id = :turn_id),
        :turn_id != '' AND NOT EXISTS (
            SELECT 1 FROM usage WHERE session_id = :session_id AND turn_id = :turn_id AND model = :model
        ),
        :input_tokens, :output_tokens, :cache_read_tokens, :cache_write_tokens, :cost_usd
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
_MOST_EXPENSIVE = (
    "sum(cost_usd) DESC, sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) DESC, key"
)


def install(db: sqlite3.Connection) -> None:
    """Create the table, and count what the logs written by an older version contain."""
    for statement in TABLE.split(";"):
        db.execute(statement)
    rows = db.execute(
        "SELECT l.namespace, s.id, s.machine_id, s.state, l.body FROM log AS l JOIN sessions AS s ON s.id = l.subject"
        " WHERE l.type = 'message-received' AND s.phase = 'live'"
        ' AND instr(l.body, CAST(\'"kind":"usage_update"\' AS BLOB)) > 0 ORDER BY l.cursor'
    )
    for namespace, session_id, machine_id, state, body in rows.fetchall():
        entry = decode_entry(body)
        owner = (namespace, session_id, machine_id)
        record(db, owner, entry, decode(state, SessionState), entry.created_at)


def record(
    db: sqlite3.Connection, owner: tuple[str, str, str], entry: Entry, state: SessionState, now: int
) -> None:
    """Add what an entry used. `owner` is namespace, session and machine."""
    used = usage_record(entry, state, now)
    if used is not None:
        namespace, session_id, machine_id = owner
        db.execute(
            _ADD,
            {"namespace": namespace, "session_id": session_id, "machine_id": machine_id, **asdict(used)},
        )


def report(
    db: sqlite3.Connection, namespace: str, where: UsageFilter, group_by: UsageGrouping, limit: int
) -> UsageResponse:
    """Return the sums of at most `limit` groups, and the total of all."""
    conditions, values = ["namespace = ?"], [namespace]
    if where.session_id is not None:
        find(db, namespace, where.session_id)
        # The unary plus makes SQLite use the index by session instead of the one by day.
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
        f" ORDER BY {_NEWEST.get(group_by, _MOST_EXPENSIVE)} LIMIT ?",
        (*values, limit + 1),
    ).fetchall()
    truncated = len(rows) > limit
    if truncated:
        total = db.execute(f"SELECT sum(turns), {_SUMS} {chosen}", values).fetchone()
    else:
        total = [sum(column) for column in zip(*(row[2:] for row in rows), strict=True)] or [0] * 6
    groups = [UsageGroup(key, *_rounded([shown, *sums])) for key, shown, _, *sums in rows[:limit]]
    return UsageResponse(groups, UsageTotal(*_rounded(total)), truncated)


def _rounded(sums: Sequence[float]) -> tuple[int, int, int, int, int, float]:
    """Round the cost: the last digits of a sum of floats mean nothing."""
    turns, input_tokens, output_tokens, cache_read, cache_write, cost = sums
    return (
        int(turns),
        int(input_tokens),
        int(output_tokens),
        int(cache_read),
        int(cache_write),
        round(cost, 9),
    )
