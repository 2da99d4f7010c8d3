"""What the runner gives to a session's actor."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from farsteer.agents.base import Adapter
from farsteer.agents.process.environment import scrub_environment
from farsteer.agents.process.user import AgentUser
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


@dataclass(slots=True)
class ActorContext:
    adapter: Adapter
    state_dir: str
    """Where the adapter keeps its files."""
    limits: TimeLimits
    environment_names: tuple[str, ...] = ()
    """Further environment variables that the owner of the machine lets agents see."""
    home_id: str = ""
    """The runner's home as the launch marks of its agents name it."""
    user: AgentUser | None = None
    """The user that agents run as, if it is not the runner's own."""
    agent_dir: str = ""
    """Where the agent's process keeps its files, if that is not `state_dir`."""
    directories: SessionDirectories = field(default_factory=SessionDirectories)
    places: AgentPlaces = field(default_factory=AgentPlaces)
    lease: RunnerLease = field(default_factory=RunnerLease)

    def environment(self) -> dict[str, str]:
        """Return the part of the runner's current environment that the agent may see."""
        names = (*self.adapter.environment_names, *self.environment_names)
        environment = scrub_environment(os.environ, names)
        return environment if self.user is None else self.user.environment(environment)
