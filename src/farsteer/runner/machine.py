"""Who this machine is: an id that never changes, and what it has."""

from __future__ import annotations

import asyncio
import platform
import socket
from pathlib import Path

from farsteer import __version__
from farsteer.agents import registry
from farsteer.core.capabilities import AgentInfo, MachineInfo
from farsteer.core.ids import is_uuid, new_id
from farsteer.runner.settings import RunnerSettings
from farsteer.storage.home import write_secret


def machine_id(home: Path) -> str:
    """The id in `$home/machine-id`, made at the first start."""
    path = home / "machine-id"
    try:
        text = path.read_text().strip()
        if is_uuid(text):
            return text
    except FileNotFoundError:
        pass
    fresh = new_id()
    write_secret(path, f"{fresh}\n".encode())
    return fresh


async def describe(home: Path, settings: RunnerSettings) -> MachineInfo:
    found = await asyncio.gather(*(registry.adapter(name).detect() for name in registry.names()))
    host = socket.gethostname()
    return MachineInfo(
        id=machine_id(home),
        host=host,
        platform=platform.system().lower(),
        version=__version__,
        agents=tuple(found),
        roots=settings.roots,
        name=settings.name or host,
    )


def preferred_agent(info: MachineInfo, settings: RunnerSettings) -> str:
    """The agent of a session that names none: the first preferred one that is installed, else demo."""
    installed: dict[str, AgentInfo] = {agent.name: agent for agent in info.agents if agent.available}
    for name in settings.agents or registry.PREFERENCE:
        if name in installed:
            return name
    return "demo"
