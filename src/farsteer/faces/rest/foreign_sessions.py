"""Endpoints for sessions that a machine has and the hub never had."""

from __future__ import annotations

from farsteer.core.api import Done, SessionResponse
from farsteer.core.foreign import ForeignSessionsResponse
from farsteer.faces.rest.endpoint import AnyEndpoint, Endpoint, EndpointCall
from farsteer.faces.rest.sessions import MACHINE_ERRORS, EmptyBody
from farsteer.hub import Scope
from farsteer.hub.auth.caller import MCP_SERVERS, UNASKED_TOOLS

_PATH = "/api/machines/{machineId}/foreign-sessions"


async def list_foreign_sessions(call: EndpointCall[None, None]) -> ForeignSessionsResponse:
    return await call.hub.foreign_sessions.list(call.caller, call.id("machineId"))


async def adopt_foreign_session(call: EndpointCall[EmptyBody, None]) -> SessionResponse:
    return await call.hub.foreign_sessions.adopt(call.caller, call.id("machineId"), call.id("sessionId"))


async def end_foreign_session(call: EndpointCall[None, None]) -> Done:
    return await call.hub.foreign_sessions.end(call.caller, call.id("machineId"), call.id("sessionId"))


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path=_PATH, handler=list_foreign_sessions, scope=Scope.WRITE,
        response=ForeignSessionsResponse, errors=MACHINE_ERRORS,
        tag="Machines", summary="List sessions that only the machine knows",
        description="Sessions that the machine's runner has and this hub never had: of another hub, or lost with the "
        "hub's database. `lost` is how many entries at the beginning of the log neither side has.",
    ),
    Endpoint(
        method="POST", path=_PATH + "/{sessionId}/adopt", handler=adopt_foreign_session, scope=Scope.WRITE,
        also=(UNASKED_TOOLS, MCP_SERVERS), body=EmptyBody, body_optional=True, response=SessionResponse,
        errors=MACHINE_ERRORS,
        tag="Machines", summary="Adopt a session that only the machine knows",
        description="It becomes a session of the namespace and goes on as it is. Its log begins with a notice in the "
        "place of the entries that are lost. Repeating the request is safe.",
    ),
    Endpoint(
        method="DELETE", path=_PATH + "/{sessionId}", handler=end_foreign_session, scope=Scope.WRITE,
        response=Done,
        tag="Machines", summary="End a session that only the machine knows",
        description="Stops its agent and deletes it on the machine, at the latest when the machine connects again.",
    ),
)  # fmt: skip
