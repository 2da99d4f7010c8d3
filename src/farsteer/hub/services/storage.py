"""How much the hub stores, and giving back what it does not need."""

from __future__ import annotations

from farsteer.core.errors import Forbidden
from farsteer.core.retention import SessionRemoval, StorageReport
from farsteer.hub.auth.caller import HUB_STORAGE, Caller
from farsteer.hub.services.retention import Retention
from farsteer.hub.store.base import Store


class Storage:
    def __init__(self, store: Store, retention: Retention) -> None:
        self._store = store
        self._retention = retention

    async def report(self, caller: Caller) -> StorageReport:
        """Tell the size of the database and what the retention rules would remove. Raises Forbidden."""
        _check(caller)
        return await self._report(await self._retention.plan())

    async def compact(self, caller: Caller, *, dry_run: bool = False) -> StorageReport:
        """Apply the retention rules, then give back all free space, in the background. Raises Forbidden.

        `report` says when that is done.
        """
        _check(caller)
        if dry_run:
            return await self.report(caller)
        removed = await self._retention.apply()
        await self._store.compact()
        return await self._report(removed)

    async def _report(self, removals: list[SessionRemoval]) -> StorageReport:
        size = await self._store.measure()
        return StorageReport(
            bytes=size.bytes,
            free_bytes=size.free_bytes,
            compacting=size.compacting,
            needs_rewrite=size.needs_rewrite,
            removals=removals,
        )


def _check(caller: Caller) -> None:
    caller.require_case(HUB_STORAGE)
    if not caller.manages_hub:
        raise Forbidden("only a token of the namespace `default` may manage the storage of the hub")
