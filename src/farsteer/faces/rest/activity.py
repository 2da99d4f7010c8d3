"""Endpoints for the activity of a namespace: live events, who is online, who is typing, and usage."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.types import ASGIApp

from farsteer.core.api import (
    Done,
    OnlineUsersResponse,
    RequestBody,
    Typing,
    UsageGrouping,
    UsageResponse,
)
from farsteer.core.errors import MethodNotAllowed
from farsteer.core.ids import check_id
from farsteer.faces.events.sse import EventsQuery, EventStreams
from farsteer.faces.rest.endpoint import AnyEndpoint, Endpoint, EndpointCall
from farsteer.hub import Scope


class UsageQuery(RequestBody):
    first: date | None = msgspec.field(default=None, name="from")
    last: date | None = msgspec.field(default=None, name="to")
    group_by: UsageGrouping = "day"
    session_id: Annotated[str, Meta(extra_json_schema={"format": "uuid"})] | None = None


async def list_online_users(call: EndpointCall[None, None]) -> OnlineUsersResponse:
    return call.hub.presence.online(call.caller)


async def show_typing(call: EndpointCall[Typing, None]) -> Done:
    await call.hub.presence.typing(call.caller, call.id("sessionId"), call.body)
    return Done()


async def get_usage(call: EndpointCall[None, UsageQuery]) -> UsageResponse:
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
        method="GET", path="/api/online-users", handler=list_online_users, scope=Scope.READ,
        response=OnlineUsersResponse,
        tag="People", summary="List connected users",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/typing", handler=show_typing, scope=Scope.WRITE,
        body=Typing, response=Done,
        tag="People", summary="Show other users what you are typing",
        example={"text": "hello"},
    ),
    Endpoint(
        method="GET", path="/api/usage", handler=get_usage, scope=Scope.READ,
        query=UsageQuery, response=UsageResponse, errors=(404,),
        tag="Usage", summary="Report tokens and cost",
        description="Tokens and cost of the days from `from` to `to` (YYYY-MM-DD, inclusive, UTC), grouped by "
        "`groupBy`. Grouping by turn needs a `sessionId`. Days and turns are sorted newest first, all other "
        "groups by cost, highest first. At most 1000 groups are returned; then `truncated` is true, and `total` "
        "still covers all of them. Rewound turns are included. The usage of a deleted session is kept under the "
        "key null. The usage of an imported conversation before its import and the copied part of a fork are not "
        "included.",
    ),
)  # fmt: skip


def event_endpoints(streams: EventStreams) -> tuple[AnyEndpoint, ...]:
    async def stream_events(call: EndpointCall[None, EventsQuery]) -> ASGIApp:
        if call.request.method != "GET":
            raise MethodNotAllowed(f"{call.request.method} is not allowed here", allow=["GET"])
        return streams.open(call.caller, call.query, call.request.headers.get("last-event-id"))

    return (
        Endpoint(
            method="GET", path="/api/events", handler=stream_events, scope=Scope.READ,
            query=EventsQuery, response=None, media_type="text/event-stream", sends_events=True,
            headers={"Last-Event-ID": {"type": "string", "maxLength": 100}},
            tag="Live events", summary="Stream live events",
            description="Server-Sent Events. The first event is `ready` with the `cursor` to resume from and "
            "`resume`: `ok`, `gap` or `none`. To get missed events, send the last id as `Last-Event-ID`, or a "
            "cursor as `since`. `sessionId` and `types` (separated by commas) restrict the stream. It ends with "
            "the event `closed` when the access token behind the JWT expires or is revoked.",
        ),
    )  # fmt: skip
