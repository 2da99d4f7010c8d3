"""`farsteer agents`: which agents there are."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Sequence
from importlib import import_module
from shutil import get_terminal_size

from farsteer.agents import registry
from farsteer.cli import context
from farsteer.cli.main import DONE
from farsteer.cli.text import clean, facts_table, table
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.wire import encode, to_builtins

ABOUT = """\
Which agents this machine has, and how to get the others; with a NAME what that
agent can do, and with NAME --help also what one can type to it, where it says so.
With --hub, or while a hub runs on this home, --all shows every machine's.
"""

EXAMPLES = """\
  farsteer agents
  farsteer agents demo --help
  farsteer agents --all
"""


def main(argv: Sequence[str]) -> int:
    parser = context.command("agents", ABOUT, EXAMPLES)
    context.add_hub(parser)
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="the agents of every machine of the hub")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    named = [word for word in argv if word in registry.names()]
    # `farsteer agents demo --help` is about the demo agent, not about this command.
    plain_words = [word for word in argv if word not in ("-h", "--help")] if named else argv
    arguments = parser.parse_args(plain_words)
    context.home(arguments)
    if arguments.name is None:
        return context.run(_everywhere(arguments) if arguments.all else _here(arguments))
    return context.run(_one(arguments.name, arguments))


async def _here(arguments: argparse.Namespace) -> int:
    found = await asyncio.gather(*(registry.adapter(name).detect() for name in registry.names()))
    if arguments.json:
        for info in found:
            print(encode(info).decode())
        return DONE
    rows = [("AGENT", "VERSION", "")]
    for info in found:
        how = (
            info.title
            if info.available
            else f"{info.reason or 'not here'}; get it: {info.install or 'see its home page'}"
        )
        rows.append((clean(info.name), clean(info.version or "-"), clean(how)))
    print(table(rows, get_terminal_size().columns))
    return DONE


async def _everywhere(arguments: argparse.Namespace) -> int:
    async with context.client(arguments) as client:
        agents, machines = await client.agents(), await client.machines()
    names = {machine.id: machine.name or machine.host for machine in machines}
    rows = [("AGENT", "MACHINE", "VERSION", "")]
    for agent in agents:
        if arguments.json:
            print(encode(agent).decode())
        for place in agent.machines:
            note = agent.title if place.available else place.reason or "not there"
            where = names.get(place.machine_id, place.machine_id[:8])
            rows.append((clean(agent.name), clean(where), clean(place.version or "-"), clean(note)))
    if not arguments.json:
        print(table(rows, get_terminal_size().columns))
    return DONE


async def _one(name: str, arguments: argparse.Namespace) -> int:
    adapter = registry.adapter(name)
    info = await adapter.detect()
    if arguments.json:
        print(encode(info).decode())
        return DONE
    print(_described(info))
    text = _help_text(type(adapter).__module__)
    if text is not None:
        print(f"\n{text}")
    return DONE


def _described(info: AgentInfo) -> str:
    facts = {
        "agent": f"{info.name}, {info.title}",
        "version": info.version or "",
        "missing": "" if info.available else info.reason or "not here",
        "get it": "" if info.available else info.install or "",
        "models": ", ".join(info.models),
        "can": _can(info.capabilities),
    }
    return facts_table(facts, get_terminal_size().columns)


def _can(capabilities: Capabilities) -> str:
    given: dict[str, bool] = to_builtins(capabilities)
    return ", ".join(name for name, yes in given.items() if yes)


def _help_text(module: str) -> str | None:
    """What the adapter's package says about talking to its agent."""
    package = import_module(module.rpartition(".")[0])
    found: Callable[[], str] | None = getattr(package, "help_text", None)
    return None if found is None else found()
