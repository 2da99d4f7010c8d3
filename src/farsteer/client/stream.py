"""`EventStream`: live events over server-sent events, with reconnection."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from types import TracebackType

import httpx
import msgspec

from farsteer.client.connection import RestConnection, jittered
from farsteer.client.live_events import Gap, LiveEvent, decode_event
from farsteer.client.time_limit import time_limit
from farsteer.core.errors import FarsteerError, RateLimited, TimedOut, TooLarge, Unavailable

FIRST_DELAY = 0.2
MAX_DELAY = 15.0
FIRST_ATTEMPTS = 3
MAX_EVENT_BYTES = 64 * 1024 * 1024


class _Ready(msgspec.Struct):
    """The first event of a stream."""

    cursor: str | None = None
    resume: str | None = None


class EventStream:
    """An async iterator of `LiveEvent`. Get one from `AsyncClient.events`.

    As a context manager it has subscribed when its body begins. After a lost connection it reconnects and resumes
    behind the last event it returned, so that no event is missed or returned twice. If the hub can no longer replay
    what was missed, it returns a `Gap`. Deltas are not stored: those sent while there was no connection are lost, but
    the complete message follows.

    Iterating raises `Unavailable` if the first connection fails three times, or if reconnecting takes longer than
    `reconnect_timeout` seconds, `TimedOut` if the next event takes longer than `timeout` seconds, and `Unauthorized` if
    the access token was revoked or has expired. A connection lives as long as the access token, not only as long as the
    JWT that opened it.
    """

    def __init__(
        self,
        connection: RestConnection,
        *,
        session_id: str | None = None,
        types: Iterable[str] | None = None,
        since: str | None = None,
        reconnect_timeout: float | None = None,
        timeout: float | None = None,
    ) -> None:
        self.cursor = since
        """Where to resume after the last event that was returned."""
        self._connection = connection
        self._session_id = session_id
        self._types = ",".join(types) if types is not None else None
        self._reconnect_timeout = reconnect_timeout
        self._timeout = timeout
        self._receiving: asyncio.Task[None] | None = None
        self._received: deque[LiveEvent] = deque()
        self._response: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._parser = SseParser()
        self._connected_once = False
        self._failures = 0
        self._lost_at = 0.0
        self._closed = False

    async def __aenter__(self) -> EventStream:
        async with time_limit(self._timeout, "subscribing to events"):
            await self._connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def connected(self) -> bool:
        """Whether there is a connection now; if not, the iterator is reconnecting."""
        return self._chunks is not None

    async def aclose(self) -> None:
        """Close the connection and end the iteration. Idempotent."""
        self._closed = True
        if self._receiving is not None:
            self._receiving.cancel()
            await asyncio.wait({self._receiving})
        await self._disconnect()

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> LiveEvent:
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        while not self._received:
            if self._closed:
                raise StopAsyncIteration
            if deadline is None:
                await self._receive()
            else:
                await self._receive_until(deadline)
        event = self._received.popleft()
        # Not set earlier: an event that was received but not returned must be replayed after a reconnect.
        self.cursor = event.cursor or self.cursor
        return event

    async def _receive(self) -> None:
        """Read one chunk, or reconnect if there is no connection."""
        if self._chunks is None:
            await self._connect()
            return
        try:
            chunk = await anext(self._chunks, None)
        except httpx.TransportError:
            chunk = None
        except BaseException:
            await self._disconnect()
            raise
        if chunk is None:
            await self._disconnect()
            return
        self._failures = 0
        try:
            events = self._parser.feed(chunk)
        except TooLarge:
            await self._disconnect()
            raise
        for event in events:
            self._handle_event(event)

    async def _receive_until(self, deadline: float) -> None:
        """Do the same in a task that goes on after a timeout, because cancelling it would close the connection."""
        if self._receiving is None:
            self._receiving = asyncio.create_task(self._receive())
        done, _ = await asyncio.wait({self._receiving}, timeout=deadline - time.monotonic())
        if not done:
            raise TimedOut(f"no event arrived within {self._timeout:g} s")
        task, self._receiving = self._receiving, None
        if not task.cancelled():
            task.result()

    async def _connect(self) -> None:
        """Try to subscribe until the hub has confirmed it."""
        while True:
            await self._delay()
            try:
                await self._subscribe()
            except (Unavailable, RateLimited) as error:
                self._raise_if_exhausted(error)
            else:
                self._connected_once = True
                return

    async def _delay(self) -> None:
        if self._failures == 0:
            self._lost_at = time.monotonic()
        else:
            delay = min(MAX_DELAY, FIRST_DELAY * 2 ** min(self._failures - 1, 16))
            await asyncio.sleep(jittered(delay))
        # Reset by received data, not by a connection: a hub that accepts and closes at once must not be flooded.
        self._failures += 1

    def _raise_if_exhausted(self, error: FarsteerError) -> None:
        if not self._connected_once and self._failures >= FIRST_ATTEMPTS:
            raise error
        timeout = self._reconnect_timeout
        if timeout is not None and time.monotonic() - self._lost_at > timeout:
            raise error

    async def _subscribe(self) -> None:
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}
        if self.cursor is not None:
            headers["Last-Event-ID"] = self.cursor
        query = {"sessionId": self._session_id, "types": self._types}
        self._response = await self._connection.open_stream("/api/events", query=query, headers=headers)
        self._parser = SseParser()
        self._chunks = self._response.aiter_bytes()
        try:
            self._handle_first_events(await self._read_first_events(self._chunks))
        except BaseException:
            await self._disconnect()
            raise

    async def _read_first_events(self, chunks: AsyncIterator[bytes]) -> list[SseEvent]:
        try:
            async for chunk in chunks:
                events = self._parser.feed(chunk)
                if events:
                    return events
        except httpx.TransportError as error:
            raise self._connection.unreachable(error) from error
        raise Unavailable(f"{self._connection.url} closed the stream before its first event")

    def _handle_first_events(self, events: list[SseEvent]) -> None:
        for event in events:
            if event.name != "ready":
                self._handle_event(event)
                continue
            ready = msgspec.json.decode(event.data, type=_Ready)
            if ready.resume == "gap":
                self._received.append(Gap("gap", cursor=ready.cursor, body=event.data))
            elif self.cursor is None:
                self.cursor = ready.cursor

    def _handle_event(self, event: SseEvent) -> None:
        # Events with another name are about the stream itself, such as `closed` before the hub closes it.
        if event.name == "message":
            self._received.append(decode_event(event.data, event.id))

    async def _disconnect(self) -> None:
        """Close the connection. Events that were received but not returned are replayed from the cursor."""
        self._received.clear()
        self._chunks = None
        response, self._response = self._response, None
        if response is not None:
            await response.aclose()


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One server-sent event."""

    name: str
    data: bytes
    id: str | None


class SseParser:
    """Parses server-sent events from chunks that may be cut anywhere."""

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._line_parts: list[bytes] = []
        """Parts of the unfinished line, joined only once, so that a long line costs linear time."""
        self._data: list[bytes] = []
        self._buffered = 0
        self._name = ""
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that are complete now.

        Raises:
            TooLarge: An event is larger than the limit.
        """
        first, newline, others = chunk.partition(b"\n")
        self._line_parts.append(first)
        self._buffered += len(first)
        if self._buffered > self._limit:
            raise TooLarge(f"an event has more than {self._limit} bytes")
        if not newline:
            return []
        lines = others.split(b"\n")
        lines.insert(0, b"".join(self._line_parts))
        self._line_parts = [lines.pop()]
        events = [event for line in lines if (event := self._parse_line(line.removesuffix(b"\r")))]
        self._buffered = len(self._line_parts[0]) + sum(map(len, self._data))
        return events

    def _parse_line(self, line: bytes) -> SseEvent | None:
        """Return the event that an empty line completes."""
        if not line:
            return self._finish_event()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode(errors="replace")
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
        return None

    def _finish_event(self) -> SseEvent | None:
        data, name, id = self._data, self._name, self._id
        self._data, self._name, self._id = [], "", None
        if not data:
            return None
        return SseEvent(name or "message", b"\n".join(data), id)
