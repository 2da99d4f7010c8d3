"""What takes the place of a row that cannot be decoded: as much as other columns and tables still tell.

A session's state comes again from its runner, and so does the description of a machine. An entry becomes a notice that
says so, because a log has no gaps. A message that was lost before a runner had it fails.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from farsteer.core.capabilities import MachineInfo
from farsteer.core.events import Notice, SessionStatus, make_entry
from farsteer.core.queue import QueueItem, compact, summarize
from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import decode, encode
from farsteer.hub.feed import MESSAGE
from farsteer.hub.store.sqlite import commands, items
from farsteer.hub.store.sqlite.transaction import Transaction
from farsteer.storage.quarantine import DamagedRow, Quarantine

T = TypeVar("T")

MAX_REPAIRS = 100
"""How many damaged rows one operation may find."""

_SELECT_EVENT = "SELECT cursor, type, subject, seq, created_at FROM log WHERE"
_LOST_MESSAGE = "this message was damaged in hub.db and could not be delivered"


class Repairs:
    """Sets damaged rows of one database aside and replaces them."""

    def __init__(self, database: Path) -> None:
        self._quarantine = Quarantine(database)

    def replace(self, tx: Transaction, row: DamagedRow) -> None:
        self._quarantine.add(row)
        _REPAIRS[row.table](tx, row)

    def run(self, tx: Transaction, work: Callable[[Transaction], T], damaged: list[DamagedRow]) -> T:
        """Do `work`. If it finds damaged rows, do it again after their repair, until it finds no more.

        `damaged` is what an earlier attempt of this transaction found, and is added to.
        """
        before = tx.db.total_changes
        if not damaged:
            try:
                return work(tx)
            except DamagedRow as row:
                damaged.append(row)
                if tx.db.total_changes != before:
                    # The writer undoes what was written and begins again.
                    raise
        while True:
            tx.published.clear()
            tx.announced.clear()
            tx.db.execute("SAVEPOINT repairs")
            try:
                for row in damaged:
                    self.replace(tx, row)
                return work(tx)
            except DamagedRow as row:
                tx.db.execute("ROLLBACK TO repairs")
                if len(damaged) >= MAX_REPAIRS:
                    raise
                # The repair of an item may have found that its session is damaged too.
                damaged.insert(0, row)
            finally:
                tx.db.execute("RELEASE repairs")


def _repair_session(tx: Transaction, row: DamagedRow) -> None:
    [(machine_id, seq, status, agent, directory, title, last_message, spec, state)] = tx.db.execute(
        "SELECT machine_id, seq, status, agent, directory, title, last_message, spec, state FROM sessions WHERE id = ?",
        (row.key,),
    ).fetchall()
    id = str(row.key)
    if _is_damaged(spec, SessionSpec):
        spec = encode(SessionSpec(id=id, machine_id=machine_id, agent=agent, directory=directory or "/"))
    if _is_damaged(state, SessionState):
        known = SessionStatus(status or SessionStatus.STOPPED)
        state = encode(
            SessionState(
                id=id, agent=agent or "", directory=directory or "/", title=title, status=known, seq=seq,
                last_message=last_message,
            )
        )  # fmt: skip
    tx.db.execute("UPDATE sessions SET spec = ?, state = ?, pending = 0 WHERE id = ?", (spec, state, id))


def _repair_commands(tx: Transaction, row: DamagedRow) -> None:
    """The runner sends them again with the next state that has commands, at the latest over its next link."""
    commands.delete(tx.db, str(row.key))


def _repair_draft(tx: Transaction, row: DamagedRow) -> None:
    """Forget who has written it. The text is whole."""
    tx.db.execute("UPDATE drafts SET identity = NULL WHERE session_id = ?", (row.key,))


def _is_damaged(body: bytes | None, kind: type[object]) -> bool:
    if body is None:
        return False
    try:
        decode(body, kind)
    except (msgspec.DecodeError, TypeError):
        return True
    return False


def _repair_item(tx: Transaction, row: DamagedRow) -> None:
    """Restore the summary from the whole message. One that is nowhere whole fails, unless its runner has it."""
    [(id, local_id)] = tx.db.execute("SELECT id, local_id FROM items WHERE n = ?", (row.key,)).fetchall()
    found = tx.db.execute("SELECT body FROM item_bodies WHERE n = ?", (row.key,)).fetchone()
    if found is not None and not _is_damaged(found[0], QueueItem):
        item, is_lost = summarize(decode(found[0], QueueItem)), False
    else:
        item, is_lost = QueueItem(id=id, local_id=local_id, text=_LOST_MESSAGE, created_at=tx.now), True
    tx.db.execute("UPDATE items SET body = ? WHERE n = ?", (encode(compact(item)), row.key))
    if is_lost:
        items.fail(tx, str(row.session_id), id, _LOST_MESSAGE)


def _repair_item_body(tx: Transaction, row: DamagedRow) -> None:
    """The summary is left. That is not what was to be delivered."""
    [(id,)] = tx.db.execute("SELECT id FROM items WHERE n = ?", (row.key,)).fetchall()
    tx.db.execute("DELETE FROM item_bodies WHERE n = ?", (row.key,))
    items.fail(tx, str(row.session_id), id, _LOST_MESSAGE)


def _repair_log(tx: Transaction, row: DamagedRow) -> None:
    if isinstance(row.key, int):
        found = tx.db.execute(f"{_SELECT_EVENT} cursor = ?", (row.key,))
    else:
        found = tx.db.execute(f"{_SELECT_EVENT} subject = ? AND seq = ?", _place(row))
    [(cursor, type, session_id, seq, created_at)] = found.fetchall()
    body = _notice(session_id, seq, created_at) if type == MESSAGE else b"{}"
    tx.db.execute("UPDATE log SET body = ? WHERE cursor = ?", (body, cursor))


def _repair_copy(tx: Transaction, row: DamagedRow) -> None:
    session_id, seq = _place(row)
    body = _notice(session_id, seq, tx.now)
    tx.db.execute("UPDATE copies SET body = ? WHERE session_id = ? AND seq = ?", (body, session_id, seq))


def _place(row: DamagedRow) -> tuple[str, int]:
    session_id, _, seq = str(row.key).rpartition(":")
    return session_id, int(seq)


def _notice(session_id: str, seq: int, created_at: int) -> bytes:
    text = (
        "This entry was damaged in hub.db. What is left of it is in hub.damaged.jsonl, beside the database."
    )
    notice = Notice(text=text, level="error", code="entry_damaged")
    return encode(make_entry(session_id, seq, notice, created_at))


def _repair_machine(tx: Transaction, row: DamagedRow) -> None:
    info = MachineInfo(id=str(row.key), host="unknown", platform="unknown", version="unknown")
    tx.db.execute("UPDATE machines SET info = ? WHERE id = ?", (encode(info), row.key))


def _repair_resolution(tx: Transaction, row: DamagedRow) -> None:
    tx.db.execute(
        "UPDATE resolved SET identity = NULL WHERE session_id = ? AND approval_id = ?", (row.session_id, row.key)
    )  # fmt: skip


_REPAIRS: dict[str, Callable[[Transaction, DamagedRow], None]] = {
    "drafts": _repair_draft,
    "sessions": _repair_session,
    "items": _repair_item,
    "item_bodies": _repair_item_body,
    "log": _repair_log,
    "copies": _repair_copy,
    "commands": _repair_commands,
    "machines": _repair_machine,
    "resolved": _repair_resolution,
}
