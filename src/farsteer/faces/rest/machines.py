"""Machines and the agents on them."""

from __future__ import annotations

from farsteer.core.api import AgentsResponse, MachineResponse, MachinesResponse
from farsteer.faces.rest.endpoint import AnyEndpoint, Call, Endpoint
from farsteer.hub import Scope


async def list_machines(call: Call[None, None]) -> MachinesResponse:
    return await call.hub.machines.list(call.caller)


async def get_machine(call: Call[None, None]) -> MachineResponse:
    return MachineResponse(machine=await call.hub.machines.get(call.caller, call.id("machineId")))


async def list_agents(call: Call[None, None]) -> AgentsResponse:
    return await call.hub.machines.agents(call.caller)


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/machines", handler=list_machines, scope=Scope.READ,
        response=MachinesResponse,
        tag="Machines", summary="List machines",
        description="`active` says whether the machine's runner is connected now.",
    ),
    Endpoint(
        method="GET", path="/api/machines/{machineId}", handler=get_machine, scope=Scope.READ,
        response=MachineResponse,
        tag="Machines", summary="Show a machine",
    ),
    Endpoint(
        method="GET", path="/api/agents", handler=list_agents, scope=Scope.READ,
        response=AgentsResponse,
        tag="Machines", summary="List agents and where they are installed",
    ),
)  # fmt: skip
