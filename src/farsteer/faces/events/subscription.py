"""What one live client holds: its lease, its presence and its way from a cursor to being live."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from farsteer.core.errors import ErrorCode, FarsteerError, Unauthorized, Unavailable
from farsteer.core.ids import new_id
from farsteer.faces.events.catchup import catch_up
from farsteer.faces.events.fanout import Fanout
from farsteer.faces.events.subscriber import Ready, Subscriber, Tail
from farsteer.hub import Caller, Hub
from farsteer.hub.feed import cursor_text, parse_cursor

logger = logging.getLogger(__name__)


class Subscription:
    """`end` is called once, when the client must go for a reason it should hear."""

    def __init__(
        self,
        hub: Hub,
        fanout: Fanout,
        subscriber: Subscriber,
        caller: Caller,
        end: Callable[[FarsteerError], None],
    ) -> None:
        self._hub = hub
        self._fanout = fanout
        self._subscriber = subscriber
        self._end = end
        self._id = new_id()
        self.caller = caller
        self.task: asyncio.Task[None] | None = None
        """Runs `resume`."""
        self._timer = self._lease()

    def go_live(self, resume: str) -> None:
        """From now on, whatever was before."""
        self._subscriber.cursor = self._hub.feed.head(self._subscriber.filter.namespace)
        self._join(resume)

    async def resume(self, since: str) -> None:
        """From a cursor, if the hub still has what came after it."""
        subscriber = self._subscriber
        store = self._hub.store
        try:
            bounds = await store.feed_bounds(subscriber.filter.namespace)
            position = parse_cursor(store.epoch, since)
            if position is None or not bounds.lowest <= position <= bounds.highest:
                self.go_live("gap")
                return
            subscriber.cursor = position
            subscriber.tail = Tail(subscriber.limits.tail)
            self._join("ok")
            await catch_up(subscriber, store)
        except TimeoutError:
            self._hub.metrics.clients_cut += 1
            subscriber.cut()
        except FarsteerError as error:
            self._end(error)
        except Exception:
            logger.exception("a client could not catch up")
            self._end(Unavailable("the events could not be read; connect again"))

    def renew(self, caller: Caller) -> None:
        self.caller = caller
        self._timer.cancel()
        self._timer = self._lease()

    def finish(self) -> None:
        """Idempotent."""
        self._timer.cancel()
        self._fanout.leave(self._subscriber)
        self._hub.presence.leave(self._id)
        if self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()

    def _lease(self) -> asyncio.TimerHandle:
        left = max(0.0, self.caller.expires_at / 1000 - time.time())
        expired = Unauthorized("the token has expired", code=ErrorCode.TOKEN_EXPIRED)
        return asyncio.get_running_loop().call_later(left, self._end, expired)

    def _join(self, resume: str) -> None:
        subscriber = self._subscriber
        cursor = cursor_text(self._hub.store.epoch, subscriber.cursor)
        subscriber.greet(Ready(cursor=cursor, resume=resume, expires_at=self.caller.expires_at))
        self._fanout.join(subscriber)
        # After joining, so that the client hears of itself too.
        self._hub.presence.join(self.caller, self._id, subscriber.filter.session_id)
