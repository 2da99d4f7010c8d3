"""One live client: which events it wants, how far it has got, and what happens when it does not keep up.

A client is live or catching up. A live client gets each batch as it is published. For a client that catches up,
stored events are read from the store (see `Subscriber.catch_up`). A client that is behind, because it reads slower
than events are published, gets only stored events; of typing and presence it gets the latest state once it is no
longer behind. Past the hard limit its connection is aborted; so is the slowest one of all clients when too much waits
for them together.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from farsteer.core.errors import FarsteerError
from farsteer.core.live_events import ReadyEvent
from farsteer.faces.events.frames import Batch
from farsteer.faces.events.options import EventFilter, EventLimits
from farsteer.hub.feed import SyncEvent
from farsteer.hub.metrics import Metrics
from farsteer.hub.sockets import SlowReaders
from farsteer.hub.store.base import Store


class Subscriber(ABC):
    """The protocol-independent part of a client. Subclasses write to its connection."""

    def __init__(
        self, event_filter: EventFilter, limits: EventLimits, metrics: Metrics, slow_readers: SlowReaders
    ) -> None:
        self.filter = event_filter
        self.limits = limits
        self.metrics = metrics
        self.slow_readers = slow_readers
        self.cursor = 0
        """The last stored event it was sent."""
        self._catch_up_buffer: CatchUpBuffer | None = None
        """Set while it is catching up."""
        self._held: dict[str, SyncEvent] = {}
        """The latest states, while it is behind or catching up."""
        self._writable = asyncio.Event()

    @property
    @abstractmethod
    def is_behind(self) -> bool:
        """Whether more bytes than the soft limit are unsent."""

    @property
    @abstractmethod
    def buffered_bytes(self) -> int:
        """The number of unsent bytes."""

    @abstractmethod
    def send(self, batch: Batch) -> None:
        """Send the batch after everything sent before."""

    @abstractmethod
    def send_ready(self, ready: ReadyEvent) -> None: ...

    @abstractmethod
    def close(self, error: FarsteerError) -> None:
        """Send the reason as a `closed` event, then close the connection."""

    @abstractmethod
    def abort(self) -> None:
        """Close the connection at once, without a reason: it would arrive after all that the client has not read."""

    def deliver(self, batch: Batch) -> None:
        """Send or keep events that were just published."""
        if self._catch_up_buffer is None:
            self.forward(batch)
        else:
            self._hold_states(batch)
            self._catch_up_buffer.add(batch.stored)

    def forward(self, batch: Batch) -> None:
        """Send what the client has not got yet, and if it is behind only what is stored."""
        if batch.first_cursor <= self.cursor:
            batch = batch.after(self.cursor)
        is_behind = self.is_behind
        if is_behind:
            if self.buffered_bytes > self.limits.hard_limit:
                self.cut_off()
                return
            self._hold_states(batch)
            batch = batch.stored
        elif self._held:
            self._send_held_states()
        if batch.last_cursor:
            self.cursor = batch.last_cursor
        if batch.events:
            self.metrics.deliveries += len(batch.events)
            self.send(batch)
            if is_behind:
                self.slow_readers.update(self)

    def cut_off(self) -> None:
        """Disconnect it because it is too slow. It can resume from its cursor."""
        self.metrics.clients_cut += 1
        self.abort()

    def on_writable(self) -> None:
        """Called by the connection when the client may no longer be behind."""
        if self.is_behind:
            return
        self._writable.set()
        self.slow_readers.remove(self)
        if self._held and self._catch_up_buffer is None:
            self._send_held_states()

    def start_catch_up(self, cursor: int) -> None:
        """Keep what is published from now on; `catch_up` must follow."""
        self.cursor = cursor
        self._catch_up_buffer = CatchUpBuffer(self.limits.catch_up_buffer)

    async def catch_up(self, store: Store) -> None:
        """Send everything after the cursor from the store, then go live: no gap, no duplicate, no reordering.

        The store is read page by page. What is published while a page is read goes into the buffer. An event after
        the last page was committed either before that page was read, so that the page contains it, or after; then it
        was published after the reading began, because the hub publishes only what it has committed, and the buffer
        contains it. Events in both are recognised by their cursor. If the buffer overflowed or there are more pages,
        the buffer is discarded: the store has its events too. The next page is read, and the client goes live, only
        when it is not behind.

        Raises:
            TimeoutError: the client did not read in time.
        """
        position = self.cursor
        while True:
            buffer = self._catch_up_buffer = CatchUpBuffer(self.limits.catch_up_buffer)
            page = await store.read_feed(
                self.filter.namespace,
                position,
                session_id=self.filter.session_id,
                types=self.filter.types,
                limit=self.limits.page_size,
            )
            position = page.next
            self.forward(Batch(page.events))
            if self.is_behind:
                self.slow_readers.update(self)
            if not page.more and not buffer.has_overflowed and not self.is_behind:
                break
            await self._wait_until_writable()
        self._catch_up_buffer = None
        self.forward(Batch(buffer.events))

    async def _wait_until_writable(self) -> None:
        async with asyncio.timeout(self.limits.stall_timeout):
            while self.is_behind:
                self._writable.clear()
                await self._writable.wait()

    def _hold_states(self, batch: Batch) -> None:
        for key, event in batch.states.items():
            self._held.pop(key, None)
            self._held[key] = event
        while len(self._held) > self.limits.held_states:
            del self._held[next(iter(self._held))]

    def _send_held_states(self) -> None:
        held = Batch(list(self._held.values()))
        self._held.clear()
        self.metrics.deliveries += len(held.events)
        self.send(held)


class CatchUpBuffer:
    """Stored events published while a page of the store is read."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self.events: list[SyncEvent] = []
        self.has_overflowed = False

    def add(self, batch: Batch) -> None:
        self._size += batch.size
        if self._size > self._limit:
            self.has_overflowed = True
            self.events.clear()
        else:
            self.events += batch.events
