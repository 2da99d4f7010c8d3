"""The `machines` table. `active` is true to the links of this process: it is reset when the store is opened."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from typing import Any

from farsteer.core.api import MachineView
from farsteer.core.capabilities import MachineInfo
from farsteer.core.errors import ErrorCode, Forbidden, NotFound
from farsteer.core.events import SessionStatus
from farsteer.core.wire import decode, encode
from farsteer.hub.rules.view import encode_update, status_fields
from farsteer.hub.store.base import ConnectedMachine
from farsteer.hub.store.sqlite.transaction import Transaction

_log = logging.getLogger(__name__)

_SELECT = "SELECT id, active, active_at, created_at, info FROM machines"


def connect(
    tx: Transaction, namespace: str, machine: MachineInfo, sessions: Mapping[str, int]
) -> ConnectedMachine:
    row = tx.db.execute("SELECT namespace, active FROM machines WHERE id = ?", (machine.id,)).fetchone()
    if row is not None and row[0] != namespace:
        raise Forbidden("this machine id is taken")
    tx.db.execute(
        "INSERT INTO machines (id, namespace, active, active_at, created_at, info) VALUES (?, ?, 1, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET active = 1, active_at = excluded.active_at, info = excluded.info",
        (machine.id, namespace, tx.now, tx.now, encode(machine)),
    )
    _tell(tx, namespace, machine.id)
    if row is None or not row[1]:
        _tell_sessions(tx, namespace, machine.id, reachable=True)
    rows = tx.db.execute(
        "SELECT id, seq, phase IN ('live', 'creating') FROM sessions WHERE machine_id = ? AND namespace = ?",
        (machine.id, namespace),
    ).fetchall()
    held = {id: seq for id, seq, there in rows if there}
    known = {id for id, _, _ in rows}
    strangers = [id for id in sessions if id not in known]
    if strangers:
        _log.warning(
            "machine %s has %d sessions that this hub has never heard of; they are left alone",
            machine.id,
            len(strangers),
        )
    for id, seq in sessions.items():
        if seq < held.get(id, 0):
            # As after a kill: what we confirm soon is not written down there (docs/architecture.md).
            _log.warning(
                "session %s: its machine gave %d events and we hold %d; was it killed, or set back?",
                id, seq, held[id],
            )  # fmt: skip
    return ConnectedMachine(
        stored_seqs={id: held[id] for id in sessions if id in held},
        deleted=[id for id in sessions if id in known and id not in held],
        unknown=strangers,
    )


def disconnect(tx: Transaction, namespace: str, machine_id: str) -> None:
    changed = tx.db.execute(
        "UPDATE machines SET active = 0, active_at = ? WHERE id = ? AND namespace = ? AND active = 1",
        (tx.now, machine_id, namespace),
    ).rowcount
    if changed:
        _tell(tx, namespace, machine_id)
        _tell_sessions(tx, namespace, machine_id, reachable=False)


def disconnect_all(tx: Transaction) -> None:
    """A former life of the hub ended without saying so."""
    for id, namespace in tx.db.execute("SELECT id, namespace FROM machines WHERE active = 1").fetchall():
        disconnect(tx, namespace, id)


def select(db: sqlite3.Connection, namespace: str) -> list[MachineView]:
    """Active ones first."""
    rows = db.execute(f"{_SELECT} WHERE namespace = ? ORDER BY active DESC, active_at DESC, id", (namespace,))
    return [_view(row) for row in rows]


def read(db: sqlite3.Connection, namespace: str, machine_id: str) -> MachineView:
    row = db.execute(f"{_SELECT} WHERE id = ? AND namespace = ?", (machine_id, namespace)).fetchone()
    if row is None:
        raise NotFound("no such machine", code=ErrorCode.MACHINE_NOT_FOUND)
    return _view(row)


def _view(row: tuple[Any, ...]) -> MachineView:
    id, active, active_at, created_at, info = row
    machine = decode(info, MachineInfo)
    return MachineView(
        id=id,
        active=bool(active),
        active_at=active_at,
        created_at=created_at,
        host=machine.host,
        platform=machine.platform,
        version=machine.version,
        name=machine.name,
        agents=machine.agents,
        roots=machine.roots,
    )


def _tell(tx: Transaction, namespace: str, machine_id: str) -> None:
    tx.tell_latest(namespace, "machine-updated", machine_id, encode(read(tx.db, namespace, machine_id)))


def _tell_sessions(tx: Transaction, namespace: str, machine_id: str, *, reachable: bool) -> None:
    rows = tx.db.execute(
        "SELECT id, status FROM sessions WHERE machine_id = ? AND namespace = ? AND phase = 'live'",
        (machine_id, namespace),
    ).fetchall()
    for id, status in rows:
        shown = SessionStatus(status) if reachable else SessionStatus.UNREACHABLE
        tx.tell_latest(namespace, "session-updated", id, encode_update(status_fields(shown)))
