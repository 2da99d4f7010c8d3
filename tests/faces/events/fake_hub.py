"""An in-memory hub with what live events need. A test decides when something is committed, published or read."""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any, cast

from farsteer.core.errors import ErrorCode, Unauthorized
from farsteer.core.ids import new_id
from farsteer.core.wire import encode
from farsteer.hub import Caller, Hub, Scope
from farsteer.hub.feed import Feed, SyncEvent, sync_event
from farsteer.hub.metrics import Metrics
from farsteer.hub.settings import HubSettings, Limits
from farsteer.hub.sockets import SlowReaders, Sockets
from farsteer.hub.store.base import FeedBounds, FeedPage

SESSION = "11111111-1111-4111-8111-111111111111"
OTHER_SESSION = "22222222-2222-4222-8222-222222222222"


class FakeStore:
    def __init__(self) -> None:
        self.epoch = "e1"
        self.rows: list[SyncEvent] = []
        self.reads = 0
        self.before_read: Callable[[], object] = lambda: None
        """Called before each read, as `after_read` is called after it, so that a test can publish in between."""
        self.after_read: Callable[[], object] = lambda: None
        self.lowest = 0

    async def read_feed(
        self,
        namespace: str,
        cursor: int,
        *,
        session_id: str | None = None,
        types: Collection[str] | None = None,
        limit: int = 1000,
    ) -> FeedPage:
        self.reads += 1
        self.before_read()
        await asyncio.sleep(0)
        found = [
            row
            for row in self.rows
            if row.namespace == namespace
            and (row.cursor or 0) > cursor
            and (session_id is None or row.subject == session_id)
            and (types is None or row.type in types)
        ]
        highest = self.rows[-1].cursor or 0 if self.rows else 0
        await asyncio.sleep(0)
        self.after_read()
        more = len(found) > limit
        events = found[:limit]
        return FeedPage(events, (events[-1].cursor or 0) if more else max(cursor, highest), more)

    async def feed_bounds(self, namespace: str) -> FeedBounds:
        await asyncio.sleep(0)
        return FeedBounds(self.lowest, (self.rows[-1].cursor or 0) if self.rows else 0)


class FakeTokens:
    def __init__(self) -> None:
        self._callers: dict[str, Caller] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._revoked: set[str] = set()
        self._expiries: dict[str, int] = {}
        self.verified = 0

    def issue(
        self,
        namespace: str = "default",
        *,
        seconds: float = 900,
        token_id: str = "owner",
        scopes: Collection[Scope] = frozenset({Scope.READ}),
    ) -> str:
        jwt = f"jwt-{new_id()}"
        expires_at = int((time.time() + seconds) * 1000)
        self._callers[jwt] = Caller(
            namespace=namespace, token_id=token_id, scopes=frozenset(scopes), expires_at=expires_at
        )
        return jwt

    def verify(self, jwt: str, address: str | None = None) -> Caller:
        self.verified += 1
        caller = self._callers.get(jwt)
        if caller is None:
            raise Unauthorized("the token is not valid")
        if self.has_expired(jwt):
            raise Unauthorized("the token has expired", code=ErrorCode.TOKEN_EXPIRED)
        if caller.token_id in self._revoked:
            raise Unauthorized("this token was revoked")
        return caller

    def has_expired(self, jwt: str) -> bool:
        return self._callers[jwt].expires_at <= time.time() * 1000

    def expiry(self, token_id: str) -> int | None:
        if token_id in self._revoked:
            raise Unauthorized("this token was revoked")
        return self._expiries.get(token_id)

    def set_expiry(self, token_id: str, seconds: float) -> int:
        """Let an access token expire. Only `revoke` ends its connections, as the timer of the hub's tokens does."""
        self._expiries[token_id] = int((time.time() + seconds) * 1000)
        return self._expiries[token_id]

    def revoke(self, token_id: str) -> None:
        self._revoked.add(token_id)
        for subscriber in [*self._listeners]:
            subscriber(token_id)

    def on_revoke(self, callback: Callable[[str], None]) -> Callable[[], None]:
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)


class FakePresence:
    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.online: dict[str, Caller] = {}

    def join(self, caller: Caller, connection_id: str, session_id: str | None = None) -> None:
        self.online[connection_id] = caller

    def leave(self, connection_id: str) -> None:
        self.online.pop(connection_id, None)


class FakeHub:
    def __init__(self, limits: Limits | None = None) -> None:
        self.settings = HubSettings(limits=limits or Limits())
        self.feed = Feed()
        self.store = FakeStore()
        self.tokens = FakeTokens()
        self.presence = FakePresence(self.feed)
        self.metrics = Metrics()
        self.sockets = Sockets(self.settings.limits)
        self.slow_readers = SlowReaders(self.settings.limits, self.metrics)
        self._cursor = 0

    @property
    def hub(self) -> Hub:
        return cast("Hub", self)

    def commit(
        self,
        *payloads: Any,
        namespace: str = "default",
        type: str = "message-received",
        subject: str = SESSION,
    ) -> list[SyncEvent]:
        """Store without publishing."""
        events: list[SyncEvent] = []
        for payload in payloads:
            self._cursor += 1
            event = sync_event(
                namespace, type, subject, encode(payload), epoch=self.store.epoch, cursor=self._cursor
            )
            self.store.rows.append(event)
            events.append(event)
        return events

    def publish(self, *payloads: Any, **where: Any) -> list[SyncEvent]:
        events = self.commit(*payloads, **where)
        self.feed.publish(events)
        return events

    def transient(
        self,
        payload: Any,
        *,
        type: str = "message-delta",
        namespace: str = "default",
        subject: str | None = SESSION,
        merge_key: str | None = None,
    ) -> None:
        self.feed.publish([sync_event(namespace, type, subject, encode(payload), merge_key=merge_key)])
