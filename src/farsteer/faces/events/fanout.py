"""The fan-out: what the feed published in one loop tick goes to each client in one write.

Clients with the same filter share one `Batch`, so the work that grows with clients is one write each. Events of a
namespace are never even looked at for another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence

from farsteer.faces.events.batch import Batch, Filter
from farsteer.faces.events.subscriber import Subscriber
from farsteer.hub.feed import Feed, SyncEvent

_log = logging.getLogger(__name__)

Group = dict[Subscriber, None]


class Fanout:
    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._rooms: dict[str, dict[Filter, Group]] = {}
        self._pending: dict[str, list[SyncEvent]] = {}
        self._tick: asyncio.Handle | None = None
        self._stop: Callable[[], None] | None = None

    def start(self) -> None:
        self._stop = self._feed.listen(self._publish)

    def close(self) -> None:
        if self._stop is not None:
            self._stop()
            self._stop = None
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        self._pending.clear()

    def join(self, subscriber: Subscriber) -> None:
        wanted = subscriber.filter
        self._rooms.setdefault(wanted.namespace, {}).setdefault(wanted, {})[subscriber] = None

    def leave(self, subscriber: Subscriber) -> None:
        """Idempotent."""
        wanted = subscriber.filter
        room = self._rooms.get(wanted.namespace, {})
        group = room.get(wanted, {})
        group.pop(subscriber, None)
        if not group:
            room.pop(wanted, None)
        if not room:
            self._rooms.pop(wanted.namespace, None)

    def __len__(self) -> int:
        return sum(len(group) for room in self._rooms.values() for group in room.values())

    def _publish(self, events: list[SyncEvent]) -> None:
        for event in events:
            if event.namespace in self._rooms:
                self._pending.setdefault(event.namespace, []).append(event)
        if self._pending and self._tick is None:
            self._tick = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._tick = None
        pending, self._pending = self._pending, {}
        for namespace, events in pending.items():
            room = self._rooms.get(namespace, {})
            for group, chosen in _chosen(room, events):
                batch = Batch(chosen)
                # A copy: a client that is cut off leaves its group.
                for subscriber in tuple(group):
                    try:
                        subscriber.deliver(batch)
                    except Exception:  # noqa: BLE001
                        # It comes back to where it was; the others have missed nothing.
                        _log.exception("a client could not be written to")
                        subscriber.cut()


def _chosen(
    room: dict[Filter, Group], events: Sequence[SyncEvent]
) -> Iterator[tuple[Group, Sequence[SyncEvent]]]:
    """Each group with what it wants of `events`, if anything. Sorted by subject once, for all session filters."""
    by_subject: dict[str | None, list[SyncEvent]] | None = None
    for wanted, group in tuple(room.items()):
        chosen = events
        if wanted.session_id is not None:
            if by_subject is None:
                by_subject = {}
                for event in events:
                    by_subject.setdefault(event.subject, []).append(event)
            chosen = by_subject.get(wanted.session_id, [])
        if wanted.types is not None:
            chosen = [event for event in chosen if event.type in wanted.types]
        if chosen:
            yield group, chosen
