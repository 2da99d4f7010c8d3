"""`farsteer import`: conversations that an agent had before Farsteer knew it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.main import DONE
from farsteer.cli.text import ago, clean, one_line, table
from farsteer.client.machines import choose_machine
from farsteer.core.errors import BadRequest, NotFound
from farsteer.core.session import StoredConversation
from farsteer.core.wire import encode

if TYPE_CHECKING:
    from farsteer.client import AsyncClient

ABOUT = """\
Adopt conversations that an agent on a machine had before: each becomes a session
with its history, and goes on where it was. Without an ID they are listed. An ID
may be shortened to any beginning that only one conversation has.
"""

EXAMPLES = """\
  farsteer import droid
  farsteer import droid --directory .
  farsteer import droid 3f2a
"""


def main(argv: Sequence[str]) -> int:
    parser = context.command("import", ABOUT, EXAMPLES)
    context.add_hub(parser)
    parser.add_argument("agent", metavar="AGENT", help="whose conversations: `farsteer agents` lists them")
    parser.add_argument("ids", nargs="*", metavar="ID", help="which to adopt; their session ids are printed")
    parser.add_argument("--machine", metavar="M", help="id, name or host of the machine (default: this one)")
    parser.add_argument("--directory", metavar="DIR", help="only those of this directory")
    parser.add_argument("--title", metavar="T", help="the title of the session")
    parser.add_argument("-n", "--limit", type=int, default=100, metavar="N", help="at most N (default: 100)")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    arguments = parser.parse_args(argv)
    return context.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    async with context.client(arguments) as client:
        machine = choose_machine(await client.machines(), arguments.machine).id
        found = await client.conversations(
            machine, arguments.agent, directory=_directory(arguments), limit=arguments.limit
        )
        if arguments.ids:
            await _adopt(client, machine, found, arguments)
        else:
            _list(found, arguments)
    return DONE


def _directory(arguments: argparse.Namespace) -> str | None:
    from farsteer.client.access import absolute

    return absolute(arguments.directory) if arguments.directory else None


async def _adopt(
    client: AsyncClient, machine: str, found: list[StoredConversation], arguments: argparse.Namespace
) -> None:
    for given in arguments.ids:
        session = await client.adopt(
            machine, arguments.agent, _chosen(found, given).native_id, title=arguments.title
        )
        print(session.id)


def _chosen(found: list[StoredConversation], given: str) -> StoredConversation:
    matching = [one for one in found if one.native_id.startswith(given)]
    exact = [one for one in matching if one.native_id == given]
    if len(exact or matching) == 1:
        return (exact or matching)[0]
    if not matching:
        raise NotFound(f"no conversation's id begins with {given!r}")
    raise BadRequest(f"{len(matching)} conversations begin with {given!r}")


def _list(found: list[StoredConversation], arguments: argparse.Namespace) -> None:
    if arguments.json:
        for one in found:
            print(encode(one).decode())
        return
    if not found:
        print(f"{arguments.agent} has no conversations there", file=sys.stderr)
        return
    header = ("ID", "USED", "MESSAGES", "SESSION", "DIRECTORY", "TITLE")
    print(table([header, *map(_row, found)], get_terminal_size().columns))


def _row(one: StoredConversation) -> tuple[str, ...]:
    return (
        clean(one.native_id)[:13],
        ago(one.updated_at),
        "" if one.messages is None else str(one.messages),
        (one.session_id or "")[:8],
        one_line(one.directory, 40),
        clean(one.title or ""),
    )
