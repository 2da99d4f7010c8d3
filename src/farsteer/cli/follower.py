"""A session as it is followed: its log from some point on, with nothing missing and nothing twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from farsteer.client.live import Gap
from farsteer.core.events import Delta, Entry

if TYPE_CHECKING:
    from farsteer.client import AsyncClient, EventStream


class Follower:
    """Gives the last entries of a log, then what comes. Subscribes first, so that nothing falls in between."""

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
        """Ends when the session is deleted."""
        types = ("message-received", "message-delta", "messages-cleared", "session-removed")
        async with self._client.events(self._session_id, types=types) as stream:
            self._stream = stream
            for entry in await self._history():
                yield self._seen(entry)
            async for event in stream:
                if isinstance(event, Gap):
                    async for entry in self._client.messages(self._session_id, after=self._seq):
                        yield self._seen(entry)
                elif event.type == "session-removed":
                    return
                elif event.entry is not None and event.entry.seq > self._seq:
                    yield self._seen(event.entry)
                elif event.delta is not None:
                    yield event.delta

    def _seen(self, entry: Entry) -> Entry:
        self._seq = entry.seq
        return entry

    async def _history(self) -> list[Entry]:
        entries: list[Entry] = []
        if self._tail > 0:
            async for entry in self._client.history(self._session_id):
                entries.append(entry)
                if len(entries) >= self._tail:
                    break
        else:
            self._seq = (await self._client.session(self._session_id)).seq
        return entries[::-1]
