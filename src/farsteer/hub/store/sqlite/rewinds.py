"""Rewinds in the store: where one would cut, and what is left to be seen after it."""

from __future__ import annotations

import sqlite3
from itertools import islice

from farsteer.core import events as ev
from farsteer.core.errors import NotFound
from farsteer.core.events import Entry, decode_entry
from farsteer.core.queue import REWIND_REASON, ItemState
from farsteer.core.session import SessionState, apply
from farsteer.hub.store.base import RewindPoint, RewindResult
from farsteer.hub.store.sqlite import visible
from farsteer.hub.store.sqlite.sessions import find
from farsteer.hub.store.sqlite.transaction import Transaction

_ANCHOR = b'"anchor":'
_ANSWER = b'"kind":"agent_message"'
_MESSAGES = (b'"kind":"user_message"', _ANSWER)
_CANCELLED = b'"kind":"queue_update"'
_LOOK_BACK = 1000
"""How far the last message before a cut is looked for."""


def place(db: sqlite3.Connection, namespace: str, session_id: str, seq: int) -> RewindPoint:
    held, cleared, copied = find(db, namespace, session_id, "seq, cleared_seq, copied")
    if not cleared < seq <= held or visible.hidden(db, session_id, seq):
        raise NotFound(f"there is no entry {seq} in this conversation")
    entry = _entry(db, session_id, copied, seq)
    first = _begins_at(db, session_id, copied, entry)
    anchor, answered = last_said(db, session_id, copied, first)
    return RewindPoint(entry, first, anchor, answered, held)


def last_said(db: sqlite3.Connection, session_id: str, copied: int, before: int) -> tuple[str | None, bool]:
    """The last thing the agent said before, by its own name for it, and whether it has said anything whole.

    One answer is often several messages, thinking first and text last, so the last name counts. What was cleared the
    agent still knows; what was rewound it does not. Older versions kept no names.
    """
    answered = False
    for _, body in visible.newest_rows(db, session_id, copied, 0, before):
        if _ANCHOR in body or (not answered and _ANSWER in body):
            said = decode_entry(body).content
            if isinstance(said, ev.AgentMessage | ev.AgentThought) and said.anchor is not None:
                return said.anchor, True
            answered = answered or (isinstance(said, ev.AgentMessage) and not said.partial)
    return None, answered


def follow(tx: Transaction, session_id: str, rewound: ev.Rewound, seq: int) -> None:
    """The log says that it was rewound: hide what that removed."""
    visible.cut(tx, session_id, rewound.first_seq, seq - 1)
    copied, cleared = tx.db.execute(
        "SELECT copied, cleared_seq FROM sessions WHERE id = ?", (session_id,)
    ).fetchone()
    last = _last_message(tx.db, session_id, copied, cleared, rewound.first_seq)
    tx.db.execute("UPDATE sessions SET last_message = ? WHERE id = ?", (last, session_id))


def result(
    db: sqlite3.Connection, namespace: str, session_id: str, first_seq: int, since: int
) -> RewindResult:
    """What a rewind came to that began when the log had `since` entries."""
    (copied,) = find(db, namespace, session_id, "copied")
    cut = visible.hidden(db, session_id, first_seq)
    if cut is None:
        raise NotFound("the conversation was not rewound")
    cancelled: list[str] = []
    for _, body in visible.rows(db, session_id, copied, (since + 1, cut[1])):
        if _CANCELLED in body:
            update = decode_entry(body).content
            if (
                isinstance(update, ev.QueueUpdate)
                and update.state is ItemState.CANCELLED
                and update.reason == REWIND_REASON
            ):
                cancelled.append(update.item_id)
    return RewindResult(seq=cut[1] + 1, cancelled=cancelled)


def shown_text(event: ev.SessionEvent) -> str | None:
    """The message as a list of sessions shows it."""
    return apply(_NOBODY, event).last_message


_NOBODY = SessionState(id="", agent="", directory="")


def _entry(db: sqlite3.Connection, session_id: str, copied: int, seq: int) -> Entry:
    for _, body in visible.rows(db, session_id, copied, (seq, seq)):
        return decode_entry(body)
    raise NotFound(f"there is no entry {seq} in this conversation")


def _begins_at(db: sqlite3.Connection, session_id: str, copied: int, entry: Entry) -> int:
    """Where the entry's turn begins, if it is what began it."""
    message = entry.content
    if isinstance(message, ev.UserMessage) and entry.seq > 1:
        if visible.hidden(db, session_id, entry.seq - 1):
            return entry.seq
        before = _entry(db, session_id, copied, entry.seq - 1).content
        if isinstance(before, ev.TurnStart) and before.item_id == message.item_id:
            return entry.seq - 1
    return entry.seq


def _last_message(
    db: sqlite3.Connection, session_id: str, copied: int, cleared: int, before: int
) -> str | None:
    found = visible.newest_rows(db, session_id, copied, cleared, before)
    for _, body in islice(found, _LOOK_BACK):
        if any(kind in body for kind in _MESSAGES):
            text = shown_text(decode_entry(body).content)
            if text is not None:
                return text
    return None
