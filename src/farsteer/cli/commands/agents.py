"""`farsteer agents`: lists the agents and describes one of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from shutil import get_terminal_size

from farsteer.agents import registry
from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.text import facts_table, table
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.text import printable_json
from farsteer.core.wire import to_builtins

DESCRIPTION = """\
List the agents of this machine and how to install the missing ones. With NAME,
show what that agent can do and, if its adapter has a help text, what you can
type to it. --all lists the agents of every machine of the hub instead.
"""

EXAMPLES = """\
  farsteer agents
  farsteer agents demo
  farsteer agents --all
"""


def agents_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("agents", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument("name", nargs="?", metavar="NAME", help="describe this agent")
    parser.add_argument("--all", action="store_true", help="list the agents of every machine of the hub")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    # `farsteer agents demo --help` asks about the demo agent, not about this command.
    names_agent = any(word in registry.names() for word in argv)
    arguments = parser.parse_args([word for word in argv if not (names_agent and word in ("-h", "--help"))])
    context.home_directory(arguments)
    if arguments.name is not None:
        return context.run(_show(arguments.name, arguments))
    return context.run(_list_hub(arguments) if arguments.all else _list_local(arguments))


async def _list_local(arguments: argparse.Namespace) -> int:
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
        return f"{info.reason or 'not installed'}; install: {info.install or 'see its home page'}"
    return f"not logged in: {info.login}" if info.login else info.warning or info.title


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


async def _show(name: str, arguments: argparse.Namespace) -> int:
    adapter = registry.adapter(name)
    info = await adapter.detect()
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
    }
    return facts_table(facts, get_terminal_size().columns)


def _capability_names(capabilities: Capabilities) -> str:
    flags: dict[str, bool] = to_builtins(capabilities)
    return ", ".join(name for name, supported in flags.items() if supported)


def _help_text(adapter_module: str) -> str | None:
    """Return what the `help_text` function of the adapter's package says, or None if it has none."""
    package = import_module(adapter_module.rpartition(".")[0])
    help_text: Callable[[], str] | None = getattr(package, "help_text", None)
    return None if help_text is None else help_text()
