"""Follows a session: the end of its log, then every new entry, each exactly once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from farsteer.client.live_events import Gap
from farsteer.core.events import Delta, Entry

if TYPE_CHECKING:
    from farsteer.client import AsyncClient, EventStream

_EVENT_TYPES = ("message-received", "message-delta", "messages-cleared", "session-removed")


class Follower:
    """Yields the last `tail` entries of a session's log, then entries and deltas as they arrive."""

    def __init__(self, client: AsyncClient, session_id: str, tail: int) -> None:
        self._client = client
        self._session_id = session_id
        self._tail = tail
        self._seq = 0
        self._stream: EventStream | None = None

    @property
    def connected(self) -> bool:
        return self._stream is not None and self._stream.connected

    async def updates(self) -> AsyncIterator[Entry | Delta]:
        """Iterate until the session is deleted."""
        # Subscribes before it reads the log, so that no entry falls between the two.
        async with self._client.events(self._session_id, types=_EVENT_TYPES) as stream:
            self._stream = stream
            for entry in await self._read_tail():
                yield self._count(entry)
            async for event in stream:
                if isinstance(event, Gap):
                    async for entry in self._client.messages(self._session_id, after=self._seq):
                        yield self._count(entry)
                elif event.type == "session-removed":
                    return
                elif event.entry is not None and event.entry.seq > self._seq:
                    yield self._count(event.entry)
                elif event.delta is not None:
                    yield event.delta

    def _count(self, entry: Entry) -> Entry:
        self._seq = entry.seq
        return entry

    async def _read_tail(self) -> list[Entry]:
        entries: list[Entry] = []
        if self._tail > 0:
            async for entry in self._client.history(self._session_id):
                entries.append(entry)
                if len(entries) >= self._tail:
                    break
        else:
            self._seq = (await self._client.session(self._session_id)).seq
        return entries[::-1]
