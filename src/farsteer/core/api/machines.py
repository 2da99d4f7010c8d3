"""Bodies about machines and their agents."""

from __future__ import annotations

from farsteer.core.api.base import ResponseBody
from farsteer.core.capabilities import AgentInfo, Capabilities, MachineConflict


class MachineView(ResponseBody):
    """A machine with a runner."""

    id: str
    active: bool
    active_at: int
    created_at: int
    host: str
    platform: str
    version: str
    name: str | None
    agents: tuple[AgentInfo, ...]
    roots: tuple[str, ...]
    conflict: MachineConflict | None = None
    foreign_sessions: int = 0
    problem: str | None = None
    """What keeps its runner from working, such as a full disk."""


class MachinesResponse(ResponseBody):
    machines: list[MachineView]


class MachineResponse(ResponseBody):
    machine: MachineView


class AgentOnMachine(ResponseBody):
    machine_id: str
    available: bool
    version: str | None
    reason: str | None
    install: str | None
    login: str | None
    warning: str | None
    models: tuple[str, ...] = ()
    """The models that the agent listed there when it was last started."""


class AgentView(ResponseBody):
    """An agent, and the machines that have it."""

    name: str
    title: str
    capabilities: Capabilities
    machines: list[AgentOnMachine]


class AgentsResponse(ResponseBody):
    agents: list[AgentView]
