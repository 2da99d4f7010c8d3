"""What the runner gives to a session's actor."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from farsteer.agents.base import Adapter
from farsteer.agents.process.environment import scrub_environment
from farsteer.agents.process.user import AgentUser
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.wire import WireStruct
from farsteer.runner.agent_places import AgentPlaces
from farsteer.runner.directories import SessionDirectories
from farsteer.runner.lease import RunnerLease


class TimeLimits(WireStruct):
    """How long things may take, in seconds."""

    startup: float = 60.0
    interrupt: float = 5.0
    """An agent that has not accepted an interrupt by then is stopped."""
    interrupt_end: float = 3.0
    """An agent that accepted an interrupt and has not ended its turn by then is stopped: a tool may hang."""
    stop_grace: float = 3.0
    stop: float = 20.0
    """When stopping takes longer than this, whatever is left of the process is killed."""
    silence: float = 600.0
    """Silence within a turn, while no approval is open and no tool runs."""
    tool_silence: float = 3600.0
    """Silence within a turn while a tool runs: a long build writes nothing either."""
    prewarm_delay: float = 1.0
    """How long nothing may happen before a process is prewarmed or restarted."""
    prewarm_keep: float = 900.0
    """How long a prewarmed process waits for a message."""
    restore: float = 30.0


class SessionAgent(NamedTuple):
    """The agent of a session on this machine."""

    adapter: Adapter
    state_dir: str
    """Where the adapter keeps its files."""
    agent_dir: str = ""
    """Where the agent's process keeps its files, if that is not `state_dir`."""


def _no_other_agent(name: str) -> SessionAgent:
    raise AgentError(f"unknown agent {name!r}", code=ErrorCode.AGENT_UNKNOWN)


@dataclass(slots=True)
class ActorContext:
    agent: SessionAgent
    limits: TimeLimits
    environment_names: tuple[str, ...] = ()
    """Further environment variables that the owner of the machine lets agents see."""
    home_id: str = ""
    """The runner's home as the launch marks of its agents name it."""
    user: AgentUser | None = None
    """The user that agents run as, if it is not the runner's own."""
    find_agent: Callable[[str], SessionAgent] = _no_other_agent
    """Returns another agent of this machine by its name. Raises AgentError."""
    directories: SessionDirectories = field(default_factory=SessionDirectories)
    places: AgentPlaces = field(default_factory=AgentPlaces)
    lease: RunnerLease = field(default_factory=RunnerLease)
    digest: str = ""
    """What the agent is told, with the first message, of the conversation that was handed over."""

    @property
    def adapter(self) -> Adapter:
        return self.agent.adapter

    def environment(self) -> dict[str, str]:
        """Return the part of the runner's current environment that the agent may see."""
        names = (*self.adapter.environment_names, *self.environment_names)
        environment = scrub_environment(os.environ, names)
        return environment if self.user is None else self.user.environment(environment)
