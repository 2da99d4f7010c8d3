"""What still has to go up the link, session by session. What does not fit in memory is read from the journal."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from farsteer.core.events import Delta
from farsteer.core.session import SessionState
from farsteer.link.messages import EncodedEntry

_BUFFER_ITEMS = 2000
_BUFFER_BYTES = 8 * 1024 * 1024
_DELTA_CHARS = 256 * 1024


class Source(Protocol):
    """Where a lane's events come from: the session's log."""

    def confirmed(self, seq: int) -> None: ...

    async def save(self) -> None: ...


@dataclass(slots=True)
class SessionOutbox:
    """One session's way up."""

    state: SessionState
    source: Source
    sent: int = 0
    """The last event given to this link."""
    state_due: bool = True
    silent: bool = False
    """This link's hub does not know the session: nothing is sent."""
    buffer: list[EncodedEntry] = field(default_factory=list[EncodedEntry])
    buffered_bytes: int = 0
    deltas: list[Delta] = field(default_factory=list[Delta])
    delta_chars: int = 0

    @property
    def behind(self) -> bool:
        return not self.silent and (self.sent < self.state.seq or self.state_due or bool(self.deltas))

    def push(self, items: Sequence[EncodedEntry]) -> None:
        self.buffer.extend(items)
        self.buffered_bytes += sum(len(item.body) for item in items)
        if len(self.buffer) > _BUFFER_ITEMS or self.buffered_bytes > _BUFFER_BYTES:
            self.drop_buffer()

    def take_buffer(self) -> list[EncodedEntry]:
        """What continues exactly where the link is; anything else is the journal's to give."""
        items = self.buffer
        self.buffer, self.buffered_bytes = [], 0
        return items if items and items[0].seq == self.sent + 1 else []

    def drop_buffer(self) -> None:
        self.buffer, self.buffered_bytes = [], 0

    def push_deltas(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            last = self.deltas[-1] if self.deltas else None
            if last is not None and _continues(last, delta):
                self.deltas[-1] = msgspec.structs.replace(last, text=last.text + delta.text)
            else:
                self.deltas.append(delta)
            self.delta_chars += len(delta.text)
        if self.delta_chars > _DELTA_CHARS:
            self.take_deltas()

    def take_deltas(self) -> list[Delta]:
        deltas = self.deltas
        self.deltas, self.delta_chars = [], 0
        return deltas


def _continues(last: Delta, delta: Delta) -> bool:
    """It goes on where the other ended; one that begins anew stays apart."""
    return (
        last.message_id == delta.message_id
        and last.kind is delta.kind
        and last.after == delta.after
        and last.offset + len(last.text) == delta.offset
    )


class Outbox:
    """All lanes, and in which order the sender should look at them."""

    def __init__(self) -> None:
        self._lanes: dict[str, SessionOutbox] = {}
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._wake = asyncio.Event()
        self._open = False

    def track(self, state: SessionState, source: Source) -> None:
        self._lanes[state.id] = SessionOutbox(state, source, sent=state.seq)

    def restate(self, state: SessionState) -> None:
        self._lanes[state.id].state = state

    def forget(self, session: str) -> None:
        self._lanes.pop(session, None)
        self._ready.pop(session, None)

    def last_seqs(self) -> dict[str, int]:
        return {id: lane.state.seq for id, lane in self._lanes.items()}

    def confirmed(self, session: str, seq: int) -> None:
        lane = self._lanes.get(session)
        if lane is not None:
            lane.source.confirmed(seq)

    def publish(self, state: SessionState, items: Sequence[EncodedEntry], *, changed: bool) -> None:
        lane = self._lanes.get(state.id)
        if lane is None:
            return
        lane.state = state
        lane.state_due = lane.state_due or changed
        if self._open and not lane.silent:
            lane.push(items)
            self._mark(state.id)

    def fragments(self, session: str, deltas: list[Delta]) -> None:
        lane = self._lanes.get(session)
        if lane is not None and self._open and not lane.silent:
            lane.push_deltas(deltas)
            self._mark(session)

    def open(self, acked: dict[str, int], strangers: Collection[str] = ()) -> None:
        """A link is up, and its hub holds this much."""
        self._open = True
        for id, lane in self._lanes.items():
            lane.silent = id in strangers
            lane.sent = min(acked.get(id, 0), lane.state.seq)
            lane.state_due = True
            self._mark(id)

    def close(self) -> None:
        self._open = False
        self._ready.clear()
        for lane in self._lanes.values():
            lane.drop_buffer()
            lane.take_deltas()

    async def next(self) -> SessionOutbox:
        """The lane that has waited longest for the link."""
        while True:
            while self._ready:
                id, _ = self._ready.popitem(last=False)
                lane = self._lanes.get(id)
                if lane is not None and lane.behind:
                    return lane
            self._wake.clear()
            await self._wake.wait()

    def again(self, lane: SessionOutbox) -> None:
        if lane.behind:
            self._mark(lane.state.id)

    def _mark(self, session: str) -> None:
        self._ready[session] = None
        self._wake.set()
