"""The hub: opens its store and joins its services. Faces hold one `Hub`."""

from __future__ import annotations

from pathlib import Path

from farsteer.core.clock import Clock, now_ms
from farsteer.core.errors import FarsteerError
from farsteer.hub.auth.pairings import Pairings
from farsteer.hub.auth.tokens import Tokens
from farsteer.hub.feed import Feed
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.link.server import LinkServer
from farsteer.hub.metrics import Metrics
from farsteer.hub.rules.queue import QueueLimits
from farsteer.hub.services.approvals import Approvals
from farsteer.hub.services.creation import SessionCreator
from farsteer.hub.services.delivery import MessageDelivery
from farsteer.hub.services.drafts import Drafts
from farsteer.hub.services.exports import Exports
from farsteer.hub.services.files import Files
from farsteer.hub.services.foreign_sessions import ForeignSessions
from farsteer.hub.services.forks import Forks
from farsteer.hub.services.handoffs import Handoffs
from farsteer.hub.services.imports import Imports
from farsteer.hub.services.machines import Machines
from farsteer.hub.services.messages import Messages
from farsteer.hub.services.outcomes import OutcomeReports
from farsteer.hub.services.presence import Presence
from farsteer.hub.services.quotas import Quotas
from farsteer.hub.services.retention import Retention
from farsteer.hub.services.rewinds import Rewinds
from farsteer.hub.services.sessions import Sessions
from farsteer.hub.services.storage import Storage
from farsteer.hub.services.usage import UsageReports
from farsteer.hub.services.worktrees import Worktrees
from farsteer.hub.settings import HubSettings, load_settings
from farsteer.hub.sockets import SlowReaders, Sockets
from farsteer.hub.store.base import Store
from farsteer.hub.store.sqlite.store import SqliteStore
from farsteer.hub.tasks import BackgroundTasks
from farsteer.link.messages import IDLE_TIMEOUT_SECONDS
from farsteer.storage.home import HomeLock, prepare_home

DATABASE = "hub.db"


class Hub:
    """The services of one hub. Use `Hub.open`; the home directory is locked until `close`."""

    def __init__(
        self, lock: HomeLock, store: Store, feed: Feed, tasks: BackgroundTasks, metrics: Metrics, tokens: Tokens,
        settings: HubSettings, idle_timeout: float, clock: Clock,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.store = store
        self.feed = feed
        self.metrics = metrics
        self.sockets = Sockets(settings.limits)
        self.slow_readers = SlowReaders(settings.limits, metrics)
        self.tokens = tokens
        self.pairings = Pairings(store, tokens, metrics, clock)
        self.links = MachineLinks(store, tasks, metrics)
        outcomes = OutcomeReports(store, self.links, tasks)
        delivery = MessageDelivery(store, self.links, tasks, outcomes)
        creator = SessionCreator(store, self.links, delivery, tasks, metrics, settings.limits.sessions)
        self.machines = Machines(store)
        self.sessions = Sessions(store, self.links, delivery, creator)
        self.messages = Messages(store, self.machines, self.links, delivery, outcomes, metrics)
        self.rewinds = Rewinds(store, self.machines, self.links)
        self.forks = Forks(store, self.machines, creator)
        self.handoffs = Handoffs(store, self.links, self.forks, creator)
        self.imports = Imports(store, self.links, creator)
        self.worktrees = Worktrees(store, self.links)
        self.foreign_sessions = ForeignSessions(store, self.links, settings.limits.sessions)
        self.exports = Exports(store)
        self.drafts = Drafts(store)
        self.files = Files(store, self.links)
        self.usage = UsageReports(store)
        self.approvals = Approvals(store, self.links)
        self.presence = Presence(store, feed, self.links, tasks)
        self.retention = Retention(store, self.links, settings.retention, clock)
        self.storage = Storage(store, self.retention)
        self.quotas = Quotas(store, self.sockets, settings.limits)
        self.link = LinkServer(
            store, feed, self.links, delivery, outcomes, tokens, metrics, tasks, idle_timeout,
            settings.limits.machines,
        )  # fmt: skip
        self._tasks = tasks
        self._lock = lock

    @classmethod
    async def open(
        cls,
        home: Path,
        owner_token: str | None = None,
        *,
        idle_timeout: float = IDLE_TIMEOUT_SECONDS,
        clock: Clock = now_ms,
        apply_retention: bool = True,
    ) -> Hub:
        """Lock `home`, read its settings, open the store in it and load the tokens.

        Args:
            home: The data directory, created if missing.
            owner_token: The owner's access token. By default CLI_API_TOKEN, else the file `token` in `home`, which is
                generated if missing.
            idle_timeout: Seconds after which a link that sends nothing is closed.
            clock: Returns the time in milliseconds.
            apply_retention: Apply the retention rules by itself, now and once an hour.
        """
        lock = HomeLock(prepare_home(home), "hub")
        feed, tasks, metrics = Feed(), BackgroundTasks(), Metrics()
        try:
            settings = load_settings(home)
            limits = QueueLimits(
                settings.limits.queued_messages,
                settings.limits.queued_bytes,
                settings.limits.namespace_queued_bytes,
            )
            store = await SqliteStore.open(home / DATABASE, feed, clock=clock, limits=limits)
        except BaseException:
            lock.release()
            raise
        try:
            tokens = await Tokens.open(home, store, tasks, metrics, owner_token=owner_token, clock=clock)
        except BaseException:
            await store.close()
            lock.release()
            raise
        hub = cls(lock, store, feed, tasks, metrics, tokens, settings, idle_timeout, clock)
        if apply_retention:
            hub.retention.start()
        return hub

    async def failure(self) -> FarsteerError:
        """Wait until this hub cannot go on, because its home was removed, and return why."""
        return await self.store.failure()

    async def close(self) -> None:
        """Close the links, which fails the calls that wait for them, then the store. Idempotent."""
        await self.link.close()
        self.tokens.close()
        self.presence.close()
        await self.retention.close()
        await self._tasks.close()
        await self.store.close()
        self._lock.release()
