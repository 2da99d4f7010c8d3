"""The phases of a session in the store, and what the hub makes of the sessions that a machine reports."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

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


def compare_sessions(
    reported: Mapping[str, int], stored: Mapping[str, tuple[SessionPhase, int]]
) -> ConnectedMachine:
    """Sort the sessions that a machine reports by what the store has of that machine: phase and last entry."""
    return ConnectedMachine(
        stored_seqs={id: stored[id][1] for id in reported if id in stored and stored[id][0].exists},
        deleted=[id for id in reported if id in stored and not stored[id][0].exists],
        unknown=[id for id in reported if id not in stored],
    )


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


def storable_state(state: SessionState) -> tuple[SessionState, bytes] | None:
    """Return a runner's state as the hub stores it, and its encoding. None if it cannot be made small enough."""
    encoded = encode(state)
    if len(encoded) > MAX_STATE_BYTES:
        state = bounded(state)
        encoded = encode(state)
    return (state, encoded) if len(encoded) <= 4 * MAX_STATE_BYTES else None
