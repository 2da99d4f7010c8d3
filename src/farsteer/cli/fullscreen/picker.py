"""The first screen of `farsteer`: choose a session, or make one on a machine, in a directory, with an agent."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option

from farsteer.cli.errors import message_with_hint
from farsteer.cli.fullscreen.dialogs import Chosen, Item, ListDialog, ListOptions
from farsteer.cli.terminal.text import Style, ago, columns, one_line, short_path
from farsteer.client.config import absolute_path
from farsteer.core.api import CreateSession, MachineView, SessionView
from farsteer.core.errors import FarsteerError
from farsteer.core.events import SessionStatus
from farsteer.core.text import clean_line

if TYPE_CHECKING:
    from farsteer.cli.fullscreen.app import FarsteerApp
    from farsteer.client import AsyncClient

_REFRESH_SECONDS = 2.0
_MAX_SESSIONS = 200
_MAX_DIRECTORIES = 30
_STATUS_STYLES = {
    SessionStatus.WAITING: Style.ASK,
    SessionStatus.WORKING: Style.GOOD,
    SessionStatus.FAILED: Style.BAD,
    SessionStatus.UNREACHABLE: Style.BAD,
}
_STATUS_TEXTS = {SessionStatus.WAITING: "asks", SessionStatus.UNREACHABLE: "offline"}


class Picker(Screen[None]):
    """The sessions, those that wait for a person first. The first row makes a new one."""

    DEFAULT_CSS = """
    Picker { padding: 1 2; }
    Picker .title { text-style: bold; color: $secondary; }
    Picker .hint { text-style: dim; }
    Picker Input, Picker Input:focus { border: none; height: 1; padding: 0; margin: 1 0; background: transparent; }
    Picker OptionList, Picker OptionList:focus { height: 1fr; border: none; padding: 0; background: transparent; }
    """
    BINDINGS = [
        Binding("ctrl+c,ctrl+d,escape", "leave", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("ctrl+n", "create", show=False, priority=True),
    ]

    app: FarsteerApp

    def __init__(self, client: AsyncClient) -> None:
        super().__init__()
        self._client = client
        self._sessions: list[SessionView] = []
        self._shown: list[SessionView] = []

    def compose(self) -> ComposeResult:
        yield Label("Farsteer: choose a session, or begin a new one", classes="title")
        yield Input(placeholder="type to filter")
        yield OptionList(markup=False)
        yield Label("Enter opens · Ctrl-N new session · Esc leaves", classes="hint")

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._fill()
        self._read_again()
        self.set_interval(_REFRESH_SECONDS, self._read_again)

    def _read_again(self) -> None:
        self.run_worker(self._read(), group="read", exclusive=True)

    async def _read(self) -> None:
        sessions: list[SessionView] = []
        try:
            async for session in self._client.sessions():
                sessions.append(session)
                if len(sessions) >= _MAX_SESSIONS:
                    break
        except FarsteerError as error:
            self.app.fail(error)
            return
        waiting = [one for one in sessions if one.status is SessionStatus.WAITING]
        self._sessions = waiting + [one for one in sessions if one.status is not SessionStatus.WAITING]
        self._fill()

    def _fill(self) -> None:
        shown = self.query_one(OptionList)
        chosen = self._highlighted()
        words = self.query_one(Input).value.lower().split()
        self._shown = [one for one in self._sessions if all(word in _search_text(one) for word in words)]
        shown.clear_options()
        shown.add_option(Option(Text("+ new session", style=Style.USER)))
        shown.add_options(Option(self._row(session)) for session in self._shown)
        ids = [session.id for session in self._shown]
        if chosen is not None and chosen.id in ids:
            shown.highlighted = ids.index(chosen.id) + 1
        else:
            shown.highlighted = 1 if words and ids else 0

    def _row(self, session: SessionView) -> Text:
        status = _STATUS_TEXTS.get(session.status, session.status.value)
        row = Text(f"{status:<9}", style=_STATUS_STYLES.get(session.status, Style.DIM), no_wrap=True)
        row.append(f"{ago(session.updated_at):>4}  ", style=Style.DIM)
        place = f"{clean_line(session.agent, 20)} in {short_path(session.directory)}"
        if len({one.machine_id for one in self._sessions}) > 1:
            place += f" on {self.app.machine_name(session.machine_id)}"
        room = self.size.width - row.cell_len - columns(place) - 10
        row.append(one_line(session.title or "no title yet", max(20, room)), style="default")
        row.append(f"  {place}", style=Style.DIM)
        row.truncate(max(20, self.size.width - 8), overflow="ellipsis")
        return row

    def _highlighted(self) -> SessionView | None:
        index = self.query_one(OptionList).highlighted
        return self._shown[index - 1] if index and index <= len(self._shown) else None

    def on_resize(self) -> None:
        self._fill()

    def on_input_changed(self) -> None:
        self._fill()

    def on_input_submitted(self) -> None:
        self._open()

    def on_option_list_option_selected(self) -> None:
        self._open()

    def _open(self) -> None:
        session = self._highlighted()
        if session is None:
            self.action_create()
        else:
            self.run_worker(self._guarded_open(session.id))

    async def _guarded_open(self, session_id: str) -> None:
        try:
            await self.app.open_session(session_id)
        except FarsteerError as error:
            self._show_error(error)

    def action_create(self) -> None:
        if self.app.screen is self:
            self.run_worker(self._create())

    def action_move(self, step: int) -> None:
        shown = self.query_one(OptionList)
        (shown.action_cursor_down if step > 0 else shown.action_cursor_up)()

    def action_leave(self) -> None:
        self.app.leave()

    # -- a new session

    async def _create(self) -> None:
        try:
            machine = await self._choose_machine()
            directory = machine and await self._choose_directory(machine)
            agent = machine and directory and await self._choose_agent(machine)
            if machine is None or not directory or not agent:
                return
            self.notify(f"starting {clean_line(agent)}…", markup=False, timeout=3)
            request = CreateSession(machine_id=machine.id, directory=directory, agent=agent, source="cli")
            created = await self._client.create_session(request)
            await self.app.open_session(created.session_id)
        except FarsteerError as error:
            self._show_error(error)

    def _show_error(self, error: FarsteerError) -> None:
        self.notify(clean_line(message_with_hint(error)), severity="error", markup=False, timeout=10)

    async def _choose_machine(self) -> MachineView | None:
        machines = await self._client.machines()
        active = [machine for machine in machines if machine.active]
        if len(active) == 1:
            return active[0]
        items = [
            Item(
                machine.id,
                machine.name or machine.host,
                f"{machine.platform}, {'connected' if machine.active else 'not connected'}",
                enabled=machine.active,
            )
            for machine in machines
        ]
        if not active:
            self.notify(
                "no machine is connected: run `farsteer runner` on one", severity="error", markup=False
            )
            return None
        chosen = await self._ask("Which machine?", items)
        return next((machine for machine in machines if chosen and machine.id == chosen.value), None)

    async def _choose_directory(self, machine: MachineView) -> str | None:
        directories = list(dict.fromkeys(self._directories(machine)))[:_MAX_DIRECTORIES]
        items = [Item(path, short_path(path)) for path in directories]
        name = machine.name or machine.host
        chosen = await self._ask(f"Which directory on {name}?", items, ListOptions(free_text=True))
        if chosen is None:
            return None
        return absolute_path(chosen.value) if _is_here(machine) else chosen.value

    def _directories(self, machine: MachineView) -> list[str]:
        here = [str(Path.cwd())] if _is_here(machine) else []
        used = [
            one.worktree.base if one.worktree else one.directory
            for one in self._sessions
            if one.machine_id == machine.id
        ]
        return [*here, *used, *machine.roots]

    async def _choose_agent(self, machine: MachineView) -> str | None:
        items = [
            Item(
                agent.name,
                agent.title,
                agent.name if agent.available else f"{agent.reason or 'not installed'}",
                enabled=agent.available,
            )
            for agent in sorted(machine.agents, key=lambda agent: not agent.available)
        ]
        chosen = await self._ask("Which agent?", items)
        return chosen.value if chosen else None

    async def _ask(self, title: str, items: list[Item], options: ListOptions | None = None) -> Chosen | None:
        return await self.app.push_screen_wait(ListDialog(title, items, options))


def _is_here(machine: MachineView) -> bool:
    return machine.host == socket.gethostname()


def _search_text(session: SessionView) -> str:
    return f"{session.title or ''} {session.agent} {session.directory} {session.status.value} {session.id}".lower()
