"""Follows a session: the end of its log, then every new entry exactly once, and deltas in their place."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from farsteer.client.live_events import Gap, LiveEvent
from farsteer.core.api import SessionView
from farsteer.core.events import Delta, Entry

if TYPE_CHECKING:
    from farsteer.client import AsyncClient, EventStream

_LOG_TYPES = ("message-received", "message-delta", "session-removed")
_STATE_TYPES = ("session-updated", "messages-cleared")
_MAX_EARLY = 5000

Change = SessionView | Entry | Delta | LiveEvent


class Follower:
    """Yields the last `tail` entries of a session's log, then entries and deltas as they arrive."""

    def __init__(self, client: AsyncClient, session_id: str, tail: int) -> None:
        self._client = client
        self._session_id = session_id
        self._tail = tail
        self._seq = 0
        self._first_seq = 0
        self._early: deque[Delta] = deque(maxlen=_MAX_EARLY)
        """Deltas that arrived before an entry that precedes them, as after a reconnect."""
        self._stream: EventStream | None = None
        self.has_older = True
        """Whether the log may have entries before those that were returned."""

    @property
    def connected(self) -> bool:
        return self._stream is not None and self._stream.connected

    async def updates(self) -> AsyncIterator[Entry | Delta]:
        """Iterate over entries and deltas until the session is deleted."""
        async for change in self._changes(_LOG_TYPES):
            if isinstance(change, Entry | Delta):
                yield change

    async def changes(self) -> AsyncIterator[Change]:
        """Iterate over everything about the session until it is deleted.

        The first one is the session. It is returned again if events were missed that the hub can no longer replay. A
        `LiveEvent` is a `session-updated` or a `messages-cleared`.
        """
        async for change in self._changes((*_LOG_TYPES, *_STATE_TYPES)):
            yield change

    async def older(self, count: int) -> list[Entry]:
        """Return up to `count` entries before the first one that was returned, oldest first."""
        if not self._first_seq or not self.has_older:
            return []
        entries: list[Entry] = []
        async for entry in self._client.history(self._session_id, before=self._first_seq):
            entries.append(entry)
            if len(entries) >= count:
                break
        self._note_first(entries, count)
        return entries[::-1]

    def forget_older(self, seq: int) -> None:
        """Let `older` begin again before the entry `seq`."""
        self._first_seq, self.has_older = seq, True

    async def _changes(self, types: tuple[str, ...]) -> AsyncIterator[Change]:
        # Subscribes before it reads the session and its log, so that nothing falls between them.
        async with self._client.events(self._session_id, types=types) as stream:
            self._stream = stream
            session = await self._client.session(self._session_id)
            yield session
            for entry in await self._read_tail(session.seq):
                yield self._count(entry)
            async for event in stream:
                if isinstance(event, Gap):
                    yield await self._client.session(self._session_id)
                    async for entry in self._client.messages(self._session_id, after=self._seq):
                        yield self._count(entry)
                elif event.type == "session-removed":
                    return
                elif event.entry is not None and event.entry.seq > self._seq:
                    yield self._count(event.entry)
                elif event.delta is not None:
                    self._early.append(event.delta)
                elif event.type in _STATE_TYPES:
                    yield event
                while self._early and self._early[0].after <= self._seq:
                    yield self._early.popleft()

    def _count(self, entry: Entry) -> Entry:
        self._seq = max(self._seq, entry.seq)
        return entry

    async def _read_tail(self, seq: int) -> list[Entry]:
        entries: list[Entry] = []
        if self._tail > 0:
            async for entry in self._client.history(self._session_id):
                entries.append(entry)
                if len(entries) >= self._tail:
                    break
        self._seq = seq
        self._note_first(entries, self._tail)
        return entries[::-1]

    def _note_first(self, newest_first: list[Entry], wanted: int) -> None:
        if newest_first:
            self._first_seq = newest_first[-1].seq
        self.has_older = len(newest_first) >= max(1, wanted) and self._first_seq > 1
