"""`farsteer agents`: lists the agents, describes one of them, and stores the keys of model providers."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from getpass import getpass
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size

from msgspec.structs import replace

from farsteer.agents.process.environment import scrub_environment
from farsteer.agents.providers.keys import delete_key, store_key
from farsteer.agents.providers.provider import Provider, load_provider, provider_names
from farsteer.agents.registry import AgentRegistry
from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.text import facts_table, table
from farsteer.client.config import home_dir
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.errors import BadRequest, Conflict, NotFound, Unavailable
from farsteer.core.text import printable_json
from farsteer.core.wire import to_builtins
from farsteer.storage.home import prepare_home, write_secret

_REGISTRY_SECONDS = 20.0

DESCRIPTION = """\
List the agents of this machine and how to install the missing ones. With NAME,
show what that agent can do and, if its adapter has a help text, what you can
type to it. --all lists the agents of every machine of the hub instead.

`login NAME` stores the key of a model provider in the home directory, where only
you can read it. It asks for the key, or reads it from standard input. `logout
NAME` deletes it. A key in the environment of the runner is used first.

`add ID` adds an agent of the official registry of the Agent Client Protocol. It
writes a description of it into the home directory, and installs nothing.
--registry FILE reads the registry from a file. `remove ID` removes it again.
"""

EXAMPLES = """\
  farsteer agents
  farsteer agents demo
  farsteer agents --all
  farsteer agents login glm
  farsteer agents add auggie --registry registry.json
"""


def agents_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("agents", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="describe this agent; or `login`, `logout`, `add`, `remove`"
    )
    parser.add_argument(
        "provider", nargs="?", metavar="ID", help="the model provider to log in to, or the agent to add"
    )
    parser.add_argument(
        "--registry", type=Path, metavar="FILE", help="`add` reads the registry from this file"
    )
    parser.add_argument("--all", action="store_true", help="list the agents of every machine of the hub")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    # `farsteer agents demo --help` asks about the demo agent, not about this command.
    names_agent = any(word in AgentRegistry(home_dir()).names() for word in argv)
    arguments = parser.parse_args([word for word in argv if not (names_agent and word in ("-h", "--help"))])
    home = context.home_directory(arguments)
    if arguments.name in ("login", "logout"):
        if arguments.provider is None:
            parser.error(f"name a model provider: farsteer agents {arguments.name} PROVIDER")
        change = _login if arguments.name == "login" else _logout
        return change(home, arguments.provider)
    if arguments.name in ("add", "remove"):
        if arguments.provider is None:
            parser.error(f"name an agent: farsteer agents {arguments.name} ID")
        if arguments.name == "add":
            return _add(home, arguments.provider, arguments.registry)
        return _remove(home, arguments.provider)
    if arguments.provider is not None:
        parser.error(f"unrecognized arguments: {arguments.provider}")
    if arguments.name is not None:
        return context.run(_show(AgentRegistry(home), arguments))
    return context.run(_list_hub(arguments) if arguments.all else _list_local(AgentRegistry(home), arguments))


def _login(home: Path, name: str) -> int:
    provider = _provider(home, name)
    where = f" (get one at {provider.key_page})" if provider.key_page else ""
    interactive = sys.stdin.isatty()
    key = getpass(f"key of {provider.title}{where}: ") if interactive else sys.stdin.readline()
    store_key(prepare_home(home), name, key)
    print(f"logged in to {provider.title}: agents that start from now on use this key")
    return SUCCESS


def _logout(home: Path, name: str) -> int:
    provider = _provider(home, name)
    print(
        f"logged out of {provider.title}"
        if delete_key(home, name)
        else f"no key of {provider.title} is stored"
    )
    return SUCCESS


def _add(home: Path, agent_id: str, registry: Path | None) -> int:
    from farsteer.agents.catalog.acp_registry import find_agent, to_toml
    from farsteer.agents.catalog.definition import agent_file

    path = agent_file(home, agent_id)
    if agent_id in AgentRegistry(home).names():
        raise Conflict(f"there is an agent {agent_id} already: `farsteer agents {agent_id}` shows it")
    definition = find_agent(_read_registry(registry), agent_id)
    prepare_home(home)
    prepare_home(path.parent)
    write_secret(path, to_toml(definition).encode())
    print(f"added {agent_id}, which runs: {shlex.join(definition.command)}")
    print(f"{path} describes it. A runner that runs finds it when it starts again.")
    return SUCCESS


def _remove(home: Path, agent_id: str) -> int:
    from farsteer.agents.catalog.definition import agent_file

    try:
        agent_file(home, agent_id).unlink()
    except FileNotFoundError:
        raise NotFound(f"no agent {agent_id!r} was added here") from None
    print(f"removed {agent_id}")
    return SUCCESS


def _read_registry(file: Path | None) -> bytes:
    from farsteer.agents.catalog.acp_registry import ADDRESS, MAX_BYTES

    if file is not None:
        try:
            with file.open("rb") as content:
                return content.read(MAX_BYTES)
        except OSError as error:
            raise BadRequest(f"cannot read {file}: {error.strerror}") from None
    import httpx

    try:
        answer = httpx.get(ADDRESS, timeout=_REGISTRY_SECONDS, follow_redirects=True).raise_for_status()
    except httpx.HTTPError as error:
        raise Unavailable(
            f"the registry cannot be reached: {error}. Download {ADDRESS} elsewhere and name it with --registry FILE"
        ) from None
    return answer.content[:MAX_BYTES]


def _provider(home: Path, name: str) -> Provider:
    names = provider_names(home)
    if name in names:
        return load_provider(home, name)
    if name in AgentRegistry(home).names():
        raise BadRequest(f"{name} logs in by itself: `farsteer agents {name}` shows how")
    raise BadRequest(f"no model provider {name!r}; there are {', '.join(names)}")


async def _list_local(registry: AgentRegistry, arguments: argparse.Namespace) -> int:
    agents = await registry.detect_all()
    if arguments.json:
        for info in agents:
            print(printable_json(info))
        return SUCCESS
    rows = [("AGENT", "VERSION", ""), *((info.name, info.version or "-", _note(info)) for info in agents)]
    print(table(rows, get_terminal_size().columns))
    return SUCCESS


def _note(info: AgentInfo) -> str:
    if not info.available:
        reason = info.reason or "not installed"
        # The end of a long note is cut off.
        return f"install: {info.install} ({reason})" if info.install else reason
    return f"log in: {info.login}" if info.login else info.warning or info.title


async def _list_hub(arguments: argparse.Namespace) -> int:
    async with context.hub_client(arguments) as client:
        agents, machines = await client.agents(), await client.machines()
    names = {machine.id: machine.name or machine.host for machine in machines}
    rows = [("AGENT", "MACHINE", "VERSION", "")]
    for agent in agents:
        if arguments.json:
            print(printable_json(agent))
        for place in agent.machines:
            note = agent.title if place.available else place.reason or "not installed"
            note = f"not logged in: {place.login}" if place.available and place.login else note
            machine = names.get(place.machine_id, place.machine_id[:8])
            rows.append((agent.name, machine, place.version or "-", note))
    if not arguments.json:
        print(table(rows, get_terminal_size().columns))
    return SUCCESS


async def _show(registry: AgentRegistry, arguments: argparse.Namespace) -> int:
    adapter = await registry.find(arguments.name)
    info = await adapter.detect()
    if info.available and not info.models:
        environment = scrub_environment(os.environ, adapter.environment_names)
        info = replace(info, models=await adapter.discover_models(environment))
    if arguments.json:
        print(printable_json(info))
        return SUCCESS
    print(_describe(info))
    text = _help_text(type(adapter).__module__)
    if text is not None:
        print(f"\n{text}")
    return SUCCESS


def _describe(info: AgentInfo) -> str:
    facts = {
        "agent": f"{info.name}, {info.title}",
        "version": info.version or "",
        "missing": "" if info.available else info.reason or "not installed",
        "install": "" if info.available else info.install or "",
        "log in": info.login or "",
        "note": info.warning or "",
        "models": ", ".join(info.models),
        "can": _capability_names(info.capabilities),
        "unasked": "; ".join(info.capabilities.does_unasked),
        "options": ", ".join(info.capabilities.options),
    }
    return facts_table(facts, get_terminal_size().columns)


def _capability_names(capabilities: Capabilities) -> str:
    flags: dict[str, object] = to_builtins(capabilities)
    return ", ".join(name for name, supported in flags.items() if supported is True)


def _help_text(adapter_module: str) -> str | None:
    """Return what the `help_text` function of the adapter's package says, or None if it has none."""
    package = import_module(adapter_module.rpartition(".")[0])
    help_text: Callable[[], str] | None = getattr(package, "help_text", None)
    return None if help_text is None else help_text()
