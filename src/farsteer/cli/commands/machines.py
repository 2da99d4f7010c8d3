"""`farsteer machines`: lists the machines of a hub, forgets one, and lets another runner act as one of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.text import ago, table
from farsteer.client.machines import choose_machine
from farsteer.core.api import MachineView
from farsteer.core.errors import BadRequest, Conflict
from farsteer.core.text import clean_line, printable_json

if TYPE_CHECKING:
    from farsteer.client import AsyncClient

DESCRIPTION = """\
List the machines of the hub. One runner at a time acts as a machine; a second one
with the same identity, started on a copy of its home directory, is refused and
shown here.

actions:
  list         list the machines (the default)
  forget ID    remove a machine that is not connected any more, and its key; with
               --delete-sessions also what the hub has of its sessions
  release ID   let a runner on another home directory take the place of one that
               is gone for good, for example with its disk. Only if that one does
               not run any more: it may have messages that would run twice
"""

EXAMPLES = """\
  farsteer machines
  farsteer machines forget old-laptop
  farsteer machines forget 7c1e03a5 --delete-sessions --yes
  farsteer machines release 7c1e03a5
"""


def machines_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("machines", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument(
        "action", nargs="?", choices=["list", "forget", "release"], default="list", metavar="ACTION",
        help="see above (default: list)",
    )  # fmt: skip
    parser.add_argument(
        "machine",
        nargs="?",
        metavar="ID",
        help="forget, release: id of the machine, its first characters or its name",
    )
    parser.add_argument("--json", action="store_true", help="list: print one JSON object per line")
    parser.add_argument(
        "--delete-sessions", action="store_true", help="forget: delete the sessions of the machine too"
    )
    parser.add_argument("--yes", action="store_true", help="forget: do not ask before sessions are deleted")
    arguments = parser.parse_intermixed_args(argv)
    if (arguments.machine is None) != (arguments.action == "list"):
        parser.error(f"{arguments.action} {'needs an ID' if arguments.machine is None else 'takes no ID'}")
    return context.run(_run(arguments.action, arguments.machine, arguments))


async def _run(action: str, machine: str, arguments: argparse.Namespace) -> int:
    async with context.hub_client(arguments) as client:
        if action == "release":
            await _release(client, machine)
        elif action == "forget":
            await _forget(client, arguments)
        else:
            _print_list(await client.machines(), as_json=arguments.json)
    return SUCCESS


async def _release(client: AsyncClient, wanted: str) -> None:
    machine = choose_machine(await client.machines(), wanted)
    await client.release_machine(machine.id)
    name = clean_line(machine.name or machine.host)
    print(f"another runner may act as {name} ({machine.id}) now; it connects within 30 s", file=sys.stderr)


async def _forget(client: AsyncClient, arguments: argparse.Namespace) -> None:
    machine = choose_machine(await client.machines(), arguments.machine)
    name = f"{clean_line(machine.name or machine.host)} ({machine.id})"
    if arguments.delete_sessions:
        sessions = [session.id async for session in client.sessions(machine_id=machine.id)]
        if sessions and not arguments.yes:
            _confirm(f"forget {name} and delete its {len(sessions)} sessions with their history?")
    try:
        await client.remove_machine(machine.id, delete_sessions=arguments.delete_sessions)
    except Conflict as error:
        if machine.active:
            raise
        raise Conflict(f"{name} has sessions: --delete-sessions deletes them too") from error
    print(f"the hub has forgotten {name}", file=sys.stderr)


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise BadRequest("deleted sessions cannot be restored: pass --yes to confirm")
    print(f"{question} [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise BadRequest("nothing was deleted")


def _print_list(machines: Sequence[MachineView], *, as_json: bool) -> None:
    if as_json:
        for machine in machines:
            print(printable_json(machine))
        return
    header = ("ID", "NAME", "VERSION", "CONNECTED", "")
    print(table([header, *map(_row, machines)], get_terminal_size().columns))


def _row(machine: MachineView) -> tuple[str, ...]:
    connected = "yes" if machine.active else f"until {ago(machine.active_at)}"
    conflict = machine.conflict
    note = (
        "" if conflict is None else f"refused another one on {clean_line(conflict.host)}, {ago(conflict.at)}"
    )
    return (machine.id[:8], clean_line(machine.name or machine.host), machine.version, connected, note)
