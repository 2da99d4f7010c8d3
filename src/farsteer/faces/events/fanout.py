"""Distributing published events: what the feed publishes in one loop tick goes to each client in one write.

Clients with the same filter share one `Batch`, so that the work per client is one write. Events of a namespace are
never compared with the filters of another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence

from farsteer.faces.events.frames import Batch
from farsteer.faces.events.options import EventFilter
from farsteer.faces.events.subscriber import Subscriber
from farsteer.hub.feed import Feed, SyncEvent

_logger = logging.getLogger(__name__)

Group = dict[Subscriber, None]
"""The subscribers with one filter, in the order they came."""


class Fanout:
    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._groups: dict[str, dict[EventFilter, Group]] = {}
        """By namespace and filter."""
        self._pending: dict[str, list[SyncEvent]] = {}
        """By namespace: what was published in this tick."""
        self._flush_handle: asyncio.Handle | None = None
        self._stop_listening: Callable[[], None] | None = None

    def start(self) -> None:
        self._stop_listening = self._feed.listen(self._on_published)

    def close(self) -> None:
        """Idempotent."""
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        if self._flush_handle is not None:
            self._flush_handle.cancel()
            self._flush_handle = None
        self._pending.clear()

    def add(self, subscriber: Subscriber) -> None:
        groups = self._groups.setdefault(subscriber.filter.namespace, {})
        groups.setdefault(subscriber.filter, {})[subscriber] = None

    def remove(self, subscriber: Subscriber) -> None:
        """Idempotent."""
        event_filter = subscriber.filter
        groups = self._groups.get(event_filter.namespace, {})
        group = groups.get(event_filter, {})
        group.pop(subscriber, None)
        if not group:
            groups.pop(event_filter, None)
        if not groups:
            self._groups.pop(event_filter.namespace, None)

    def __len__(self) -> int:
        return sum(len(group) for groups in self._groups.values() for group in groups.values())

    def _on_published(self, events: list[SyncEvent]) -> None:
        for event in events:
            if event.namespace in self._groups:
                self._pending.setdefault(event.namespace, []).append(event)
        if self._pending and self._flush_handle is None:
            self._flush_handle = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_handle = None
        pending, self._pending = self._pending, {}
        for namespace, events in pending.items():
            for group, selected in _select_events(self._groups.get(namespace, {}), events):
                batch = Batch(selected)
                # A copy, because a subscriber that is aborted is removed from its group.
                for subscriber in tuple(group):
                    try:
                        subscriber.deliver(batch)
                    except Exception:
                        # One client must not keep events from the others. It can resume from its cursor.
                        _logger.exception("cannot write to a client")
                        subscriber.abort()


def _select_events(
    groups: dict[EventFilter, Group], events: Sequence[SyncEvent]
) -> Iterator[tuple[Group, Sequence[SyncEvent]]]:
    """Yield each group with the events its filter selects, if any. Events are sorted by subject at most once."""
    by_subject: dict[str | None, list[SyncEvent]] | None = None
    for event_filter, group in tuple(groups.items()):
        selected = events
        if event_filter.session_id is not None:
            if by_subject is None:
                by_subject = {}
                for event in events:
                    by_subject.setdefault(event.subject, []).append(event)
            selected = by_subject.get(event_filter.session_id, [])
        if event_filter.types is not None:
            selected = [event for event in selected if event.type in event_filter.types]
        if selected:
            yield group, selected
