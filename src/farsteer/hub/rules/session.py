"""The phases of a session in the store, and what the hub makes of the sessions that a machine reports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from farsteer.core.events import Notice, SlashCommand, make_entry
from farsteer.core.queue import ItemState
from farsteer.core.session import SessionSpec, SessionState, bounded
from farsteer.core.wire import encode

MAX_STATE_BYTES = 256 * 1024
"""A larger state is cut down: the hub writes it with every change."""


class SessionPhase(StrEnum):
    CREATING = "creating"
    """It accepts entries and is not visible."""
    LIVE = "live"
    PURGING = "purging"
    """Deleted, with entries still to be removed."""
    DELETED = "deleted"
    """A tombstone: its id is never used again."""

    @property
    def exists(self) -> bool:
        return self in (SessionPhase.CREATING, SessionPhase.LIVE)


class ConnectedMachine(Struct, frozen=True):
    """What the store has of the sessions that a connecting machine named."""

    stored_seqs: dict[str, int]
    """The last entry of each session that exists."""
    deleted: list[str]
    """Sessions that were deleted; the runner is to end and forget them."""
    unknown: list[str]
    """Sessions the store never had: another hub's, or lost with a database. The runner keeps them."""
    lease: int = 0
    """The generation of the lease that the machine's runner was given."""
    behind: list[str] = []
    """Sessions of which the runner has nothing, or fewer entries than the store: its journal was lost, restored from a
    backup, or did not get the last output."""
    items: dict[str, dict[str, ItemState]] = {}
    """Items on which runner and store differ, by session, with their states in the store."""


class MachineItem(Struct, frozen=True):
    """An item of one of the machine's sessions."""

    session_id: str
    id: str
    state: ItemState
    was_offered: bool
    """A link has claimed it, so the runner may have had it."""


def compare_sessions(
    reported: Mapping[str, int], stored: Mapping[str, tuple[SessionPhase, int]]
) -> ConnectedMachine:
    """Sort the sessions that a machine reports by what the store has of that machine: phase and last entry."""
    missing = [id for id, (phase, _) in stored.items() if phase is SessionPhase.LIVE and id not in reported]
    named = [id for id in reported if id in stored and stored[id][0].exists]
    return ConnectedMachine(
        stored_seqs={id: stored[id][1] for id in (*named, *missing)},
        deleted=[id for id in reported if id in stored and not stored[id][0].exists],
        unknown=[id for id in reported if id not in stored],
        behind=[*(id for id in named if reported[id] < stored[id][1]), *missing],
    )


def is_set_back(
    confirmed: Mapping[str, int],
    stored: Mapping[str, tuple[SessionPhase, int]],
    unexplained: Collection[str],
) -> bool:
    """Return whether a store must be older than what a machine has seen.

    Args:
        confirmed: Of each session of the machine, the last entry that a hub has confirmed.
        stored: What the store has of that machine: phase and last entry.
        unexplained: The machine's sessions that the store has never heard of.
    """
    return any(confirmed[id] for id in unexplained) or any(
        stored[id][0].exists and stored[id][1] < seq for id, seq in confirmed.items() if id in stored
    )


def lost_entries_notice(session_id: str, last: int, now: int) -> bytes:
    """Return the entry, encoded, that stands for all entries up to `last` of a session that was adopted."""
    notice = Notice(
        text=f"The first {last} entries of this session are lost: neither this hub nor its machine has them.",
        level="warning",
        code="entry_lost",
    )
    return encode(make_entry(session_id, last, notice, now))


def without_recovery(connected: ConnectedMachine, reported: Mapping[str, int]) -> ConnectedMachine:
    """Return what a runner can use that does not name its items and cannot take over sessions (protocol 2)."""
    seqs = {id: seq for id, seq in connected.stored_seqs.items() if id in reported}
    return ConnectedMachine(seqs, connected.deleted, connected.unknown, connected.lease)


def compare_items(
    held: Mapping[str, Collection[str]], items: Iterable[MachineItem], behind: Collection[str]
) -> dict[str, dict[str, ItemState]]:
    """Return the items on which runner and store differ.

    Those are the ones that the runner holds although they have an outcome, and the ones without an outcome that it
    should hold and does not. An accepted one need not be there, unless the session is behind and the runner may have
    had it.

    Args:
        held: The items that the runner has in its queues, by session.
        items: What the store has: of the machine's sessions all items without an outcome, and those in `held`.
        behind: Sessions of which the runner may have lost something.
    """
    found: dict[str, dict[str, ItemState]] = {}
    for item in items:
        is_held = item.id in held.get(item.session_id, ())
        may_be_lost = item.state is not ItemState.ACCEPTED or (item.was_offered and item.session_id in behind)
        if item.state.final if is_held else may_be_lost and not item.state.final:
            found.setdefault(item.session_id, {})[item.id] = item.state
    return found


def first_state(
    spec: SessionSpec, stored: SessionState | None, answered: SessionState | None
) -> SessionState:
    """Return the state a session becomes visible with.

    The runner's answer to the creation and its first entries arrive in either order; the newer state counts.
    """
    answered = answered and bounded(answered)
    if stored is None:
        return answered or SessionState(id=spec.id, agent=spec.agent or "", directory=spec.directory)
    return answered if answered is not None and answered.seq > stored.seq else stored


def phase_after_discard(*, keep_tombstone: bool, has_copy: bool) -> SessionPhase | None:
    """Return what becomes of a session whose creation failed; None removes it without a trace.

    A copy may be long: its entries are removed like those of a deleted session.
    """
    if has_copy:
        return SessionPhase.PURGING
    return SessionPhase.DELETED if keep_tombstone else None


class StorableState(NamedTuple):
    """A runner's state as the hub stores it: the commands change rarely and are most of it, so they are apart."""

    state: SessionState
    """Without the commands."""
    encoded: bytes
    commands: tuple[SlashCommand, ...]


def storable_state(state: SessionState) -> StorableState | None:
    """Return a runner's state as the hub stores it. None if it cannot be made small enough."""
    encoded = encode(state)
    if len(encoded) > MAX_STATE_BYTES:
        state = bounded(state)
        encoded = encode(state)
    if len(encoded) > 4 * MAX_STATE_BYTES:
        return None
    if not state.commands:
        return StorableState(state, encoded, ())
    bare = replace(state, commands=())
    return StorableState(bare, encode(bare), state.commands)
