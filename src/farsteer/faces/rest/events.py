"""The live events as a part of the API: authenticated and documented like the rest, streamed by the realtime face."""

from __future__ import annotations

from starlette.types import ASGIApp

from farsteer.faces.events.sse import EventsQuery
from farsteer.faces.rest.endpoint import AnyEndpoint, Call, Endpoint
from farsteer.hub import Scope


def event_endpoints(stream: ASGIApp) -> tuple[AnyEndpoint, ...]:
    async def stream_events(call: Call[None, EventsQuery]) -> ASGIApp:
        return stream

    return (
        Endpoint(
            method="GET", path="/api/events", handler=stream_events, scope=Scope.READ,
            query=EventsQuery, response=None, media_type="text/event-stream",
            headers={"Last-Event-ID": {"type": "string", "maxLength": 100}},
            tag="Live events", summary="Follow everything that happens",
            description="Server-Sent Events. The first is `ready` with the `cursor` to resume from and "
            "`resume`: `ok`, `gap` or `none`. Give the last id as `Last-Event-ID`, or a cursor as `since`, to get "
            "what you missed. `sessionId` and `types` (separated by commas) leave out the rest. The stream ends "
            "with `closed`, at the latest when the JWT does.",
        ),
    )  # fmt: skip
