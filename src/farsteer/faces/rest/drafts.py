"""Endpoints for the draft of a session."""

from __future__ import annotations

from farsteer.core.api import DraftResponse, WriteDraft
from farsteer.faces.rest.endpoint import AnyEndpoint, Endpoint, EndpointCall
from farsteer.hub import Scope

_PATH = "/api/sessions/{sessionId}/draft"
_MAX_BODY = 1024 * 1024
"""Enough for the longest draft, even if every character is escaped."""


async def get_draft(call: EndpointCall[None, None]) -> DraftResponse:
    return await call.hub.drafts.read(call.caller, call.id("sessionId"))


async def write_draft(call: EndpointCall[WriteDraft, None]) -> DraftResponse:
    return await call.hub.drafts.write(call.caller, call.id("sessionId"), call.body)


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path=_PATH, handler=get_draft, scope=Scope.READ,
        response=DraftResponse,
        tag="Messages", summary="Get the draft of a session",
        description="What somebody has begun to write, kept for all devices. `text` is empty if there is none.",
    ),
    Endpoint(
        method="PUT", path=_PATH, handler=write_draft, scope=Scope.WRITE,
        body=WriteDraft, max_body=_MAX_BODY, response=DraftResponse, errors=(409,),
        tag="Messages", summary="Replace the draft of a session",
        description="`version` is the one that was read last: 409 `draft_outdated` if somebody has changed the draft "
        "since then; `details.version` is the present one. Without it, whatever is there is replaced. An empty `text` "
        "removes the draft, and so does a message with the same text.",
        example={"text": "now the tests", "version": 3},
    ),
)  # fmt: skip
