"""A live stream that survives its connections: it reconnects, resumes from its cursor and says so when it cannot."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from types import TracebackType

import httpx
import msgspec

from farsteer.client.http import Connection, jittered
from farsteer.client.live import Gap, LiveEvent, read_event
from farsteer.client.sse import EventParser, ServerEvent
from farsteer.core.errors import FarsteerError, RateLimited, TooLarge, Unavailable

FIRST_DELAY = 0.2
LONGEST_DELAY = 15.0
FIRST_ATTEMPTS = 3


class _Ready(msgspec.Struct):
    cursor: str | None = None
    resume: str | None = None


class EventStream:
    """An async iterator of `LiveEvent`; also a context manager, which has subscribed when its body begins.

    After a lost connection it goes on behind the last event it gave, with none missing and none twice. Deltas are
    not stored: those of the time without a connection are lost, the whole message is not.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        session_id: str | None = None,
        types: Iterable[str] | None = None,
        since: str | None = None,
        patience: float | None = None,
    ) -> None:
        self.cursor = since
        self._connection = connection
        self._session_id = session_id
        self._types = ",".join(types) if types is not None else None
        self._patience = patience
        self._waiting: deque[LiveEvent] = deque()
        self._response: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._parser = EventParser()
        self._connected_once = False
        self._failures = 0
        self._lost_at = 0.0
        self._closed = False

    async def __aenter__(self) -> EventStream:
        await self._connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def connected(self) -> bool:
        """Whether there is a connection now; without one it is being looked for."""
        return self._chunks is not None

    async def aclose(self) -> None:
        self._closed = True
        await self._drop()

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> LiveEvent:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            await self._fill()
        event = self._waiting.popleft()
        # Only now: an event that was read but not given must come again after a reconnect.
        self.cursor = event.cursor or self.cursor
        return event

    async def _fill(self) -> None:
        if self._chunks is None:
            await self._connect()
            return
        try:
            chunk = await anext(self._chunks, None)
        except httpx.TransportError:
            chunk = None
        except BaseException:
            await self._drop()
            raise
        if chunk is None:
            await self._drop()
            return
        self._failures = 0
        try:
            events = self._parser.feed(chunk)
        except TooLarge:
            await self._drop()
            raise
        for event in events:
            self._take(event)

    async def _connect(self) -> None:
        """Subscribe, and return when the hub has said that it listens."""
        while True:
            await self._pause()
            try:
                await self._subscribe()
            except (Unavailable, RateLimited) as error:
                self._give_up(error)
            else:
                self._connected_once = True
                return

    async def _pause(self) -> None:
        if self._failures == 0:
            self._lost_at = time.monotonic()
        else:
            delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(self._failures - 1, 16))
            await asyncio.sleep(jittered(delay))
        # Counted down to none by the first data, so that a hub which accepts and hangs up is not hammered.
        self._failures += 1

    def _give_up(self, error: FarsteerError) -> None:
        if not self._connected_once and self._failures >= FIRST_ATTEMPTS:
            raise error
        if self._patience is not None and time.monotonic() - self._lost_at > self._patience:
            raise error

    async def _subscribe(self) -> None:
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}
        if self.cursor is not None:
            headers["Last-Event-ID"] = self.cursor
        query = {"sessionId": self._session_id, "types": self._types}
        self._response = await self._connection.subscribe("/api/events", query=query, headers=headers)
        self._parser = EventParser()
        self._chunks = self._response.aiter_bytes()
        try:
            self._ready(await self._first(self._chunks))
        except BaseException:
            await self._drop()
            raise

    async def _first(self, chunks: AsyncIterator[bytes]) -> list[ServerEvent]:
        try:
            async for chunk in chunks:
                events = self._parser.feed(chunk)
                if events:
                    return events
        except httpx.TransportError as error:
            raise self._connection.unreachable(error) from error
        raise Unavailable(f"{self._connection.url} closed the stream before it began")

    def _ready(self, events: list[ServerEvent]) -> None:
        for event in events:
            if event.name != "ready":
                self._take(event)
                continue
            ready = msgspec.json.decode(event.data, type=_Ready)
            if ready.resume == "gap":
                self._waiting.append(Gap("gap", cursor=ready.cursor, body=event.data))
            elif self.cursor is None:
                self.cursor = ready.cursor

    def _take(self, event: ServerEvent) -> None:
        # A named one is about the stream: `closed`, which its end follows.
        if event.name == "message":
            self._waiting.append(read_event(event.data, event.id))

    async def _drop(self) -> None:
        """Leave the connection. What was read from it and not given yet comes again from the cursor."""
        self._waiting.clear()
        self._chunks = None
        response, self._response = self._response, None
        if response is not None:
            await response.aclose()
