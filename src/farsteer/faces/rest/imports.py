"""Imports: conversations that agents had before we knew them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from farsteer.core.api import (
    ConversationsResponse,
    ImportConversation,
    Name,
    Path,
    RequestBody,
    SessionCreated,
    SessionNotCreated,
)
from farsteer.faces.rest.endpoint import AnyEndpoint, Call, Endpoint
from farsteer.faces.rest.sessions import KEY, idempotency_key, not_created
from farsteer.hub import Scope
from farsteer.server.responses import reply


class ConversationsQuery(RequestBody):
    agent: Name | None = None
    directory: Path | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


async def list_conversations(call: Call[None, ConversationsQuery]) -> ConversationsResponse:
    query = call.query
    return await call.hub.imports.conversations(
        call.caller,
        call.id("machineId"),
        agent=query.agent,
        directory=query.directory,
        limit=query.limit,
    )


async def import_conversation(call: Call[ImportConversation, None]) -> Response:
    creation = await call.hub.imports.adopt(
        call.caller, call.id("machineId"), call.body, idempotency_key=idempotency_key(call.request)
    )
    return reply(creation.body, creation.status)


_MACHINE = (409, 422, 503)

ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/machines/{machineId}/conversations", handler=list_conversations,
        scope=Scope.WRITE, query=ConversationsQuery, response=ConversationsResponse, errors=_MACHINE,
        tag="Machines", summary="List conversations that agents have stored there",
        description="Newest first, of one agent or of all that can tell, in one directory or anywhere. `sessionId` is "
        "set where a conversation is a session already.",
    ),
    Endpoint(
        method="POST", path="/api/machines/{machineId}/import", handler=import_conversation, scope=Scope.WRITE,
        body=ImportConversation, response=SessionCreated, errors=_MACHINE,
        failure=not_created, failure_shape=SessionNotCreated,
        headers={"Idempotency-Key": {"type": "string", "pattern": KEY}},
        tag="Machines", summary="Make a session of a stored conversation",
        description="Its history is the beginning of the session's log, and the next message continues it under its "
        "native id. That is the session's id too, if it is a UUID that no session has or had. 409 if it is a session "
        "already: `details.session`. Deleting such a session leaves the agent's own files.",
        example={"agent": "demo", "nativeId": "0b0c3e0e-4f4a-4d7e-9a57-0d1f0a3c1d55"},
    ),
)  # fmt: skip
