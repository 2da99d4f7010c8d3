"""Endpoints for machines, the agents installed on them, and conversations in the agents' own stores."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from farsteer.core.api import (
    AgentsResponse,
    ConversationsResponse,
    Done,
    ImportConversation,
    MachineResponse,
    MachinesResponse,
    Name,
    Path,
    RequestBody,
    SessionCreated,
    SessionNotCreated,
)
from farsteer.faces.rest.endpoint import AnyEndpoint, Endpoint, EndpointCall
from farsteer.faces.rest.sessions import (
    IDEMPOTENCY_KEY_HEADER,
    MACHINE_ERRORS,
    creation_response,
    idempotency_key,
    not_created_body,
)
from farsteer.hub import Scope


class ConversationsQuery(RequestBody):
    agent: Name | None = None
    directory: Path | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class MachinesQuery(RequestBody):
    active: bool | None = None


async def list_machines(call: EndpointCall[None, MachinesQuery]) -> MachinesResponse:
    return await call.hub.machines.list(call.caller, active=call.query.active)


async def get_machine(call: EndpointCall[None, None]) -> MachineResponse:
    return MachineResponse(machine=await call.hub.machines.get(call.caller, call.id("machineId")))


class RemovalQuery(RequestBody):
    sessions: Literal["keep", "delete"] = "keep"


async def remove_machine(call: EndpointCall[None, RemovalQuery]) -> Done:
    return await call.hub.machines.remove(
        call.caller, call.id("machineId"), delete_sessions=call.query.sessions == "delete"
    )


async def release_machine(call: EndpointCall[None, None]) -> Done:
    return await call.hub.machines.release(call.caller, call.id("machineId"))


async def list_agents(call: EndpointCall[None, None]) -> AgentsResponse:
    return await call.hub.machines.agents(call.caller)


async def list_conversations(call: EndpointCall[None, ConversationsQuery]) -> ConversationsResponse:
    query = call.query
    return await call.hub.imports.conversations(
        call.caller,
        call.id("machineId"),
        agent=query.agent,
        directory=query.directory,
        limit=query.limit,
    )


async def import_conversation(call: EndpointCall[ImportConversation, None]) -> Response:
    result = await call.hub.imports.import_conversation(
        call.caller, call.id("machineId"), call.body, idempotency_key=idempotency_key(call.request)
    )
    return creation_response(result)


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/machines", handler=list_machines, scope=Scope.READ,
        query=MachinesQuery, response=MachinesResponse,
        tag="Machines", summary="List machines",
        description="`active` is true while the machine's runner is connected. The parameter `active` lists only those "
        "that are connected, or only those that are not.",
    ),
    Endpoint(
        method="GET", path="/api/machines/{machineId}", handler=get_machine, scope=Scope.READ,
        response=MachineResponse,
        tag="Machines", summary="Get a machine",
    ),
    Endpoint(
        method="DELETE", path="/api/machines/{machineId}", handler=remove_machine, scope=Scope.ADMIN,
        query=RemovalQuery, response=Done, errors=(409,),
        tag="Machines", summary="Remove a machine",
        description="The hub forgets the machine and its key. 409 if it is connected, or if it has sessions and "
        "`sessions` is not `delete`. A machine whose token is valid may connect again, as a new one.",
    ),
    Endpoint(
        method="POST", path="/api/machines/{machineId}/release", handler=release_machine, scope=Scope.ADMIN,
        response=Done, errors=(409,),
        tag="Machines", summary="Let another runner act as a machine",
        description="For a machine whose runner is gone for good, when a runner on another home directory with the "
        "same identity is refused. 409 if the machine is connected. If the first runner does run, without a "
        "connection, messages that it has may run twice.",
    ),
    Endpoint(
        method="GET", path="/api/agents", handler=list_agents, scope=Scope.READ,
        response=AgentsResponse,
        tag="Machines", summary="List agents and where they are installed",
    ),
    Endpoint(
        method="GET", path="/api/machines/{machineId}/conversations", handler=list_conversations,
        scope=Scope.WRITE, query=ConversationsQuery, response=ConversationsResponse, errors=MACHINE_ERRORS,
        tag="Machines", summary="List conversations stored by agents on a machine",
        description="Newest first. `agent` and `directory` restrict the list. `sessionId` is set if the "
        "conversation is already a session.",
    ),
    Endpoint(
        method="POST", path="/api/machines/{machineId}/import", handler=import_conversation, scope=Scope.WRITE,
        body=ImportConversation, response=SessionCreated, errors=MACHINE_ERRORS,
        make_error_body=not_created_body, error_type=SessionNotCreated, headers=IDEMPOTENCY_KEY_HEADER,
        tag="Machines", summary="Import a stored conversation as a session",
        description="The session's log starts with the history of the conversation, and the next message "
        "continues it under its native id. The native id is also the session's id if it is a UUID that no session "
        "has or had. 409 if the conversation is already a session, whose id is in `details.session`. Deleting the "
        "session does not delete the agent's own files.",
        example={"agent": "demo", "nativeId": "0b0c3e0e-4f4a-4d7e-9a57-0d1f0a3c1d55"},
    ),
)  # fmt: skip
