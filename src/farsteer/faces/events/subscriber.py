"""One live client: what it wants, how far it got, and what happens when it does not keep up.

A client is *live* or *catching up*. Live, it gets each batch as it comes. Catching up, its stored events come from the
store; what is published meanwhile is kept as its tail, see `catchup`. A client that is *behind* gets only stored
events, and of typing and presence the latest state once it is no longer behind. Past the hard limit it is cut off.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from farsteer.core.errors import FarsteerError
from farsteer.core.wire import WireStruct
from farsteer.faces.events.batch import Batch, Encoder, Filter
from farsteer.faces.events.limits import Limits
from farsteer.hub.feed import SyncEvent
from farsteer.hub.metrics import Metrics


class Ready(WireStruct, omit_defaults=False):
    """The first thing a client hears. Everything after `cursor` follows; after a gap it must read its state anew."""

    cursor: str
    resume: str
    """`ok`, `gap`, or `none` when no cursor was given."""
    expires_at: int


class Closed(WireStruct):
    """The last thing it hears, when there is time for it."""

    code: str
    message: str


Write = Callable[[bytes], None]


class Road(Protocol):
    """The way to one client."""

    @property
    def behind(self) -> bool:
        """More than the soft limit is unsent."""
        ...

    @property
    def buffered(self) -> int:
        """Unsent bytes."""
        ...

    def send(self, batch: Batch) -> None:
        """Put the batch on the wire, behind whatever is unsent."""
        ...


class Subscriber(ABC):
    __slots__ = (
        "_encoder", "_held", "_road", "_writable", "cursor", "direct", "filter", "limits", "metrics", "tail",
    )  # fmt: skip

    def __init__(
        self, road: Road, encoder: Encoder[bytes], wanted: Filter, limits: Limits, metrics: Metrics
    ) -> None:
        self._road = road
        self._encoder = encoder
        self.direct: Write | None = None
        """Writes an encoded batch; set by the road while nothing waits on it and the client is not behind."""
        self.filter = wanted
        self.limits = limits
        self.metrics = metrics
        self.cursor = 0
        """The last stored event it was given."""
        self.tail: Tail | None = None
        """Set while it is catching up."""
        self._held: dict[str, SyncEvent] = {}
        self._writable = asyncio.Event()

    @property
    def behind(self) -> bool:
        return self._road.behind

    @abstractmethod
    def greet(self, ready: Ready) -> None: ...

    @abstractmethod
    def end(self, error: FarsteerError) -> None:
        """Tell the client why, and close."""

    @abstractmethod
    def cut(self) -> None:
        """Drop the connection: the client would not hear a reason before all that it has not read."""

    def deliver(self, batch: Batch) -> None:
        """What was just published. It is done for every client, so the usual case looks at nothing but this object."""
        direct = self.direct
        if direct is not None and self.tail is None and batch.first > self.cursor and not self._held:
            self.metrics.deliveries += len(batch.events)
            if batch.last:
                self.cursor = batch.last
            direct(batch.encoded(self._encoder))
        elif self.tail is None:
            self.forward(batch)
        else:
            self._hold(batch)
            self.tail.add(batch.stored)

    def forward(self, batch: Batch) -> None:
        road = self._road
        if batch.first <= self.cursor:
            batch = batch.after(self.cursor)
        if road.behind:
            if road.buffered > self.limits.hard:
                self.metrics.clients_cut += 1
                self.cut()
                return
            self._hold(batch)
            batch = batch.stored
        elif self._held:
            self._release()
        if batch.last:
            self.cursor = batch.last
        if batch.events:
            self.metrics.deliveries += len(batch.events)
            road.send(batch)

    def on_direct(self, write: Write | None) -> None:
        """The road calls this whenever the way to write straight to it changes."""
        self.direct = write

    def on_writable(self) -> None:
        """The connection calls this when the client is no longer behind."""
        self._writable.set()
        if self._held and self.tail is None and not self.behind:
            self._release()

    async def drained(self) -> None:
        """Until the client is no longer behind; TimeoutError when it stalls."""
        async with asyncio.timeout(self.limits.stall):
            while self.behind:
                self._writable.clear()
                await self._writable.wait()

    def _hold(self, batch: Batch) -> None:
        for key, event in batch.states.items():
            self._held.pop(key, None)
            self._held[key] = event
        while len(self._held) > self.limits.held:
            del self._held[next(iter(self._held))]

    def _release(self) -> None:
        held = Batch(list(self._held.values()))
        self._held.clear()
        self.metrics.deliveries += len(held.events)
        self._road.send(held)


class Tail:
    """Stored events published while a page is read; given up when they are too many, for the store has them too."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._events: list[SyncEvent] = []
        self._size = 0
        self.whole = True

    def add(self, batch: Batch) -> None:
        self._size += batch.size
        if self._size > self._limit:
            self.whole = False
            self._events.clear()
        else:
            self._events += batch.events

    def batch(self) -> Batch:
        return Batch(self._events)
