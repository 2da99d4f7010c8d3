"""Applies the retention rules of `hub.toml`: at the start of the hub, once an hour, and on request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

from farsteer.core.clock import Clock
from farsteer.core.errors import FarsteerError
from farsteer.core.retention import SessionRemoval
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.rules.retention import RetentionRule, StoredSession, sessions_to_remove
from farsteer.hub.store.base import RetainedSession, Store

_logger = logging.getLogger(__name__)

_INTERVAL_SECONDS = 3600.0
ANY_NAMESPACE = "*"
"""The rule of namespaces that have none of their own."""


class Retention:
    def __init__(
        self, store: Store, links: MachineLinks, rules: Mapping[str, RetentionRule], clock: Clock
    ) -> None:
        self._store = store
        self._links = links
        self._rules = rules
        self._clock = clock
        self._sizes: dict[str, tuple[int, int]] = {}
        """The last entry and the bytes of each session, when they were summed up last."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Apply the rules now and once an hour, if there are any."""
        if self._rules:
            self._task = asyncio.create_task(self._run(), name="retention")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def plan(self) -> list[SessionRemoval]:
        """Return what the rules remove now."""
        removals: list[SessionRemoval] = []
        for namespace in await self._store.list_namespaces() if self._rules else ():
            rule = self._rules.get(namespace) or self._rules.get(ANY_NAMESPACE)
            if rule is not None and (rule.days or rule.bytes):
                sessions = [await self._measure(one) for one in await self._store.list_retained(namespace)]
                removals += sessions_to_remove(namespace, sessions, rule, self._clock())
        return removals

    async def apply(self) -> list[SessionRemoval]:
        """Remove what the rules remove, as if its owner had deleted it. Return what was removed."""
        removed: list[SessionRemoval] = []
        for removal in await self.plan():
            machine_id = await self._store.remove_unused(removal)
            if machine_id is not None:
                self._links.delete_session(removal.namespace, machine_id, removal.session_id)
                self._sizes.pop(removal.session_id, None)
                removed.append(removal)
        if removed:
            size = sum(one.bytes for one in removed) / 1024**2
            _logger.info("removed %d sessions with %.1f MiB by the retention rules", len(removed), size)
        return removed

    async def _measure(self, session: RetainedSession) -> StoredSession:
        """Sum up the log of a session. One that has not grown since is not read again."""
        known = self._sizes.get(session.id)
        if known is None or known[0] != session.seq:
            known = self._sizes[session.id] = session.seq, await self._store.measure_session(session.id)
        return StoredSession(session.id, session.updated_at, known[1], session.busy)

    async def _run(self) -> None:
        while True:
            try:
                await self.apply()
            except FarsteerError as error:
                _logger.error("the retention rules could not be applied: %s", error.message)
            await asyncio.sleep(_INTERVAL_SECONDS)
