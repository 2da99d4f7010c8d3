"""The `machines` table. `active` says whether a machine has a link to this process; opening the store resets it."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from typing import Any

from farsteer.core.api import MachineView
from farsteer.core.capabilities import MachineInfo
from farsteer.core.errors import Conflict, ErrorCode, Forbidden, NotFound
from farsteer.core.events import SessionStatus
from farsteer.core.wire import decode, encode
from farsteer.hub.rules.quota import check_quota
from farsteer.hub.rules.session import ConnectedMachine, SessionPhase, compare_sessions
from farsteer.hub.rules.view import encode_status_change
from farsteer.hub.store.sqlite.transaction import Transaction

_logger = logging.getLogger(__name__)

_SELECT = "SELECT id, active, active_at, created_at, info FROM machines"


def enrol(tx: Transaction, namespace: str, machine: MachineInfo, key: bytes, limit: int | None) -> None:
    row = tx.db.execute("SELECT namespace, key FROM machines WHERE id = ?", (machine.id,)).fetchone()
    if row is None:
        check_quota("machines", count(tx.db, namespace), limit)
        tx.db.execute(
            "INSERT INTO machines (id, namespace, active, active_at, created_at, info, key)"
            " VALUES (?, ?, 0, ?, ?, ?, ?)",
            (machine.id, namespace, tx.now, tx.now, encode(machine), key),
        )
    elif row[0] != namespace or row[1] not in (None, key):
        raise Forbidden(
            f"the hub knows machine {machine.id} by another key. If the machine was reinstalled, remove it with"
            f" DELETE /api/machines/{machine.id} and let it connect again. If this is another machine, remove"
            " machine-id and machine.key from its home directory, so that it gets an identity of its own"
        )
    elif row[1] is None:
        tx.db.execute("UPDATE machines SET key = ? WHERE id = ?", (key, machine.id))


def remove(tx: Transaction, namespace: str, machine_id: str) -> None:
    if read(tx.db, namespace, machine_id).active:
        raise Conflict("this machine is connected: stop its runner first")
    left = tx.db.execute(
        "SELECT count(*) FROM sessions WHERE machine_id = ? AND namespace = ? AND phase IN ('live', 'creating')",
        (machine_id, namespace),
    ).fetchone()[0]
    if left:
        raise Conflict(
            f"this machine has {left} sessions: delete them, or remove it with ?sessions=delete",
            sessions=left,
        )
    tx.db.execute("DELETE FROM machines WHERE id = ?", (machine_id,))
    tx.publish_latest(namespace, "machine-removed", machine_id, None)


def count(db: sqlite3.Connection, namespace: str) -> int:
    return db.execute("SELECT count(*) FROM machines WHERE namespace = ?", (namespace,)).fetchone()[0]


def connect(
    tx: Transaction, namespace: str, machine: MachineInfo, sessions: Mapping[str, int]
) -> ConnectedMachine:
    was_active = read(tx.db, namespace, machine.id).active
    tx.db.execute(
        "UPDATE machines SET active = 1, active_at = ?, info = ? WHERE id = ?",
        (tx.now, encode(machine), machine.id),
    )
    _publish_machine(tx, namespace, machine.id)
    if not was_active:
        _publish_sessions(tx, namespace, machine.id, reachable=True)
    rows = tx.db.execute(
        "SELECT id, phase, seq FROM sessions WHERE machine_id = ? AND namespace = ?", (machine.id, namespace)
    )
    connected = compare_sessions(sessions, {id: (SessionPhase(phase), seq) for id, phase, seq in rows})
    _log_differences(machine.id, sessions, connected)
    return connected


def disconnect(tx: Transaction, namespace: str, machine_id: str) -> None:
    changed = tx.db.execute(
        "UPDATE machines SET active = 0, active_at = ? WHERE id = ? AND namespace = ? AND active = 1",
        (tx.now, machine_id, namespace),
    ).rowcount
    if changed:
        _publish_machine(tx, namespace, machine_id)
        _publish_sessions(tx, namespace, machine_id, reachable=False)


def recover(tx: Transaction) -> None:
    """Disconnect the machines that an earlier run of the hub left active."""
    for id, namespace in tx.db.execute("SELECT id, namespace FROM machines WHERE active = 1").fetchall():
        disconnect(tx, namespace, id)


def select(db: sqlite3.Connection, namespace: str) -> list[MachineView]:
    rows = db.execute(f"{_SELECT} WHERE namespace = ? ORDER BY active DESC, active_at DESC, id", (namespace,))
    return [_machine_view(row) for row in rows]


def read(db: sqlite3.Connection, namespace: str, machine_id: str) -> MachineView:
    row = db.execute(f"{_SELECT} WHERE id = ? AND namespace = ?", (machine_id, namespace)).fetchone()
    if row is None:
        raise NotFound("no such machine", code=ErrorCode.MACHINE_NOT_FOUND)
    return _machine_view(row)


def _machine_view(row: tuple[Any, ...]) -> MachineView:
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


def _publish_machine(tx: Transaction, namespace: str, machine_id: str) -> None:
    tx.publish_latest(namespace, "machine-updated", machine_id, encode(read(tx.db, namespace, machine_id)))


def _publish_sessions(tx: Transaction, namespace: str, machine_id: str, *, reachable: bool) -> None:
    """Publish the status of the machine's sessions, which depends on whether it is reachable."""
    rows = tx.db.execute(
        "SELECT id, status FROM sessions WHERE machine_id = ? AND namespace = ? AND phase = 'live'",
        (machine_id, namespace),
    ).fetchall()
    for id, status in rows:
        shown = SessionStatus(status) if reachable else SessionStatus.UNREACHABLE
        tx.publish_latest(namespace, "session-updated", id, encode_status_change(shown))


def _log_differences(machine_id: str, reported: Mapping[str, int], connected: ConnectedMachine) -> None:
    if connected.unknown:
        _logger.warning(
            "machine %s has %d sessions that this hub never had; they are left alone",
            machine_id,
            len(connected.unknown),
        )
    for id, stored in connected.stored_seqs.items():
        if reported[id] < stored:
            # A killed runner may not have journaled its last entries (docs/architecture.md).
            _logger.warning(
                "session %s: its machine reports %d entries and the hub has %d; the runner was killed or restored",
                id, reported[id], stored,
            )  # fmt: skip
