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

from farsteer.core.events import Delta, SlashCommand
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
    confirmed: int = 0
    """The last entry that a hub has confirmed."""
    state_due: bool = True
    """The state has changed since it was sent last."""
    sent_commands: tuple[SlashCommand, ...] | None = None
    """The agent's commands, which are most of a state, as they were sent over the current link."""
    muted: bool = False
    """The connected hub does not know the session: nothing is sent."""
    sending: bool = False
    """A large part of it is on its way. What follows waits, so that it stays in order."""
    buffer: list[EncodedEntry] = field(default_factory=list[EncodedEntry])
    buffered_bytes: int = 0
    deltas: list[Delta] = field(default_factory=list[Delta])
    delta_chars: int = 0

    @property
    def has_unsent(self) -> bool:
        if self.muted or self.sending:
            return False
        return self.sent < self.state.seq or self.state_due or bool(self.deltas)

    def pop_state(self, *, may_keep_commands: bool) -> tuple[SessionState, bool]:
        """Return the state to send, and whether it has no commands because they were sent over this link before."""
        state, self.state_due = self.state, False
        if may_keep_commands and state.commands is self.sent_commands:
            return msgspec.structs.replace(state, commands=()), True
        self.sent_commands = state.commands
        return state, False

    def repeat_state(self) -> None:
        """Send the whole state again: the other end does not have it."""
        self.state_due, self.sent_commands = True, None

    def push(self, entries: Sequence[EncodedEntry]) -> None:
        """Buffer entries that continue the buffer. One that grows too large is dropped: the journal has its entries."""
        if self.buffer and entries and entries[0].seq != self.buffer[-1].seq + 1:
            return
        self.buffer.extend(entries)
        self.buffered_bytes += sum(len(entry.body) for entry in entries)
        if len(self.buffer) > _BUFFER_ENTRIES or self.buffered_bytes > _BUFFER_BYTES:
            self.drop_buffer()

    def refill(self, entries: list[EncodedEntry]) -> None:
        """Fill the buffer with a page of the journal of any size. What was buffered meanwhile stays if it follows."""
        buffered = [entry for entry in self.buffer if entry.seq > entries[-1].seq] if entries else []
        self.buffer, self.buffered_bytes = entries, sum(len(entry.body) for entry in entries)
        if buffered and self.buffered_bytes <= _BUFFER_BYTES:
            self.push(buffered)

    def pop_buffer(self, max_bytes: int) -> list[EncodedEntry]:
        """Return the next entries of the buffer, at least one. If they do not continue `sent`, it is emptied instead.

        Then the journal must be read.
        """
        entries = self.buffer
        if not entries or entries[0].seq != self.sent + 1:
            self.drop_buffer()
            return []
        if self.buffered_bytes <= max_bytes:
            self.drop_buffer()
            return entries
        count = size = 0
        for entry in entries:
            size += len(entry.body)
            if count and size > max_bytes:
                size -= len(entry.body)
                break
            count += 1
        self.buffer = entries[count:]
        self.buffered_bytes -= size
        return entries[:count]

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
        self._ending = False

    def add_session(self, state: SessionState, source: EntrySource, confirmed: int = 0) -> None:
        self._sessions[state.id] = SessionOutbox(state, source, sent=state.seq, confirmed=confirmed)

    def update_state(self, state: SessionState) -> None:
        self._sessions[state.id].state = state

    def remove_session(self, session: str) -> None:
        self._sessions.pop(session, None)
        self._ready.pop(session, None)

    def last_seqs(self) -> dict[str, int]:
        """Return the number of the last entry of each session."""
        return {id: one.state.seq for id, one in self._sessions.items()}

    def confirmed_seqs(self) -> dict[str, int]:
        """Return the number of the last entry that a hub has confirmed, of each session that has one."""
        return {id: one.confirmed for id, one in self._sessions.items() if one.confirmed}

    def held_items(self) -> dict[str, list[str]]:
        """Return the items that wait or are in work, of each session that has any."""
        return {
            id: [ref.id for ref in one.state.queue] for id, one in self._sessions.items() if one.state.queue
        }

    def confirm(self, session: str, seq: int) -> None:
        """Pass on that the hub has committed the session's entries up to `seq`."""
        one = self._sessions.get(session)
        if one is not None:
            one.confirmed = seq
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
            one.muted, one.sending = id in foreign, False
            one.sent = min(acked.get(id, 0), one.state.seq)
            one.confirmed = acked.get(id, one.confirmed)
            one.repeat_state()
            self._mark_ready(id)

    def adopt(self, session: str, acked: int) -> None:
        """The connected hub has the session now, with the entries up to `acked`. Idempotent."""
        one = self._sessions[session]
        if one.muted:
            one.muted = False
            one.sent, one.confirmed = min(acked, one.state.seq), acked
            one.repeat_state()
            self._mark_ready(session)

    def confirmed_seq(self, session: str) -> int:
        """Return the last entry that a hub has confirmed."""
        return self._sessions[session].confirmed

    def close(self) -> None:
        """The link is down. The next one begins with what the hub holds then."""
        self._connected = False
        self._ready.clear()
        for one in self._sessions.values():
            one.drop_buffer()
            one.pop_deltas()

    def end(self) -> None:
        """Nothing more comes: `next` returns None when everything was sent."""
        self._ending = True
        self._wake.set()

    async def next(self) -> SessionOutbox | None:
        """Wait for the session that has had something to send for longest."""
        while True:
            while self._ready:
                id, _ = self._ready.popitem(last=False)
                one = self._sessions.get(id)
                if one is not None and one.has_unsent:
                    return one
            if self._ending and not any(one.sending for one in self._sessions.values()):
                return None
            self._wake.clear()
            await self._wake.wait()

    def requeue(self, one: SessionOutbox) -> None:
        """Put a session at the end of the queue if something is left to send."""
        if one.has_unsent:
            self._mark_ready(one.state.id)
        elif self._ending:
            self._wake.set()  # It may have been the last.

    def _mark_ready(self, session: str) -> None:
        self._ready[session] = None
        self._wake.set()
