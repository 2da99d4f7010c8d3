"""The subscriptions of all live clients, whatever protocol they use: authentication, start and end.

A client connects with a JWT, which proves who it is for 15 minutes. Its subscription lives as long as the access token
behind the JWT. The namespace and the scopes of an access token never change: it is valid as it is, or it is revoked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from farsteer.core.clock import now_ms
from farsteer.core.errors import ErrorCode, FarsteerError, Forbidden, Unauthorized, Unavailable
from farsteer.core.ids import new_id
from farsteer.core.live_events import ReadyEvent, Resume
from farsteer.faces.events.fanout import Fanout
from farsteer.faces.events.subscriber import Subscriber
from farsteer.hub import Caller, Hub, Scope
from farsteer.hub.feed import cursor_text, parse_cursor

_logger = logging.getLogger(__name__)


class Subscriptions:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._fanout = Fanout(hub.feed)
        self._open: dict[Subscriber, Subscription] = {}
        self._catch_up_tasks: set[asyncio.Task[None]] = set()
        self._listening = ExitStack()

    def start(self) -> None:
        self._fanout.start()
        self._listening.callback(self._hub.tokens.on_revoke(self._on_token_revoked))
        self._listening.callback(self._hub.feed.on_new_epoch(self._on_new_epoch))

    async def close(self) -> None:
        self._listening.close()
        self._fanout.close()
        for subscriber in tuple(self._open):
            self.remove(subscriber)
        await asyncio.gather(*self._catch_up_tasks, return_exceptions=True)

    def authenticate(self, token: str, address: str) -> Caller:
        """Return the caller of a JWT. Raises Unauthorized, or Forbidden if it lacks the scope `read`."""
        caller = self._hub.tokens.verify(token, address)
        caller.require(Scope.READ)
        return caller

    def check_room(self, caller: Caller) -> None:
        """Raise RateLimited if the namespace has too many live connections."""
        self._hub.sockets.check(caller.namespace)

    def add(self, subscriber: Subscriber, caller: Caller, since: str | None) -> None:
        """Send `ready` and start to deliver, from the cursor `since` or from now.

        A subscriber whose token was revoked since it was authenticated is closed instead.
        """
        try:
            expires_at = self._hub.tokens.expiry(caller.token_id)
        except Unauthorized as error:
            subscriber.close(error)
            return
        subscription = Subscription(
            self._hub, self._fanout, subscriber, caller, expires_at, partial(self._close, subscriber)
        )
        self._open[subscriber] = subscription
        self._hub.metrics.clients += 1
        self._hub.sockets.add(caller.namespace)
        if since is None:
            subscription.go_live("none")
        else:
            task = asyncio.create_task(subscription.resume(since))
            self._catch_up_tasks.add(task)
            task.add_done_callback(self._catch_up_tasks.discard)
            subscription.catch_up_task = task

    def renew(self, subscriber: Subscriber | None, token: str, address: str = "") -> int | None:
        """Check a newer JWT of the same access token, for clients of 0.1, whose connections ended with their JWT.

        Returns:
            When the access token expires, in milliseconds since the epoch; None if it never does.

        Raises:
            Unauthorized: the JWT is invalid, or the connection is being closed.
            Forbidden: it belongs to another access token or namespace.
        """
        caller = self.authenticate(token, address)
        subscription = None if subscriber is None else self._open.get(subscriber)
        if subscription is None:
            raise Unauthorized("this connection is being closed")
        current = subscription.caller
        if (caller.namespace, caller.token_id) != (current.namespace, current.token_id):
            raise Forbidden("this JWT belongs to another access token: open a new connection for it")
        return subscription.expires_at

    def remove(self, subscriber: Subscriber) -> None:
        """Stop delivering. Idempotent."""
        subscription = self._open.pop(subscriber, None)
        if subscription is not None:
            self._hub.metrics.clients -= 1
            self._hub.sockets.remove(subscription.caller.namespace)
            self._hub.slow_readers.remove(subscriber)
            subscription.close()

    def __len__(self) -> int:
        return len(self._open)

    def _close(self, subscriber: Subscriber, error: FarsteerError) -> None:
        self.remove(subscriber)
        subscriber.close(error)

    def _on_token_revoked(self, token_id: str) -> None:
        for subscriber, subscription in tuple(self._open.items()):
            if subscription.caller.token_id == token_id:
                self._close(subscriber, subscription.end_of_token())

    def _on_new_epoch(self) -> None:
        """Close the clients that resumed from a cursor of the earlier epoch: they may have missed something.

        They connect again and get `gap`. All others go on: they have read what they show from this hub as it is.
        """
        for subscriber, subscription in tuple(self._open.items()):
            if subscription.has_resumed:
                self._close(
                    subscriber, Unavailable("the hub was set back to an earlier state; connect again")
                )


class Subscription:
    """The subscription of one client: its presence, and its place in the fan-out.

    `on_end` is called at most once, with an error that the client should be told.
    """

    def __init__(
        self,
        hub: Hub,
        fanout: Fanout,
        subscriber: Subscriber,
        caller: Caller,
        expires_at: int | None,
        on_end: Callable[[FarsteerError], None],
    ) -> None:
        self._hub = hub
        self._fanout = fanout
        self._subscriber = subscriber
        self._on_end = on_end
        self._id = new_id()
        self.caller = caller
        self.expires_at = expires_at
        """When the access token expires, in milliseconds since the epoch; None if it never does."""
        self.catch_up_task: asyncio.Task[None] | None = None
        """Runs `resume`."""
        self.has_resumed = False
        """It continues from a cursor that the client brought."""

    def go_live(self, resume: Resume) -> None:
        """Deliver what is published from now on."""
        self._subscriber.cursor = self._hub.feed.head(self._subscriber.filter.namespace)
        self._start(resume)

    async def resume(self, since: str) -> None:
        """Deliver everything after a cursor, or from now on if the hub no longer has all of it."""
        subscriber = self._subscriber
        store = self._hub.store
        try:
            bounds = await store.feed_bounds(subscriber.filter.namespace)
            position = parse_cursor(store.epoch, since)
            if position is None or not bounds.lowest <= position <= bounds.highest:
                self.go_live("gap")
                return
            self.has_resumed = True
            subscriber.start_catch_up(position)
            self._start("ok")
            await subscriber.catch_up(store)
        except TimeoutError:
            subscriber.cut_off()
        except FarsteerError as error:
            self._on_end(error)
        except Exception:
            _logger.exception("cannot read events for a client that catches up")
            self._on_end(Unavailable("the events could not be read; connect again"))

    def close(self) -> None:
        """Idempotent."""
        self._fanout.remove(self._subscriber)
        self._hub.presence.leave(self._id)
        if self.catch_up_task is not None and self.catch_up_task is not asyncio.current_task():
            self.catch_up_task.cancel()

    def end_of_token(self) -> Unauthorized:
        """Return why the access token is no longer valid."""
        if self.expires_at is not None and self.expires_at <= now_ms():
            return Unauthorized("the token has expired", code=ErrorCode.TOKEN_EXPIRED)
        return Unauthorized("this token was revoked")

    def _start(self, resume: Resume) -> None:
        subscriber = self._subscriber
        cursor = cursor_text(self._hub.store.epoch, subscriber.cursor)
        subscriber.send_ready(ReadyEvent(cursor=cursor, resume=resume, expires_at=self.expires_at))
        self._fanout.add(subscriber)
        # After it was added, so that the client gets the event about its own presence too.
        self._hub.presence.join(self.caller, self._id, subscriber.filter.session_id)
