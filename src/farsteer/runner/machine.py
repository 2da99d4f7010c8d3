"""This machine: its id and key, its settings and its agents."""

from __future__ import annotations

import logging
import platform
import socket
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated

import msgspec

from farsteer import __version__
from farsteer.agents.base import Adapter, Takeover
from farsteer.agents.process.environment import is_private_variable
from farsteer.agents.registry import PREFERENCE, AgentRegistry
from farsteer.core.capabilities import AgentInfo, MachineInfo
from farsteer.core.errors import BadRequest, FarsteerError
from farsteer.core.ids import is_uuid, new_id
from farsteer.core.session import SessionSpec
from farsteer.core.wire import decode
from farsteer.link.identity import KEY_BYTES, MachineKey
from farsteer.runner.agent_places import DEFAULT_LIVE_AGENTS
from farsteer.runner.lease import lease_path
from farsteer.storage.connection import connect
from farsteer.storage.home import (
    HomeLock,
    prepare_home,
    read_private,
    read_secret,
    read_settings,
    write_secret,
)

_logger = logging.getLogger(__name__)


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
    """Return the id stored in `home/machine-id`, creating it at the first start.

    A machine that has a key had an id too: a lost one is taken from the sessions in the journal. Raises BadRequest if
    there are none. With a new id the hub would take this machine for another one.
    """
    path = home / "machine-id"
    stored = _stored_id(path)
    if stored is not None:
        return stored
    if read_secret(home / "machine.key") is None:
        found = new_id()
    else:
        found = _id_in_journal(home / "runner.db")
        if found is None:
            raise BadRequest(
                f"{path} is missing or damaged, and no session in runner.db tells the id of this machine. Write the id"
                f" that the hub has of it into {path} (GET /api/machines lists the ids), or give the machine a new"
                " identity with `farsteer runner --new-identity`"
            )
        _logger.warning(
            "%s was missing or damaged; the id of this machine is %s by the sessions in runner.db and was written"
            " there again", path, found,
        )  # fmt: skip
    write_secret(path, f"{found}\n".encode())
    return found


def _stored_id(path: Path) -> str | None:
    text = (read_private(path) or b"").decode(errors="replace").strip()
    return text if is_uuid(text) else None


def _id_in_journal(path: Path) -> str | None:
    """Return the machine that the sessions of the journal belong to, or None if they do not tell."""
    if not path.exists():
        return None
    try:
        with closing(connect(path, query_only=True)) as db:
            specs = db.execute("SELECT spec FROM sessions").fetchall()
    except sqlite3.Error:
        return None
    owners: Counter[str] = Counter()
    for (spec,) in specs:
        with suppress(msgspec.DecodeError):
            owners[decode(spec, SessionSpec).machine_id] += 1
    return next((owner for owner, _ in owners.most_common() if is_uuid(owner)), None)


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
            f" (DELETE /api/machines/{_stored_id(home / 'machine-id') or 'ID'}) before it can connect again"
        )
    return MachineKey(seed)


def renew_identity(home: Path) -> str:
    """Give a copied home an id and a key of its own, and return the id. Raises Conflict if a runner runs on it."""
    lock = HomeLock(prepare_home(home), "runner")
    try:
        id = new_id()
        # In this order: a hub does not accept an id that it knows with another key.
        write_secret(home / "machine-id", f"{id}\n".encode())
        write_secret(home / "machine.key", MachineKey.generate().seed)
        lease_path(home).unlink(missing_ok=True)
    finally:
        lock.release()
    return id


async def describe(home: Path, settings: RunnerSettings, agents: AgentRegistry) -> MachineInfo:
    """Describe this machine to a hub. Detects every known agent."""
    host = socket.gethostname()
    return MachineInfo(
        id=machine_id(home),
        host=host,
        platform=platform.system().lower(),
        version=__version__,
        agents=tuple(_with_relatives(agents, await agents.detect_all())),
        roots=settings.roots,
        name=settings.name or host,
    )


def _with_relatives(agents: AgentRegistry, found: list[AgentInfo]) -> list[AgentInfo]:
    """Say of each agent which others' conversations it can go on with."""
    adapters: dict[str, Adapter] = {}
    for info in found:
        with suppress(FarsteerError):
            adapters[info.name] = agents.adapter(info.name)

    def continues(name: str) -> tuple[str, ...]:
        own = adapters.get(name)
        return () if own is None else tuple(
            other for other, adapter in adapters.items() if other != name and own.takeover(adapter) is Takeover.RESUMED
        )  # fmt: skip

    return [msgspec.structs.replace(info, continues=continues(info.name)) for info in found]


def preferred_agent(info: MachineInfo, settings: RunnerSettings) -> str:
    """Return the agent for a session that names none: the first preferred one that is installed, else demo.

    One that is logged in comes before one that is not.
    """
    agents: dict[str, AgentInfo] = {agent.name: agent for agent in info.agents if agent.available}
    installed = [name for name in settings.agents or PREFERENCE if name in agents]
    ready = [name for name in installed if agents[name].login is None]
    return next(iter((*ready, *installed)), "demo")
