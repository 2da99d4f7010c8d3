"""Sessions: their life from creation to deletion."""

from __future__ import annotations

import re
import time
from typing import Annotated

from msgspec import Meta
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from farsteer.core.api import (
    CreateSession,
    Done,
    LogLineView,
    Name,
    RenameSession,
    RequestBody,
    SessionCreated,
    SessionNotCreated,
    SessionResponse,
    SessionsResponse,
    SetModel,
    SetPermissionMode,
)
from farsteer.core.errors import BadRequest, FarsteerError
from farsteer.core.events import SessionStatus
from farsteer.faces.rest.endpoint import TEXTS, AnyEndpoint, Call, Endpoint, Nothing
from farsteer.hub import Scope
from farsteer.server.responses import reply

KEY = "^[!-~]{1,200}$"
"""What an Idempotency-Key looks like."""


class SessionsQuery(RequestBody):
    machine_id: Name | None = None
    agent: Name | None = None
    state: SessionStatus | None = None
    text: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: Name | None = None


async def create_session(call: Call[CreateSession, None]) -> Response:
    key = idempotency_key(call.request)
    creation = await call.hub.sessions.create(call.caller, call.body, idempotency_key=key)
    return reply(creation.body, creation.status)


def idempotency_key(request: HttpRequest) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not re.fullmatch(KEY, key):
        raise BadRequest("Idempotency-Key must be 1 to 200 visible ASCII characters")
    return key


def not_created(error: FarsteerError) -> SessionNotCreated:
    """A request that never became a creation, in the shape the document gives to failures."""
    line = LogLineView(
        timestamp=time.time_ns() // 1_000_000,
        step="request",
        message=error.message,
        status="error",
        code=error.code.value,
    )
    return SessionNotCreated(message=error.message, logs=[line])


async def list_sessions(call: Call[None, SessionsQuery]) -> SessionsResponse:
    query = call.query
    return await call.hub.sessions.list(
        call.caller,
        machine_id=query.machine_id,
        agent=query.agent,
        status=query.state,
        text=query.text,
        limit=query.limit,
        cursor=query.cursor,
    )


async def get_session(call: Call[None, None]) -> SessionResponse:
    return SessionResponse(session=await call.hub.sessions.get(call.caller, call.id("sessionId")))


async def rename_session(call: Call[RenameSession, None]) -> Done:
    return await call.hub.sessions.rename(call.caller, call.id("sessionId"), call.body)


async def delete_session(call: Call[None, None]) -> Done:
    return await call.hub.sessions.delete(call.caller, call.id("sessionId"))


async def abort_turn(call: Call[Nothing, None]) -> Done:
    return await call.hub.sessions.abort(call.caller, call.id("sessionId"))


async def stop_session(call: Call[Nothing, None]) -> Done:
    return await call.hub.sessions.stop(call.caller, call.id("sessionId"))


async def resume_session(call: Call[Nothing, None]) -> Done:
    return await call.hub.sessions.resume(call.caller, call.id("sessionId"))


async def set_permission_mode(call: Call[SetPermissionMode, None]) -> Done:
    return await call.hub.sessions.configure(
        call.caller, call.id("sessionId"), permission_mode=call.body.mode
    )


async def set_model(call: Call[SetModel, None]) -> Done:
    return await call.hub.sessions.configure(
        call.caller, call.id("sessionId"), model=call.body.model, effort=call.body.reasoning_effort
    )


_MACHINE = (409, 422, 503)
"""What can go wrong where the machine has to act: offline, cannot, does not answer."""

ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="POST", path="/api/sessions", handler=create_session, scope=Scope.WRITE,
        body=CreateSession, max_body=TEXTS, response=SessionCreated, errors=(404, *_MACHINE),
        failure=not_created, failure_shape=SessionNotCreated,
        headers={"Idempotency-Key": {"type": "string", "pattern": KEY}},
        tag="Sessions", summary="Create a session",
        description="Succeeds when the agent is ready to take a message; `logs` are the steps taken, also on "
        "failure. `agent` left out: the first installed one of the machine's preference list. The same "
        "`Idempotency-Key` again gives the same session.",
        example={
            "machineId": "e16b3653-ad9f-46a7-89fd-48a3d576cccb",
            "directory": "/home/me/project",
            "agent": "demo",
            "source": "external-api",
        },
    ),
    Endpoint(
        method="GET", path="/api/sessions", handler=list_sessions, scope=Scope.READ,
        query=SessionsQuery, response=SessionsResponse,
        tag="Sessions", summary="List sessions",
        description="`nextCursor` asks for the next page.",
    ),
    Endpoint(
        method="GET", path="/api/sessions/{sessionId}", handler=get_session, scope=Scope.READ,
        response=SessionResponse,
        tag="Sessions", summary="Show a session",
    ),
    Endpoint(
        method="PATCH", path="/api/sessions/{sessionId}", handler=rename_session, scope=Scope.WRITE,
        body=RenameSession, response=Done, errors=_MACHINE,
        tag="Sessions", summary="Rename a session",
        example={"title": "the login bug"},
    ),
    Endpoint(
        method="DELETE", path="/api/sessions/{sessionId}", handler=delete_session, scope=Scope.WRITE,
        response=Done, errors=_MACHINE,
        tag="Sessions", summary="Delete a session",
        description="Ends its process and forgets its messages.",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/abort", handler=abort_turn, scope=Scope.WRITE,
        body=Nothing, body_optional=True, response=Done, errors=_MACHINE,
        tag="Sessions", summary="Interrupt the running turn",
        description="The queue goes on.",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/stop", handler=stop_session, scope=Scope.WRITE,
        body=Nothing, body_optional=True, response=Done, errors=_MACHINE,
        tag="Sessions", summary="End the agent's process, keep the session",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/resume", handler=resume_session, scope=Scope.WRITE,
        body=Nothing, body_optional=True, response=Done, errors=_MACHINE,
        tag="Sessions", summary="Make sure the agent's process runs",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/permission-mode", handler=set_permission_mode,
        scope=Scope.WRITE, body=SetPermissionMode, response=Done, errors=_MACHINE,
        tag="Sessions", summary="Change what the agent may do without asking",
        example={"mode": "acceptEdits"},
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/model", handler=set_model, scope=Scope.WRITE,
        body=SetModel, response=Done, errors=_MACHINE,
        tag="Sessions", summary="Change the model",
        example={"model": "sonnet", "reasoningEffort": "high"},
    ),
)  # fmt: skip
