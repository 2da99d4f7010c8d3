"""The feed: everything that happens in a namespace, as the SyncEvents every face sends out.

A `SyncEvent` is encoded once, here. A stored one carries its place in the hub's log, the cursor a client resumes from;
a transient one (delta, typing, presence) has none. Faces register one listener each and do their own framing once.
Stored events reach the listeners in the order of their cursors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import lru_cache

import msgspec

from farsteer.core.wire import encode

_log = logging.getLogger(__name__)

MESSAGE = "message-received"

_PAYLOAD = {
    MESSAGE: b'"message":',
    "message-delta": b'"delta":',
    "typing-changed": b'"typing":',
    "online-users-changed": b'"users":',
}


class SyncEvent(msgspec.Struct, frozen=True, gc=False):
    namespace: str
    type: str
    subject: str | None
    """The session or machine it is about."""
    data: bytes
    """The whole event as JSON."""
    cursor: int | None = None
    merge_key: str | None = None
    """Transient events with the same key may be merged or replaced for a slow client."""


def sync_event(
    namespace: str,
    type: str,
    subject: str | None,
    payload: bytes | None,
    *,
    epoch: str = "",
    cursor: int | None = None,
    merge_key: str | None = None,
) -> SyncEvent:
    """Build the wire form by splicing the already encoded payload in."""
    data = _head(namespace, type, subject)
    if cursor is not None:
        data = b'%b,"cursor":"%b-%d"' % (data, epoch.encode(), cursor)
    if payload is not None:
        data = b"%b,%b%b" % (data, _PAYLOAD.get(type, b'"data":'), payload)
    return SyncEvent(namespace, type, subject, data + b"}", cursor, merge_key)


def message_events(
    namespace: str, session_id: str, epoch: str, rows: Iterable[tuple[int, bytes | msgspec.Raw]]
) -> list[SyncEvent]:
    """`sync_event` for many messages of one session, given as (cursor, encoded entry)."""
    start = b'%b,"cursor":"%b-' % (_head(namespace, MESSAGE, session_id), epoch.encode())
    return [
        SyncEvent(namespace, MESSAGE, session_id, b'%b%d","message":%b}' % (start, cursor, body), cursor)
        for cursor, body in rows
    ]


@lru_cache(4096)
def _head(namespace: str, type: str, subject: str | None) -> bytes:
    parts = [b'{"type":', encode(type), b',"namespace":', encode(namespace)]
    if subject is not None:
        key = b"machineId" if type == "machine-updated" else b"sessionId"
        parts += [b',"', key, b'":', encode(subject)]
    return b"".join(parts)


def cursor_text(epoch: str, cursor: int) -> str:
    """A cursor as clients see it: opaque, and bound to this store."""
    return f"{epoch}-{cursor}"


def parse_cursor(epoch: str, text: str) -> int | None:
    """The position, or None if the cursor is of another store or no cursor at all."""
    prefix, _, number = text.rpartition("-")
    if prefix != epoch or not number.isascii() or not number.isdigit() or len(number) > 18:
        return None
    return int(number)


Listener = Callable[[list[SyncEvent]], None]


class Feed:
    """Hands each batch of events to every listener, in order, on the event loop. One that fails harms no other."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._start = 0
        self._heads: dict[str, int] = {}

    def start_at(self, cursor: int) -> None:
        """Set the cursor that every namespace stands at. Called by the store when it is opened."""
        self._start = cursor

    def head(self, namespace: str) -> int:
        """Return the last cursor published in a namespace: a listener gets everything after it."""
        return self._heads.get(namespace, self._start)

    def listen(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def publish(self, events: list[SyncEvent]) -> None:
        for event in events:
            if event.cursor is not None:
                self._heads[event.namespace] = event.cursor
        for listener in tuple(self._listeners):
            try:
                listener(events)
            except Exception:  # noqa: BLE001
                _log.exception("a listener of the feed failed")
