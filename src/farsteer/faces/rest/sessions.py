"""Endpoints for sessions: create, list, change, control, rewind, fork and delete."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from farsteer.core.api import (
    CreateSession,
    Done,
    ForkSession,
    HandOff,
    LogLineView,
    Name,
    RenameSession,
    RequestBody,
    RewindSession,
    SessionCreated,
    SessionNotCreated,
    SessionResponse,
    SessionRewound,
    SessionsResponse,
    SetModel,
    SetPermissionMode,
    SwitchAgent,
)
from farsteer.core.clock import now_ms
from farsteer.core.errors import BadRequest, FarsteerError
from farsteer.core.events import SessionStatus
from farsteer.faces.rest.endpoint import TEXT_MAX_BODY, AnyEndpoint, EmptyBody, Endpoint, EndpointCall
from farsteer.hub import CreationResult, Scope
from farsteer.hub.auth.caller import MCP_SERVERS, UNASKED_TOOLS
from farsteer.server.responses import make_response

_IDEMPOTENCY_KEY_PATTERN = "^[!-~]{1,200}$"
IDEMPOTENCY_KEY_HEADER = {"Idempotency-Key": {"type": "string", "pattern": _IDEMPOTENCY_KEY_PATTERN}}
MACHINE_ERRORS = (409, 422, 503)
"""The statuses of commands that a machine must execute: it is offline, unable to, or does not answer."""


_SHOWN_DETAILS = frozenset({"session", "field", "models", "efforts"})
"""What a caller can use: which session has a conversation already, which field was refused, what the agent knows."""


class SessionsQuery(RequestBody):
    machine_id: Name | None = None
    agent: Name | None = None
    state: SessionStatus | None = None
    text: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: Name | None = None


async def create_session(call: EndpointCall[CreateSession, None]) -> Response:
    key = idempotency_key(call.request)
    return creation_response(await call.hub.sessions.create(call.caller, call.body, idempotency_key=key))


def creation_response(result: CreationResult) -> Response:
    """Return the documented response for a creation that succeeded or failed."""
    if isinstance(result, SessionCreated):
        return make_response(result)
    error = result.error
    details = {name: value for name, value in error.details.items() if name in _SHOWN_DETAILS}
    body = SessionNotCreated(message=error.message, logs=result.logs, details=details or None)
    return make_response(body, error.status)


def idempotency_key(request: Request) -> str | None:
    """Raises BadRequest if the header is malformed."""
    key = request.headers.get("idempotency-key")
    if key is not None and not re.fullmatch(_IDEMPOTENCY_KEY_PATTERN, key):
        raise BadRequest("Idempotency-Key must be 1 to 200 visible ASCII characters")
    return key


def not_created_body(error: FarsteerError) -> SessionNotCreated:
    """Return the body of an error that occurred before the creation of a session began."""
    line = LogLineView(
        timestamp=now_ms(),
        step="request",
        message=error.message,
        status="error",
        code=error.code.value,
    )
    return SessionNotCreated(message=error.message, logs=[line])


async def list_sessions(call: EndpointCall[None, SessionsQuery]) -> SessionsResponse:
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


async def get_session(call: EndpointCall[None, None]) -> SessionResponse:
    return SessionResponse(session=await call.hub.sessions.get(call.caller, call.id("sessionId")))


async def rename_session(call: EndpointCall[RenameSession, None]) -> Done:
    return await call.hub.sessions.rename(call.caller, call.id("sessionId"), call.body)


async def delete_session(call: EndpointCall[None, None]) -> Done:
    return await call.hub.sessions.delete(call.caller, call.id("sessionId"))


async def abort_turn(call: EndpointCall[EmptyBody, None]) -> Done:
    return await call.hub.sessions.abort(call.caller, call.id("sessionId"))


async def stop_session(call: EndpointCall[EmptyBody, None]) -> Done:
    return await call.hub.sessions.stop(call.caller, call.id("sessionId"))


async def resume_session(call: EndpointCall[EmptyBody, None]) -> Done:
    return await call.hub.sessions.resume(call.caller, call.id("sessionId"))


async def set_permission_mode(call: EndpointCall[SetPermissionMode, None]) -> Done:
    return await call.hub.sessions.configure(
        call.caller, call.id("sessionId"), permission_mode=call.body.mode
    )


async def set_model(call: EndpointCall[SetModel, None]) -> Done:
    return await call.hub.sessions.configure(
        call.caller, call.id("sessionId"), model=call.body.model, effort=call.body.reasoning_effort
    )


async def switch_agent(call: EndpointCall[SwitchAgent, None]) -> Done:
    return await call.hub.sessions.switch_agent(call.caller, call.id("sessionId"), call.body)


async def rewind_session(call: EndpointCall[RewindSession, None]) -> SessionRewound:
    return await call.hub.rewinds.rewind(call.caller, call.id("sessionId"), call.body)


async def fork_session(call: EndpointCall[ForkSession, None]) -> Response:
    key = idempotency_key(call.request)
    forked = await call.hub.forks.fork(call.caller, call.id("sessionId"), call.body, idempotency_key=key)
    return creation_response(forked)


async def hand_off_session(call: EndpointCall[HandOff, None]) -> Response:
    key = idempotency_key(call.request)
    handed = await call.hub.handoffs.hand_off(
        call.caller, call.id("sessionId"), call.body, idempotency_key=key
    )
    return creation_response(handed)


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="POST", path="/api/sessions", handler=create_session, scope=Scope.WRITE,
        also=(UNASKED_TOOLS, MCP_SERVERS),
        body=CreateSession, max_body=TEXT_MAX_BODY, response=SessionCreated, errors=(404, *MACHINE_ERRORS),
        make_error_body=not_created_body, error_type=SessionNotCreated, headers=IDEMPOTENCY_KEY_HEADER,
        tag="Sessions", summary="Create a session",
        description="Returns when the agent is ready to take a message. `logs` lists the steps taken, also on "
        "failure. Without `agent` the first installed agent of the machine's preference list is used. A repeated "
        "request with the same `Idempotency-Key` returns the same session. A field that the agent does not use is "
        "refused with 400 `field_not_used`, a model or effort that it does not have with 400 `model_unknown` or "
        "`effort_unknown`; `details` names those it has. 409 `session_id_taken` if `sessionId` is not free.",
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
        description="Send `nextCursor` as `cursor` to get the next page.",
    ),
    Endpoint(
        method="GET", path="/api/sessions/{sessionId}", handler=get_session, scope=Scope.READ,
        response=SessionResponse,
        tag="Sessions", summary="Get a session",
    ),
    Endpoint(
        method="PATCH", path="/api/sessions/{sessionId}", handler=rename_session, scope=Scope.WRITE,
        body=RenameSession, response=Done, errors=MACHINE_ERRORS,
        tag="Sessions", summary="Rename a session",
        example={"title": "the login bug"},
    ),
    Endpoint(
        method="DELETE", path="/api/sessions/{sessionId}", handler=delete_session, scope=Scope.WRITE,
        response=Done, errors=MACHINE_ERRORS,
        tag="Sessions", summary="Delete a session",
        description="Ends the agent's process and deletes the messages.",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/abort", handler=abort_turn, scope=Scope.WRITE,
        body=EmptyBody, body_optional=True, response=Done, errors=MACHINE_ERRORS,
        tag="Sessions", summary="Interrupt the running turn",
        description="Queued messages are still sent.",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/stop", handler=stop_session, scope=Scope.WRITE,
        body=EmptyBody, body_optional=True, response=Done, errors=MACHINE_ERRORS,
        tag="Sessions", summary="Stop the agent's process",
        description="The session is kept.",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/resume", handler=resume_session, scope=Scope.WRITE,
        body=EmptyBody, body_optional=True, response=Done, errors=MACHINE_ERRORS,
        tag="Sessions", summary="Start the agent's process if it is not running",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/permission-mode", handler=set_permission_mode,
        scope=Scope.WRITE, also=(UNASKED_TOOLS,), body=SetPermissionMode, response=Done, errors=MACHINE_ERRORS,
        tag="Sessions", summary="Set the permission mode",
        example={"mode": "acceptEdits"},
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/model", handler=set_model, scope=Scope.WRITE,
        body=SetModel, response=Done, errors=MACHINE_ERRORS,
        tag="Sessions", summary="Set the model and the reasoning effort",
        example={"model": "sonnet", "reasoningEffort": "high"},
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/agent", handler=switch_agent, scope=Scope.WRITE,
        body=SwitchAgent, response=Done, errors=MACHINE_ERRORS,
        tag="Sessions", summary="Go on with another model provider",
        example={"agent": "glm"},
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/rewind", handler=rewind_session, scope=Scope.WRITE,
        body=RewindSession, response=SessionRewound, errors=(409, 422, 503),
        tag="Sessions", summary="Rewind a session to before a message",
        description="`seq` is the number of a `user_message`. That message and everything after it are removed "
        "from the conversation, also for the agent. A running turn is interrupted and queued messages are "
        "cancelled. The response contains the text of the message, so that it can be edited and sent again. Files "
        "are restored if the agent keeps copies and `restoreFiles` is not false; `files` reports the result. 422 "
        "`not_capable` if the agent cannot rewind.",
        example={"seq": 17, "restoreFiles": True},
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/fork", handler=fork_session, scope=Scope.WRITE,
        body=ForkSession, body_optional=True, response=SessionCreated, errors=(409, 422, 503),
        make_error_body=not_created_body, error_type=SessionNotCreated, headers=IDEMPOTENCY_KEY_HEADER,
        tag="Sessions", summary="Fork a session",
        description="Creates a session with a copy of this one's conversation: everything before `seq` if that "
        "entry is a `user_message`, everything up to and including `seq` if it is another entry, or all of it "
        "without `seq`. This session does not change. The fork has its permission mode if the token may set that "
        "mode, else `default`. 409 if the agent has no conversation yet, 422 `not_capable` if the agent cannot "
        "fork.",
        example={"seq": 17, "title": "the other way"},
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/handoff", handler=hand_off_session, scope=Scope.WRITE,
        body=HandOff, max_body=TEXT_MAX_BODY, response=SessionCreated, errors=(409, 422, 503),
        make_error_body=not_created_body, error_type=SessionNotCreated, headers=IDEMPOTENCY_KEY_HEADER,
        tag="Sessions", summary="Hand a session over to another agent",
        description="Creates a session of `agent` in the same directory that goes on with this conversation: with the "
        "conversation itself if the agents use the same store, else with a digest that the agent gets with the first "
        "message. The first entry of the log shows what that is. Nothing is sent before `text` or another message. "
        "This session does not change; both name each other (`handedOffFrom`, `handedOffTo`). 409 `turn_running` "
        "while the agent works.",
        example={"agent": "codex", "text": "go on with the tests"},
    ),
)  # fmt: skip
