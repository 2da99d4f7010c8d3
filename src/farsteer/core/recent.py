"""A bounded memory of recently used ids."""

from __future__ import annotations


class RecentIds:
    """Remembers at least the last `limit` ids that were added, and at most twice as many.

    Two sets take turns, so that neither adding nor looking up ever walks through all of them.
    """

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._current: set[str] = set()
        self._previous: set[str] = set()

    def __contains__(self, id: str) -> bool:
        return id in self._current or id in self._previous

    def __len__(self) -> int:
        return len(self._current) + len(self._previous)

    def add(self, id: str) -> None:
        if len(self._current) >= self._limit:
            self._previous, self._current = self._current, set()
        self._current.add(id)

    def clear(self) -> None:
        self._current.clear()
        self._previous.clear()
