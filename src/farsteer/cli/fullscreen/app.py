"""The program on the screen: a list of sessions to choose from, and the conversation with one of them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

from textual.app import App
from textual.binding import Binding
from textual.worker import WorkerFailed

from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.fullscreen.conversation_screen import ConversationScreen
from farsteer.cli.fullscreen.picker import Picker
from farsteer.core.errors import FarsteerError
from farsteer.core.text import clean_line

if TYPE_CHECKING:
    from farsteer.client import AsyncClient
    from farsteer.core.api import MachineView, SessionView


class FarsteerApp(App[None]):
    """Runs until the person leaves or the session is deleted."""

    ENABLE_COMMAND_PALETTE = False
    # Notes appear at the top: the input field and the questions are at the bottom.
    CSS = """
    ToastRack { dock: top; align: right top; margin: 1 0 0 0; }
    OptionList > .option-list--option-highlighted, OptionList:focus > .option-list--option-highlighted {
        text-style: bold; color: ansi_black; background: ansi_cyan;
    }
    .no-color OptionList > .option-list--option-highlighted { text-style: bold underline; }
    .no-color OptionList:focus > .option-list--option-highlighted { text-style: bold underline; }
    .no-color Input > .input--cursor { text-style: reverse; }
    """
    BINDINGS = [
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
        Binding("ctrl+q", "nothing", show=False),
    ]

    def __init__(self, client: AsyncClient, session: SessionView | None, *, tail: int) -> None:
        # The terminal's own colours: they fit its background, whatever it is.
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self._client = client
        self._first = session
        self._tail = tail
        self._machines: list[MachineView] = []
        self._failure: Exception | None = None
        self._farewell = ""

    async def run_until_left(self) -> int:
        """Run, and say afterwards what the screen cannot say any more.

        Raises:
            Exception: What the program has failed with.
        """
        # Where they are exported, they would be taken for the size for ever.
        os.environ.pop("COLUMNS", None)
        os.environ.pop("LINES", None)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.leave)
        await self.run_async()
        self.raise_failure()
        if self._farewell:
            print(self._farewell, file=sys.stderr)
        return SUCCESS

    async def on_mount(self) -> None:
        self.set_class(self.no_color, "no-color")
        self.run_worker(self._read_machines())
        if self._first is not None:
            self._show(ConversationScreen(self._client, self._first, self._tail))
        else:
            self.show_picker()

    # -- screens

    def _show(self, screen: ConversationScreen | Picker) -> None:
        if len(self.screen_stack) > 1:
            self.switch_screen(screen)
        else:
            self.push_screen(screen)

    def show_picker(self) -> None:
        self._show(Picker(self._client))

    async def open_session(self, session_id: str, draft: str = "") -> None:
        """Show the conversation of a session, with a text in its input field."""
        session = await self._client.session(session_id)
        self._show(ConversationScreen(self._client, session, self._tail, draft))

    def leave(self, why: str = "") -> None:
        """End the program. The session goes on."""
        screen = next((one for one in self.screen_stack if isinstance(one, ConversationScreen)), None)
        lines: list[str] = []
        if screen is not None:
            lines = [f"not sent: {clean_line(message.text)}" for message in screen.outbox.waiting]
            short = screen.session.id[:8]
            lines.append(why or f"detached; attach again with `farsteer attach {short}`")
        self._farewell = "\n".join(lines)
        self.exit()

    def fail(self, error: Exception) -> None:
        """End the program with an error."""
        self._failure = self._failure or error
        self.exit(return_code=1)

    def raise_failure(self) -> None:
        """Raise what the program has failed with, if it has."""
        if self._failure is not None:
            raise self._failure

    def _handle_exception(self, error: Exception) -> None:
        """End with one line. Textual would print a traceback with the values of all variables, credentials too."""
        cause = error.error if isinstance(error, WorkerFailed) else error
        self.fail(cause if isinstance(cause, Exception) else error)

    # -- machines

    async def _read_machines(self) -> None:
        try:
            self._machines = await self._client.machines()
        except FarsteerError:
            return

    def machine_name(self, machine_id: str) -> str:
        for machine in self._machines:
            if machine.id == machine_id:
                return clean_line(machine.name or machine.host, 40)
        return machine_id[:8]

    async def models(self, machine_id: str, agent: str) -> tuple[str, ...]:
        """Return the models that an agent of a machine offers."""
        await self._read_machines()
        for machine in self._machines:
            if machine.id == machine_id:
                return next((one.models for one in machine.agents if one.name == agent), ())
        return ()

    def action_nothing(self) -> None:
        """Keep a key of Textual from ending the program."""
