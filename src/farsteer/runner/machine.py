"""This machine: its id and key, its settings and its agents."""

from __future__ import annotations

import platform
import socket
from pathlib import Path
from typing import Annotated

import msgspec

from farsteer import __version__
from farsteer.agents import registry
from farsteer.agents.process.environment import is_private_variable
from farsteer.core.capabilities import AgentInfo, MachineInfo
from farsteer.core.errors import BadRequest
from farsteer.core.ids import is_uuid, new_id
from farsteer.link.identity import KEY_BYTES, MachineKey
from farsteer.runner.agent_places import DEFAULT_LIVE_AGENTS
from farsteer.storage.home import read_private, read_secret, read_settings, write_secret


class RunnerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The owner's settings in `runner.toml` of the home directory. No client can change them."""

    name: str | None = None
    """The displayed name of the machine. Defaults to its host name."""
    roots: tuple[str, ...] = ()
    """Sessions may run in these directories and below. Empty means anywhere."""
    agents: tuple[str, ...] = ()
    """Agents for sessions that name none, in order of preference."""
    environment: tuple[str, ...] = ()
    """Names of further environment variables that every agent may see."""
    run_as: str | None = None
    """The user that agents run as. Only a runner that root runs can use another user than its own."""
    live_agents: Annotated[int, msgspec.Meta(gt=0)] = DEFAULT_LIVE_AGENTS
    """How many agents may run at a time."""


def load_settings(home: Path) -> RunnerSettings:
    """Read `runner.toml`. A missing file gives the defaults; an invalid one raises BadRequest."""
    path = home / "runner.toml"
    settings = read_settings(path, RunnerSettings)
    for name in settings.environment:
        if is_private_variable(name):
            raise BadRequest(
                f"{path}: `environment` names {name}, which no agent may see: with it the agent could answer its own"
                " approvals. Remove it"
            )
    return settings


def machine_id(home: Path) -> str:
    """Return the id stored in `home/machine-id`, creating it at the first start."""
    path = home / "machine-id"
    text = (read_private(path) or b"").decode(errors="replace").strip()
    if is_uuid(text):
        return text
    fresh = new_id()
    write_secret(path, f"{fresh}\n".encode())
    return fresh


def machine_key(home: Path) -> MachineKey:
    """Return the key pair stored in `home/machine.key`, creating it at the first start.

    Raises BadRequest if the file is damaged.
    """
    path = home / "machine.key"
    seed = read_secret(path)
    if seed is None:
        key = MachineKey.generate()
        write_secret(path, key.seed)
        return key
    if len(seed) != KEY_BYTES:
        raise BadRequest(
            f"{path} is damaged. Remove it to get a new key; then the owner of the hub has to remove this machine"
            f" (DELETE /api/machines/{machine_id(home)}) before it can connect again"
        )
    return MachineKey(seed)


async def describe(home: Path, settings: RunnerSettings) -> MachineInfo:
    """Describe this machine to a hub. Detects every known agent."""
    host = socket.gethostname()
    return MachineInfo(
        id=machine_id(home),
        host=host,
        platform=platform.system().lower(),
        version=__version__,
        agents=tuple(await registry.detect_all()),
        roots=settings.roots,
        name=settings.name or host,
    )


def preferred_agent(info: MachineInfo, settings: RunnerSettings) -> str:
    """Return the agent for a session that names none: the first preferred one that is installed, else demo."""
    installed: dict[str, AgentInfo] = {agent.name: agent for agent in info.agents if agent.available}
    for name in settings.agents or registry.PREFERENCE:
        if name in installed:
            return name
    return "demo"
