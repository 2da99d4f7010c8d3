"""What the runner still has to send to the hub, session by session.

Entries are buffered in memory while the link keeps up. The journal has those that do not fit.
"""

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

_BUFFER_ENTRIES = 2000
_BUFFER_BYTES = 8 * 1024 * 1024
_DELTA_CHARS = 256 * 1024
_MAX_DELTAS = 5000


class EntrySource(Protocol):
    """Where a session's entries come from: its log."""

    def confirm(self, seq: int) -> None: ...

    async def save(self) -> None: ...


@dataclass(slots=True)
class SessionOutbox:
    """What is to be sent of one session."""

    state: SessionState
    source: EntrySource
    sent: int = 0
    """The last entry that was sent over the current link."""
    state_due: bool = True
    """The state has changed since it was sent last."""
    muted: bool = False
    """The connected hub does not know the session: nothing is sent."""
    buffer: list[EncodedEntry] = field(default_factory=list[EncodedEntry])
    buffered_bytes: int = 0
    deltas: list[Delta] = field(default_factory=list[Delta])
    delta_chars: int = 0

    @property
    def has_unsent(self) -> bool:
        return not self.muted and (self.sent < self.state.seq or self.state_due or bool(self.deltas))

    def push(self, entries: Sequence[EncodedEntry]) -> None:
        """Buffer entries. A buffer that grows too large is dropped: the journal has its entries."""
        self.buffer.extend(entries)
        self.buffered_bytes += sum(len(entry.body) for entry in entries)
        if len(self.buffer) > _BUFFER_ENTRIES or self.buffered_bytes > _BUFFER_BYTES:
            self.drop_buffer()

    def pop_buffer(self) -> list[EncodedEntry]:
        """Empty the buffer. Returns its entries if they continue `sent`; otherwise the journal must be read."""
        entries = self.buffer
        self.drop_buffer()
        return entries if entries and entries[0].seq == self.sent + 1 else []

    def drop_buffer(self) -> None:
        self.buffer, self.buffered_bytes = [], 0

    def push_deltas(self, deltas: Sequence[Delta]) -> None:
        """Buffer deltas, merging those that continue each other. Too many are dropped: they are only live."""
        for delta in deltas:
            last = self.deltas[-1] if self.deltas else None
            if last is not None and _continues(last, delta):
                self.deltas[-1] = msgspec.structs.replace(last, text=last.text + delta.text)
            else:
                self.deltas.append(delta)
            self.delta_chars += len(delta.text)
        if self.delta_chars > _DELTA_CHARS or len(self.deltas) > _MAX_DELTAS:
            self.pop_deltas()

    def pop_deltas(self) -> list[Delta]:
        deltas = self.deltas
        self.deltas, self.delta_chars = [], 0
        return deltas


def _continues(last: Delta, delta: Delta) -> bool:
    """Return whether `delta` begins where `last` ends. One that replaces earlier text stays separate."""
    return (
        last.message_id == delta.message_id
        and last.kind is delta.kind
        and last.after == delta.after
        and last.offset + len(last.text) == delta.offset
    )


class Outbox:
    """The outboxes of all sessions, sent in the order in which they got something to send."""

    def __init__(self) -> None:
        self._sessions: dict[str, SessionOutbox] = {}
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._wake = asyncio.Event()
        self._connected = False

    def add_session(self, state: SessionState, source: EntrySource) -> None:
        self._sessions[state.id] = SessionOutbox(state, source, sent=state.seq)

    def update_state(self, state: SessionState) -> None:
        self._sessions[state.id].state = state

    def remove_session(self, session: str) -> None:
        self._sessions.pop(session, None)
        self._ready.pop(session, None)

    def last_seqs(self) -> dict[str, int]:
        """Return the number of the last entry of each session."""
        return {id: one.state.seq for id, one in self._sessions.items()}

    def confirm(self, session: str, seq: int) -> None:
        """Pass on that the hub has committed the session's entries up to `seq`."""
        one = self._sessions.get(session)
        if one is not None:
            one.source.confirm(seq)

    def publish(self, state: SessionState, entries: Sequence[EncodedEntry], *, state_changed: bool) -> None:
        one = self._sessions.get(state.id)
        if one is None:
            return
        one.state = state
        one.state_due = one.state_due or state_changed
        if self._connected and not one.muted:
            one.push(entries)
            self._mark_ready(state.id)

    def publish_deltas(self, session: str, deltas: list[Delta]) -> None:
        one = self._sessions.get(session)
        if one is not None and self._connected and not one.muted:
            one.push_deltas(deltas)
            self._mark_ready(session)

    def open(self, acked: dict[str, int], foreign: Collection[str] = ()) -> None:
        """A link is up. Its hub holds the entries up to `acked` and does not know the `foreign` sessions."""
        self._connected = True
        for id, one in self._sessions.items():
            one.muted = id in foreign
            one.sent = min(acked.get(id, 0), one.state.seq)
            one.state_due = True
            self._mark_ready(id)

    def close(self) -> None:
        """The link is down. The next one begins with what the hub holds then."""
        self._connected = False
        self._ready.clear()
        for one in self._sessions.values():
            one.drop_buffer()
            one.pop_deltas()

    async def next(self) -> SessionOutbox:
        """Wait for the session that has had something to send for longest."""
        while True:
            while self._ready:
                id, _ = self._ready.popitem(last=False)
                one = self._sessions.get(id)
                if one is not None and one.has_unsent:
                    return one
            self._wake.clear()
            await self._wake.wait()

    def requeue(self, one: SessionOutbox) -> None:
        """Put a session at the end of the queue if something is left to send."""
        if one.has_unsent:
            self._mark_ready(one.state.id)

    def _mark_ready(self, session: str) -> None:
        self._ready[session] = None
        self._wake.set()
