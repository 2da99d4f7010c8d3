"""Usage reports: tokens and cost by day, model, session, agent, machine or turn."""

from __future__ import annotations

from datetime import date

from farsteer.core.api import UsageGrouping, UsageResponse
from farsteer.core.errors import BadRequest
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.store.base import Store, UsageFilter

MAX_GROUPS = 1000


class UsageReports:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def report(
        self,
        caller: Caller,
        *,
        first: date | None = None,
        last: date | None = None,
        group_by: UsageGrouping = "day",
        session_id: str | None = None,
    ) -> UsageResponse:
        """Return sums for the days from `first` to `last`, inclusive, in UTC."""
        caller.require(Scope.READ)
        if first is not None and last is not None and first > last:
            raise BadRequest("`from` is later than `to`")
        if group_by == "turn" and session_id is None:
            raise BadRequest("grouping by turn needs a `sessionId`")
        where = UsageFilter(
            first_day=None if first is None else first.isoformat(),
            last_day=None if last is None else last.isoformat(),
            session_id=session_id,
        )
        return await self._store.report_usage(caller.namespace, where, group_by, MAX_GROUPS)
