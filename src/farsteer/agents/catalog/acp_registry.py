"""The official registry of ACP agents: its entries as definitions.

An entry says how a package is run (`npx`, `uvx`) or where a program is downloaded (`binary`). We install nothing: the
definition runs what is on PATH, and says how to get it. Permission modes are not in the registry.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from farsteer.agents.catalog.definition import AgentDefinition, Feature, checked
from farsteer.core.errors import BadRequest, NotFound
from farsteer.core.text import clean_line
from farsteer.core.wire import encode

ADDRESS = "https://cdn.agentclientprotocol.com/registry/v1/latest/registry.json"
MAX_BYTES = 16 * 1024 * 1024
_UNKNOWN = "not known: the registry does not tell in which permission mode this agent starts"


class _Package(msgspec.Struct):
    package: str
    cmd: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}


class _Program(msgspec.Struct):
    cmd: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}


class _Distribution(msgspec.Struct):
    npx: _Package | None = None
    uvx: _Package | None = None
    binary: dict[str, _Program] = {}


class _Entry(msgspec.Struct):
    id: str
    name: str
    distribution: _Distribution
    version: str = ""
    website: str | None = None
    repository: str | None = None


class _Registry(msgspec.Struct):
    agents: tuple[msgspec.Raw, ...]


def find_agent(content: bytes, agent_id: str) -> AgentDefinition:
    """Return the definition of an agent.

    Raises:
        BadRequest: The content is no registry, or the entry cannot be used.
        NotFound: The registry has no such agent.
    """
    try:
        registry = msgspec.json.decode(content, type=_Registry)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"this is not a registry of ACP agents: {error}") from None
    known: list[str] = []
    for raw in registry.agents:
        # An entry of a newer form does not spoil the others.
        try:
            entry = msgspec.json.decode(raw, type=_Entry)
        except (msgspec.DecodeError, RecursionError):
            continue
        if entry.id == agent_id:
            return checked(_definition(entry), f"the registry's entry {agent_id}")
        known.append(entry.id)
    raise NotFound(f"the registry has no agent {agent_id!r}", agents=sorted(known))


def _definition(entry: _Entry) -> AgentDefinition:
    title = clean_line(entry.name, 100)
    source = f"registry of ACP agents, {entry.id} {entry.version}".strip()
    given = entry.distribution
    page = entry.website or entry.repository
    if given.npx is not None:
        return _define(
            title, ("npx", "--yes", given.npx.package, *given.npx.args), given.npx.env, source, None
        )
    if given.uvx is not None:
        package = given.uvx
        run = ("uvx", "--from", package.package, package.cmd) if package.cmd else ("uvx", package.package)
        return _define(title, (*run, *package.args), package.env, source, None)
    for program in given.binary.values():
        name = Path(program.cmd.replace("\\", "/")).name.removesuffix(".exe").removesuffix(".cmd")
        install = f"see {page}" if page else None
        return _define(title, (name, *program.args), program.env, source, install)
    raise BadRequest(f"the registry's entry {entry.id} has no distribution that can be run here")


def _define(
    title: str, command: tuple[str, ...], environment: dict[str, str], source: str, install: str | None
) -> AgentDefinition:
    return AgentDefinition(
        title=title, command=command, environment=environment, install=install, source=source,
        can=(Feature.MCP_SERVERS,), does_unasked=(_UNKNOWN,),
    )  # fmt: skip


def to_toml(definition: AgentDefinition) -> str:
    """Return the definition as the TOML file of the owner. JSON strings and arrays are TOML too."""
    lines = ["# Added by `farsteer agents add`. docs/acp-agents.md says what else can be set."]
    for name in ("title", "command", "install", "source", "can", "does_unasked"):
        value = getattr(definition, name)
        if value:
            lines.append(f"{name} = {encode(value).decode()}")
    if definition.environment:
        lines += ["", "[environment]"]
        lines += [f"{name} = {encode(value).decode()}" for name, value in definition.environment.items()]
    return "\n".join(lines) + "\n"
