"""All live clients: who may come in, and when each must go, whatever protocol they speak."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from farsteer.core.errors import FarsteerError, Forbidden, Unauthorized
from farsteer.faces.events.fanout import Fanout
from farsteer.faces.events.subscriber import Subscriber
from farsteer.faces.events.subscription import Subscription
from farsteer.hub import Caller, Hub, Scope


class Subscriptions:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._fanout = Fanout(hub.feed)
        self._open: dict[Subscriber, Subscription] = {}
        self._catching_up: set[asyncio.Task[None]] = set()
        self._stop: Callable[[], None] | None = None

    async def start(self) -> None:
        self._fanout.start()
        self._stop = self._hub.tokens.on_revoke(self._revoked)

    async def close(self) -> None:
        if self._stop is not None:
            self._stop()
            self._stop = None
        self._fanout.close()
        for subscriber in tuple(self._open):
            self.leave(subscriber)
        await asyncio.gather(*self._catching_up, return_exceptions=True)

    def verify(self, token: str) -> Caller:
        caller = self._hub.tokens.verify(token)
        caller.require(Scope.READ)
        return caller

    def enter(self, subscriber: Subscriber, caller: Caller, since: str | None) -> None:
        """Greet the client and begin to deliver."""
        subscription = Subscription(
            self._hub, self._fanout, subscriber, caller, partial(self._end, subscriber)
        )
        self._open[subscriber] = subscription
        self._hub.metrics.clients += 1
        if since is None:
            subscription.go_live("none")
        else:
            task = asyncio.create_task(subscription.resume(since))
            self._catching_up.add(task)
            task.add_done_callback(self._catching_up.discard)
            subscription.task = task

    def renew(self, subscriber: Subscriber | None, token: str) -> int:
        """Go on under a newer JWT of the same token; when that one ends, in milliseconds."""
        caller = self.verify(token)
        subscription = None if subscriber is None else self._open.get(subscriber)
        if subscription is None:
            raise Unauthorized("too late: this connection is being closed")
        mine = subscription.caller
        if (caller.namespace, caller.token_id) != (mine.namespace, mine.token_id):
            raise Forbidden("this token is another's: open another connection for it")
        subscription.renew(caller)
        return caller.expires_at

    def leave(self, subscriber: Subscriber) -> None:
        """Idempotent."""
        subscription = self._open.pop(subscriber, None)
        if subscription is not None:
            self._hub.metrics.clients -= 1
            subscription.finish()

    def _end(self, subscriber: Subscriber, error: FarsteerError) -> None:
        self.leave(subscriber)
        subscriber.end(error)

    def _revoked(self, token_id: str) -> None:
        for subscriber, subscription in tuple(self._open.items()):
            if subscription.caller.token_id == token_id:
                self._end(subscriber, Unauthorized("this token was revoked"))

    def __len__(self) -> int:
        return len(self._open)
