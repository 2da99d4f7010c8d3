"""The limits of a namespace and how much of them is used."""

from __future__ import annotations

from farsteer.core.api import LimitsResponse, LimitView
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.settings import Limits
from farsteer.hub.sockets import Sockets
from farsteer.hub.store.base import Store


class Quotas:
    def __init__(self, store: Store, sockets: Sockets, limits: Limits) -> None:
        self._store = store
        self._sockets = sockets
        self._limits = limits

    async def list(self, caller: Caller) -> LimitsResponse:
        """Return each limit of the caller's namespace with what is used of it."""
        caller.require(Scope.READ)
        totals = await self._store.count_totals(caller.namespace)
        used = {
            "sessions": totals.sessions,
            "machines": totals.machines,
            "sockets": self._sockets.count(caller.namespace),
            "namespace_queued_bytes": totals.queued_bytes,
        }
        return LimitsResponse(
            limits=[
                LimitView(kind=kind, limit=getattr(self._limits, kind), used=count)
                for kind, count in used.items()
            ]
        )
