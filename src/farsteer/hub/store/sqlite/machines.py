"""The `machines` table. `active` says whether a machine has a link to this process; opening the store resets it."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Collection, Mapping
from typing import Any

from msgspec.structs import replace

from farsteer.core.api import MachineView
from farsteer.core.capabilities import AgentModels, MachineInfo
from farsteer.core.errors import Conflict, ErrorCode, Forbidden, NotFound
from farsteer.core.events import SessionStatus
from farsteer.core.foreign import HeldSession
from farsteer.core.wire import decode, encode
from farsteer.hub.rules.lease import (
    Lease,
    LeaseClaim,
    LeaseRefusal,
    StoredConflict,
    decide_lease,
    view_conflict,
)
from farsteer.hub.rules.quota import check_quota
from farsteer.hub.rules.session import (
    ConnectedMachine,
    SessionPhase,
    compare_items,
    compare_sessions,
    is_set_back,
    without_recovery,
)
from farsteer.hub.rules.view import encode_status_change
from farsteer.hub.store.sqlite import foreign, items, sessions
from farsteer.hub.store.sqlite.transaction import Transaction
from farsteer.storage.quarantine import decode_row

_logger = logging.getLogger(__name__)

_SELECT = (
    "SELECT id, active, active_at, created_at, info, conflict, problem, (SELECT count(*) FROM foreign_sessions AS f"
    " WHERE f.machine_id = machines.id AND NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.id = f.id)) FROM machines"
)


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
    foreign.forget(tx.db, machine_id)
    tx.publish_latest(namespace, "machine-removed", machine_id, None)


def count(db: sqlite3.Connection, namespace: str) -> int:
    return db.execute("SELECT count(*) FROM machines WHERE namespace = ?", (namespace,)).fetchone()[0]


def claim_lease(tx: Transaction, namespace: str, machine_id: str, claim: LeaseClaim) -> Lease | LeaseRefusal:
    """Give the lease to a runner that connects, or note that it was refused."""
    connected, held = read(tx.db, namespace, machine_id).active, _lease(tx.db, machine_id)
    lease = decide_lease(held, claim, machine_id, connected=connected, now=tx.now)
    if isinstance(lease, LeaseRefusal):
        return replace(lease, is_new=_note_conflict(tx, namespace, machine_id, claim))
    if held is None or lease.generation != held.generation:
        tx.db.execute("UPDATE machines SET conflict = NULL WHERE id = ?", (machine_id,))
    tx.db.execute("UPDATE machines SET lease = ? WHERE id = ?", (encode(lease), machine_id))
    return lease


def connect(
    tx: Transaction,
    namespace: str,
    machine: MachineInfo,
    reported: Mapping[str, int],
    held: Mapping[str, Collection[str]] | None,
    lease: Lease,
) -> ConnectedMachine:
    was_active = read(tx.db, namespace, machine.id).active
    tx.db.execute(
        "UPDATE machines SET active = 1, active_at = ?, info = ?, problem = NULL WHERE id = ?",
        (tx.now, encode(machine), machine.id),
    )
    publish(tx, namespace, machine.id)
    if not was_active:
        _publish_sessions(tx, namespace, machine.id, reachable=True)
    found = compare_sessions(reported, _sessions_of(tx.db, namespace, machine.id))
    connected = replace(found, lease=lease.generation)
    if foreign.replace(tx.db, namespace, machine.id, connected.unknown):
        publish(tx, namespace, machine.id)
    _log_differences(machine.id, reported, connected)
    if held is None:
        return without_recovery(connected, reported)
    of_machine = items.of_machine(tx.db, namespace, machine.id, held)
    return replace(connected, items=compare_items(held, of_machine, {*connected.behind}))


def _sessions_of(
    db: sqlite3.Connection, namespace: str, machine_id: str
) -> dict[str, tuple[SessionPhase, int]]:
    rows = db.execute(
        "SELECT id, phase, seq FROM sessions WHERE machine_id = ? AND namespace = ?", (machine_id, namespace)
    )
    return {id: (SessionPhase(phase), seq) for id, phase, seq in rows}


def adopt_session(tx: Transaction, namespace: str, held: HeldSession, limit: int | None) -> None:
    sessions.adopt(tx, namespace, held, limit)
    publish(tx, namespace, held.spec.machine_id)


def end_session(tx: Transaction, namespace: str, machine_id: str, session_id: str) -> None:
    sessions.end_foreign(tx, namespace, machine_id, session_id)
    publish(tx, namespace, machine_id)


def has_seen_more(
    db: sqlite3.Connection, namespace: str, machine_id: str, confirmed: Mapping[str, int], last_lease: int
) -> bool:
    """Return whether a hub has given this machine a lease, or confirmed entries, that the database does not have."""
    lease = _lease(db, machine_id)
    if lease is not None and last_lease > lease.generation:
        return True
    if not confirmed:
        return False
    stored = _sessions_of(db, namespace, machine_id)
    missing = [id for id in confirmed if id not in stored]
    unexplained = [id for id in missing if foreign.is_news(db, machine_id, id)]
    return is_set_back(confirmed, stored, unexplained)


def _lease(db: sqlite3.Connection, machine_id: str) -> Lease | None:
    row = db.execute("SELECT lease FROM machines WHERE id = ?", (machine_id,)).fetchone()
    return None if row is None or row[0] is None else decode(row[0], Lease)


def _note_conflict(tx: Transaction, namespace: str, machine_id: str, claim: LeaseClaim) -> bool:
    """Store who was refused. Returns whether it is another one than before; only then clients are told."""
    (encoded,) = tx.db.execute("SELECT conflict FROM machines WHERE id = ?", (machine_id,)).fetchone()
    is_new = encoded is None or decode(encoded, StoredConflict).instance != claim.instance
    conflict = StoredConflict(instance=claim.instance, host=claim.host, at=tx.now)
    tx.db.execute("UPDATE machines SET conflict = ? WHERE id = ?", (encode(conflict), machine_id))
    if is_new:
        publish(tx, namespace, machine_id)
    return is_new


def release(tx: Transaction, namespace: str, machine_id: str) -> None:
    """Let any runner with the machine's key have the lease next. Raises Conflict if one is connected."""
    if read(tx.db, namespace, machine_id).active:
        raise Conflict("this machine is connected: stop its runner first")
    _mark_released(tx, machine_id)


def _mark_released(tx: Transaction, machine_id: str) -> None:
    lease = _lease(tx.db, machine_id)
    if lease is not None:
        released = encode(replace(lease, released=True))
        tx.db.execute("UPDATE machines SET lease = ? WHERE id = ?", (released, machine_id))


def disconnect(tx: Transaction, namespace: str, machine_id: str, *, released: bool = False) -> None:
    """The machine's link has ended. `released`: its runner has ended in order, so another one may follow it."""
    if released:
        _mark_released(tx, machine_id)
    changed = tx.db.execute(
        "UPDATE machines SET active = 0, active_at = ? WHERE id = ? AND namespace = ? AND active = 1",
        (tx.now, machine_id, namespace),
    ).rowcount
    if changed:
        publish(tx, namespace, machine_id)
        _publish_sessions(tx, namespace, machine_id, reachable=False)


def set_problem(tx: Transaction, namespace: str, machine_id: str, problem: str | None) -> None:
    changed = tx.db.execute(
        "UPDATE machines SET problem = ?1 WHERE id = ?2 AND namespace = ?3 AND problem IS NOT ?1",
        (problem, machine_id, namespace),
    ).rowcount
    if changed:
        publish(tx, namespace, machine_id)


def set_models(tx: Transaction, namespace: str, machine_id: str, models: AgentModels) -> None:
    """Store the models of some of a machine's agents. Agents that the machine has not named are ignored."""
    row = tx.db.execute(
        "SELECT info FROM machines WHERE id = ? AND namespace = ?", (machine_id, namespace)
    ).fetchone()
    if row is None:
        return
    machine = decode_row(row[0], MachineInfo, "machines", machine_id, None)
    agents = tuple(replace(agent, models=models.get(agent.name, agent.models)) for agent in machine.agents)
    if agents != machine.agents:
        info = encode(replace(machine, agents=agents))
        tx.db.execute("UPDATE machines SET info = ? WHERE id = ?", (info, machine_id))
        publish(tx, namespace, machine_id)


def recover(tx: Transaction) -> None:
    """Disconnect the machines that an earlier run of the hub left active."""
    for id, namespace in tx.db.execute("SELECT id, namespace FROM machines WHERE active = 1").fetchall():
        disconnect(tx, namespace, id)


def select(db: sqlite3.Connection, namespace: str) -> list[MachineView]:
    rows = db.execute(f"{_SELECT} WHERE namespace = ? ORDER BY active DESC, active_at DESC, id", (namespace,))
    return [_machine_view(row) for row in rows.fetchall()]


def read(db: sqlite3.Connection, namespace: str, machine_id: str) -> MachineView:
    row = db.execute(f"{_SELECT} WHERE id = ? AND namespace = ?", (machine_id, namespace)).fetchone()
    if row is None:
        raise NotFound("no such machine", code=ErrorCode.MACHINE_NOT_FOUND)
    return _machine_view(row)


def _machine_view(row: tuple[Any, ...]) -> MachineView:
    id, active, active_at, created_at, info, conflict, problem, foreign_sessions = row
    machine = decode_row(info, MachineInfo, "machines", id, None)
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
        conflict=None if conflict is None else view_conflict(decode(conflict, StoredConflict)),
        foreign_sessions=foreign_sessions,
        problem=problem,
    )


def publish(tx: Transaction, namespace: str, machine_id: str) -> None:
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
    for id in connected.behind:
        # A killed runner may not have journaled its last entries (docs/architecture.md).
        _logger.warning(
            "session %s: its machine reports %d entries and the hub has %d; the runner was killed or restored",
            id, reported.get(id, 0), connected.stored_seqs[id],
        )  # fmt: skip
