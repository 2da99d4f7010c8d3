"""What one loop tick brings to the clients with the same filter. It is framed once for all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from farsteer.hub.feed import SyncEvent

T = TypeVar("T")
Encoder = Callable[[Sequence[SyncEvent]], T]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events of a namespace a client wants; None: all."""

    namespace: str
    session_id: str | None = None
    types: frozenset[str] | None = None


class Batch:
    """Events in order, with each wire form of them made at most once."""

    def __init__(self, events: Sequence[SyncEvent]) -> None:
        self.events = events
        self.first = sys.maxsize
        """The cursor of the first stored event; beyond every cursor when there is none."""
        self.last = 0
        for event in events:
            if event.cursor is not None:
                self.first = min(self.first, event.cursor)
                self.last = event.cursor
        self._encoded: dict[Encoder[Any], Any] = {}

    def encoded(self, encoder: Encoder[T]) -> T:
        found = self._encoded.get(encoder)
        if found is None:
            found = self._encoded[encoder] = encoder(self.events)
        return found

    @cached_property
    def size(self) -> int:
        return sum(len(event.data) for event in self.events)

    @cached_property
    def stored(self) -> Batch:
        """Without what is transient."""
        stored = [event for event in self.events if event.cursor is not None]
        return self if len(stored) == len(self.events) else Batch(stored)

    @cached_property
    def states(self) -> dict[str, SyncEvent]:
        """Transient events of which only the latest matters. A delta is none: its message comes whole later."""
        return {
            event.merge_key: event
            for event in self.events
            if event.merge_key is not None and event.cursor is None and event.type != "message-delta"
        }

    def after(self, cursor: int) -> Batch:
        """Without what a client at `cursor` has already."""
        if self.first > cursor:
            return self
        return Batch([event for event in self.events if event.cursor is None or event.cursor > cursor])
