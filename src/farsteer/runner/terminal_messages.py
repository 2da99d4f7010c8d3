"""Messages between `farsteer run` and the runner of the same machine, one JSON object per line.

`farsteer run` connects to a port of the loopback interface and says `Attach` with the secret that is in the home
directory of the runner. Then the runner says which program to run in the terminal and when to end it.
"""

from __future__ import annotations

from farsteer.agents.base import TerminalCommand
from farsteer.core.errors import ErrorRecord
from farsteer.core.wire import WireStruct

ADDRESS_FILE = "runner.terminals"
"""The file in the home directory that has the port and the secret, readable by its owner only."""
MAX_LINE = 8 * 1024 * 1024


class TerminalMessage(WireStruct, tag_field="do", omit_defaults=False):
    """Base of all messages."""


class Attach(TerminalMessage, tag="attach"):
    """Let this terminal have the conversation of a session."""

    secret: str
    session_id: str
    arguments: tuple[str, ...] = ()
    """The person's own arguments for the agent's program."""
    environment: dict[str, str] = {}
    """The environment of the terminal."""
    wants: bool = True
    """Whether it wants the conversation now, or only when it says `take_back`."""


class ProgramStarted(TerminalMessage, tag="started"):
    pid: int


class ProgramFailed(TerminalMessage, tag="failed"):
    """The program could not be started."""

    reason: str


class ProgramEnded(TerminalMessage, tag="ended"):
    exit_code: int


class TakeBack(TerminalMessage, tag="take_back"):
    """The person wants the conversation back. It comes when nothing else waits in the session."""

    interrupt: bool = False
    """Interrupt the turn that runs."""


class RunProgram(TerminalMessage, tag="run"):
    command: TerminalCommand


class EndProgram(TerminalMessage, tag="end"):
    grace: float


class HandedOver(TerminalMessage, tag="handed_over"):
    """The conversation goes on without this terminal."""

    reason: str


class Refused(TerminalMessage, tag="refused"):
    """The terminal cannot have the conversation. The connection ends."""

    error: ErrorRecord


FromTerminal = Attach | ProgramStarted | ProgramFailed | ProgramEnded | TakeBack
ToTerminal = RunProgram | EndProgram | HandedOver | Refused
