"""The terminal that is attached to a session."""

from __future__ import annotations

from farsteer.core.errors import Conflict, FarsteerError, NotCapable
from farsteer.runner.session.context import ActorContext
from farsteer.runner.terminals import TerminalConnection


class SessionTerminal:
    """Which terminal is attached, and whether it waits for the conversation."""

    def __init__(self, context: ActorContext) -> None:
        self._context = context
        self.current: TerminalConnection | None = None
        self.is_waiting = False
        """It gets the conversation when no turn runs and no message waits."""

    def attach(self, terminal: TerminalConnection) -> None:
        """Let a terminal wait for the conversation, or refuse it."""
        if terminal.is_lost:
            return
        try:
            self._check()
        except FarsteerError as error:
            terminal.refuse(error)
        else:
            self.current, self.is_waiting = terminal, terminal.wants_conversation

    def refuse(self, error: FarsteerError) -> None:
        """The agent's interface could not be started in the terminal."""
        if self.current is not None:
            self.current.refuse(error)
            self.lose(self.current)

    def disconnect(self) -> None:
        """The session ends here. Its terminal may find it elsewhere."""
        if self.current is not None:
            self.current.disconnect()
            self.lose(self.current)

    def take_back(self, terminal: TerminalConnection) -> None:
        if terminal is self.current:
            self.is_waiting = True

    def lose(self, terminal: TerminalConnection) -> None:
        if terminal is self.current:
            self.current, self.is_waiting = None, False

    def _check(self) -> None:
        if self.current is not None:
            raise Conflict("this session is in another terminal")
        if self._context.user is not None:
            raise NotCapable("agents run as another user on this machine (run_as), and a terminal cannot")
        if not self._context.adapter.capabilities.terminal:
            raise NotCapable(f"{self._context.adapter.title} cannot run in a terminal")
