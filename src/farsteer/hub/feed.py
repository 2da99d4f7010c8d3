"""The feed: everything that happens in a namespace, as the SyncEvents that faces send to their clients.

Each `SyncEvent` is encoded once, here. A stored event has a cursor, from which a client can resume; a transient one
(delta, typing, presence) has none. Each face registers one listener and builds its frames once for all its clients.
Listeners get the stored events of a namespace in the order of their cursors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import lru_cache

import msgspec

from farsteer.core.wire import encode

_logger = logging.getLogger(__name__)

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
    """Transient events with the same key may be merged into one for a slow client."""
    epoch: str = ""
    """Of the cursor."""


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
    """Build an event around a payload that is already encoded."""
    data = _head(namespace, type, subject)
    if cursor is not None:
        data = b'%b,"cursor":"%b-%d"' % (data, epoch.encode(), cursor)
    if payload is not None:
        data = b"%b,%b%b" % (data, _PAYLOAD.get(type, b'"data":'), payload)
    return SyncEvent(namespace, type, subject, data + b"}", cursor, merge_key, epoch)


def message_events(
    namespace: str, session_id: str, epoch: str, rows: Iterable[tuple[int, bytes | msgspec.Raw]]
) -> list[SyncEvent]:
    """Build the events of many entries of one session, given as (cursor, encoded entry), faster than one by one."""
    start = b'%b,"cursor":"%b-' % (_head(namespace, MESSAGE, session_id), epoch.encode())
    return [
        SyncEvent(
            namespace,
            MESSAGE,
            session_id,
            b'%b%d","message":%b}' % (start, cursor, body),
            cursor,
            None,
            epoch,
        )
        for cursor, body in rows
    ]


@lru_cache(4096)
def _head(namespace: str, type: str, subject: str | None) -> bytes:
    parts = [b'{"type":', encode(type), b',"namespace":', encode(namespace)]
    if subject is not None:
        key = b"machineId" if type in ("machine-updated", "machine-removed") else b"sessionId"
        parts += [b',"', key, b'":', encode(subject)]
    return b"".join(parts)


def cursor_text(epoch: str, cursor: int) -> str:
    """Return a cursor as clients see it: opaque, and valid while the store has this epoch."""
    return f"{epoch}-{cursor}"


def parse_cursor(epoch: str, text: str) -> int | None:
    """Return the position, or None if the text is not a cursor of this epoch."""
    prefix, _, number = text.rpartition("-")
    if prefix != epoch or not number.isascii() or not number.isdigit() or len(number) > 18:
        return None
    return int(number)


Listener = Callable[[list[SyncEvent]], None]


class Feed:
    """Passes each batch of events to every listener, in order, on the event loop.

    An exception of one listener is logged and does not affect the others.
    """

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._epoch_listeners: list[Callable[[], None]] = []
        self._start = 0
        self._heads: dict[str, int] = {}

    def start_at(self, cursor: int) -> None:
        """Set the head of all namespaces in which nothing was published yet. The store calls this when it is opened."""
        self._start = cursor

    def head(self, namespace: str) -> int:
        """Return the last cursor published in a namespace. A listener that is added now gets everything after it."""
        return self._heads.get(namespace, self._start)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Add a listener and return a function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def on_new_epoch(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when a new epoch has begun. Return a function that removes it."""
        self._epoch_listeners.append(listener)
        return lambda: self._epoch_listeners.remove(listener)

    def begin_epoch(self) -> None:
        """Tell the listeners. The store calls this after the commit, before it publishes anything under the epoch."""
        for listener in tuple(self._epoch_listeners):
            listener()

    def publish(self, events: list[SyncEvent]) -> None:
        for event in events:
            if event.cursor is not None:
                self._heads[event.namespace] = event.cursor
        for listener in tuple(self._listeners):
            try:
                listener(events)
            except Exception:
                _logger.exception("feed listener failed")
