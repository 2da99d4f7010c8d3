"""Chooses a session line by line, or makes one: `farsteer attach --plain` without an id."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from farsteer.cli.terminal.keyboard import read_line
from farsteer.cli.terminal.text import ago, one_line
from farsteer.client.config import absolute_path
from farsteer.core.api import CreateSession, MachineView, SessionView
from farsteer.core.errors import MachineOffline
from farsteer.core.text import clean_line

if TYPE_CHECKING:
    from farsteer.client import AsyncClient

_LISTED = 20
_NEW = "a new session"


async def choose_session(client: AsyncClient) -> SessionView | None:
    """Return a session that the person chooses or makes, or None at the end of input."""
    sessions: list[SessionView] = []
    async for session in client.sessions():
        sessions.append(session)
        if len(sessions) >= _LISTED:
            break
    chosen = await _choose("Which session?", [_NEW, *map(_describe, sessions)])
    if chosen is None or chosen > 0:
        return None if chosen is None else sessions[chosen - 1]
    return await _create(client)


def _describe(session: SessionView) -> str:
    title = one_line(session.title or "no title yet", 60)
    place = f"{clean_line(session.agent)} in {clean_line(session.directory)}"
    return f"{title}, {session.status.value}, {place}, {ago(session.updated_at)} ago"


async def _create(client: AsyncClient) -> SessionView | None:
    machines = [machine for machine in await client.machines() if machine.active]
    if not machines:
        raise MachineOffline("no machine is connected to the hub: connect one with `farsteer runner`")
    number = 0
    if len(machines) > 1:
        number = await _choose("Which machine?", [clean_line(one.name or one.host) for one in machines])
    if number is None:
        return None
    machine = machines[number]
    directory = await _ask_directory(machine)
    agents = [agent for agent in machine.agents if agent.available]
    chosen = None if directory is None else await _choose("Which agent?", [agent.name for agent in agents])
    if directory is None or chosen is None:
        return None
    agent = agents[chosen].name
    created = await client.create_session(
        CreateSession(machine_id=machine.id, directory=directory, agent=agent, source="cli")
    )
    return await client.session(created.session_id)


async def _ask_directory(machine: MachineView) -> str | None:
    here = machine.host == socket.gethostname()
    default = f" Enter takes {clean_line(str(Path.cwd()))}." if here else ""
    while True:
        print(f"Which directory on {clean_line(machine.name or machine.host)}?{default}", flush=True)
        line = await read_line(sys.stdin)
        if line is None:
            return None
        if line.strip() or here:
            return absolute_path(line.strip() or ".") if here else line.strip()


async def _choose(question: str, texts: Sequence[str]) -> int | None:
    """Return the place of the line that the person chooses, or None at the end of input."""
    for number, text in enumerate(texts, 1):
        print(f"{number}. {clean_line(text)}")
    while True:
        print(f"{question} Type a number, or press Ctrl-D to leave.", flush=True)
        line = await read_line(sys.stdin)
        if line is None:
            return None
        wanted = line.strip()
        if wanted.isascii() and wanted.isdigit() and 1 <= int(wanted) <= len(texts):
            return int(wanted) - 1
