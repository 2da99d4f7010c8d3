"""Usage: tokens and money."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import msgspec
from msgspec import Meta

from farsteer.core.api import RequestBody, UsageGrouping, UsageResponse
from farsteer.core.ids import check_id
from farsteer.faces.rest.endpoint import AnyEndpoint, Call, Endpoint
from farsteer.hub import Scope


class UsageQuery(RequestBody):
    first: date | None = msgspec.field(default=None, name="from")
    last: date | None = msgspec.field(default=None, name="to")
    group_by: UsageGrouping = "day"
    session_id: Annotated[str, Meta(extra_json_schema={"format": "uuid"})] | None = None


async def get_usage(call: Call[None, UsageQuery]) -> UsageResponse:
    query = call.query
    if query.session_id is not None:
        check_id(query.session_id, "sessionId")
    return await call.hub.usage.report(
        call.caller,
        first=query.first,
        last=query.last,
        group_by=query.group_by,
        session_id=query.session_id,
    )


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/usage", handler=get_usage, scope=Scope.READ,
        query=UsageQuery, response=UsageResponse, errors=(404,),
        tag="Usage", summary="Show what was used",
        description="Tokens and cost of the days from `from` to `to` (YYYY-MM-DD, both included, UTC), by `groupBy`. "
        "Turns are those of the session in `sessionId`. Days and turns come newest first, all others most expensive "
        "first; at most 1000, then `truncated` is true and `total` still whole. A rewind takes nothing back, and "
        "what a deleted session used stays, under the key null. What an adopted conversation used before is not in "
        "it, nor is a fork's copy.",
    ),
)  # fmt: skip
