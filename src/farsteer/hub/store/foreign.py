"""The part of the store's interface that concerns sessions which only their machines know."""

from __future__ import annotations

from typing import Protocol

from farsteer.core.foreign import HeldSession


class ForeignSessionStore(Protocol):
    async def list_foreign_sessions(self, namespace: str, machine_id: str) -> list[str]:
        """Return the sessions that a machine named when it connected and that no namespace has or ever had."""
        ...

    async def adopt_session(self, namespace: str, held: HeldSession, *, limit: int | None = None) -> None:
        """Make a foreign session a session of the namespace. Does nothing if its machine has it here already.

        Its log goes on after the entry that a hub has confirmed last; a notice in its place stands for all up to it.
        Raises NotFound if it is not foreign, and QuotaExceeded.
        """
        ...

    async def end_foreign_session(self, namespace: str, machine_id: str, session_id: str) -> None:
        """Leave a tombstone of a foreign session, so that its machine deletes it. Raises NotFound."""
        ...
