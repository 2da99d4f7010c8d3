"""What a session's actor is given by its runner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from farsteer.agents.base import Adapter
from farsteer.core.wire import WireStruct


class Limits(WireStruct):
    """How long things may take, in seconds."""

    startup: float = 60.0
    interrupt: float = 5.0
    """An agent that has not taken an interrupt by then is ended."""
    interrupt_end: float = 3.0
    """One that took it and has not ended its turn by then is ended too: a tool may hang."""
    stop_grace: float = 3.0
    stop: float = 20.0
    """Nobody waits longer for the end of a process: whatever is left of it then is killed."""
    silence: float = 600.0
    """In a turn, with nobody asked and no tool running."""
    tool_silence: float = 3600.0
    """In a turn, while a tool runs: a long build says nothing either."""
    warm_delay: float = 1.0
    """How long things must be quiet before a process is started in advance or restarted."""
    warm_keep: float = 900.0
    """How long a process that was started in advance waits for a message."""
    restore: float = 30.0


@dataclass(slots=True)
class ActorContext:
    adapter: Adapter
    state_dir: str
    environment: Callable[[Adapter], dict[str, str]]
    limits: Limits
    home: str = ""
    """The runner's home, as the marks of its agents name it."""
