"""What the hub's services ask of their store."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from farsteer.hub.feed import SyncEvent


@dataclass(frozen=True, slots=True)
class FeedPage:
    """A stretch of the feed, in order."""

    events: list[SyncEvent]
    next: int
    """Everything up to this cursor is in the page, or did not match."""
    more: bool


@dataclass(frozen=True, slots=True)
class FeedBounds:
    """Catch-up is whole for a cursor with `lowest <= cursor <= highest`; anything else is a gap."""

    lowest: int
    highest: int


class Store(Protocol):
    @property
    def epoch(self) -> str:
        """Names this store in cursors, see `feed.cursor_text`."""
        ...

    async def feed_after(
        self,
        namespace: str,
        cursor: int,
        *,
        session_id: str | None = None,
        types: Collection[str] | None = None,
        limit: int = 1000,
    ) -> FeedPage: ...

    async def feed_bounds(self) -> FeedBounds: ...

    async def count_sessions(self) -> dict[str, int]:
        """Sessions of all namespaces by status, for metrics."""
        ...
