"""The hub as one object: what faces hold."""

from __future__ import annotations

from pathlib import Path

from farsteer.core.clock import Clock, now_ms
from farsteer.hub.auth.tokens import Tokens
from farsteer.hub.dispatch import Dispatch
from farsteer.hub.feed import Feed
from farsteer.hub.link.server import LinkServer
from farsteer.hub.metrics import Metrics
from farsteer.hub.services.approvals import Approvals
from farsteer.hub.services.creation import Creator
from farsteer.hub.services.exports import Exports
from farsteer.hub.services.forks import Forks
from farsteer.hub.services.imports import Imports
from farsteer.hub.services.machines import Machines
from farsteer.hub.services.presence import Presence
from farsteer.hub.services.rewinds import Rewinds
from farsteer.hub.services.sessions import Sessions
from farsteer.hub.services.usage import UsageDesk
from farsteer.hub.store.base import Store
from farsteer.hub.store.sqlite.store import SqliteStore
from farsteer.hub.tasks import Tasks
from farsteer.link.messages import IDLE_TIMEOUT_SECONDS
from farsteer.storage.home import HomeLock, prepare_home

DATABASE = "hub.db"


class Hub:
    """Everything a face needs. Use `Hub.open`; `home` is locked until `close`."""

    def __init__(
        self, home: Path, lock: HomeLock, store: Store, feed: Feed, tasks: Tasks, metrics: Metrics,
        tokens: Tokens, silence: float,
    ) -> None:  # fmt: skip
        self.home = home
        self.store = store
        self.feed = feed
        self.metrics = metrics
        self.tokens = tokens
        self.machines = Machines(store, tasks, metrics)
        dispatch = Dispatch(store, self.machines, tasks)
        creator = Creator(store, self.machines, dispatch, tasks, metrics)
        self.sessions = Sessions(store, self.machines, dispatch, creator, metrics)
        self.rewinds = Rewinds(store, self.machines)
        self.forks = Forks(store, creator)
        self.exports = Exports(store)
        self.imports = Imports(store, self.machines, creator)
        self.usage = UsageDesk(store)
        self.approvals = Approvals(store, self.machines)
        self.presence = Presence(store, feed, self.machines, tasks)
        self.link = LinkServer(
            store, feed, self.machines, metrics, tasks, tokens.on_revoke, dispatch.connected, silence
        )
        self._tasks = tasks
        self._lock = lock

    @classmethod
    async def open(
        cls,
        home: Path,
        owner_token: str | None = None,
        *,
        silence: float = IDLE_TIMEOUT_SECONDS,
        clock: Clock = now_ms,
    ) -> Hub:
        """`owner_token` None: from CLI_API_TOKEN, else from `$home/token`, which is made when missing."""
        lock = HomeLock(prepare_home(home), "hub")
        feed, tasks, metrics = Feed(), Tasks(), Metrics()
        try:
            store = await SqliteStore.open(home / DATABASE, feed, clock=clock)
        except BaseException:
            lock.release()
            raise
        try:
            tokens = await Tokens.open(home, store, tasks, metrics, given=owner_token, clock=clock)
        except BaseException:
            await store.close()
            lock.release()
            raise
        return cls(home, lock, store, feed, tasks, metrics, tokens, silence)

    async def close(self) -> None:
        """End the links, let what waited for them fail, close the store. Idempotent."""
        await self.link.close()
        self.tokens.close()
        self.presence.close()
        await self._tasks.close()
        await self.store.close()
        self._lock.release()
