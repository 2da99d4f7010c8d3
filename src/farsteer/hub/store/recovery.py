"""The part of the store's interface that brings runners, logs and store in line after one of them lost something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from farsteer.core.queue import ItemState, QueueItem
from farsteer.link.messages import KnownSession


class UnloggedOutcome(Struct, frozen=True):
    """An outcome that the hub gave and the session's log does not have yet."""

    session_id: str
    item: QueueItem
    """Its summary, with the outcome."""
    reason: str | None
    seq: int
    """The last entry of the log at this moment."""


class KnownSessions(Struct, frozen=True):
    """Sessions as the store has them, up to a bounded size."""

    sessions: list[KnownSession]
    rest: list[str]
    """Ids that were asked for and are not among them yet."""


class RecoveryStore(Protocol):
    async def settle_item(self, session_id: str, item_id: str, state: ItemState) -> bool:
        """Record the outcome that the runner says an item had long ago. Return False if it has one here."""
        ...

    async def list_unlogged_outcomes(self, namespace: str, machine_id: str) -> list[UnloggedOutcome]:
        """Return the outcomes of failed, cancelled and settled items of a machine that their logs do not have yet.

        An entry of the log with an outcome of the item ends that; the item then has the outcome of the log.
        """
        ...

    async def read_known_sessions(self, namespace: str, session_ids: Sequence[str]) -> KnownSessions:
        """Return what a runner needs to go on with these sessions, in this order, as far as they are visible."""
        ...
