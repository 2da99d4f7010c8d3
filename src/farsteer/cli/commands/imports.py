"""`farsteer import`: turns conversations that an agent has stored into sessions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.text import ago, one_line, table
from farsteer.client.config import absolute_path
from farsteer.client.machines import choose_machine
from farsteer.core.errors import BadRequest, NotFound
from farsteer.core.session import StoredConversation
from farsteer.core.text import printable_json

if TYPE_CHECKING:
    from farsteer.client import AsyncClient

DESCRIPTION = """\
Turn conversations that an agent has stored on a machine into sessions. Each
session starts with the history of its conversation and continues it. Without an
ID, the conversations are listed. An ID may be shortened to its first characters
if no other conversation has the same ones.
"""

EXAMPLES = """\
  farsteer import droid
  farsteer import droid --directory .
  farsteer import droid 3f2a
"""


def import_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("import", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument(
        "agent", metavar="AGENT", help="agent that has the conversations; `farsteer agents` lists them"
    )
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help="conversations to import; the new session ids are printed"
    )
    context.add_machine_option(parser)
    parser.add_argument("--directory", metavar="DIR", help="only conversations in this directory")
    parser.add_argument("--title", metavar="T", help="title of the new session")
    parser.add_argument(
        "-n", "--limit", type=int, default=100, metavar="N", help="at most N conversations (default: 100)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    return context.run(_list_or_import(parser.parse_args(argv)))


async def _list_or_import(arguments: argparse.Namespace) -> int:
    directory = absolute_path(arguments.directory) if arguments.directory else None
    async with context.hub_client(arguments) as client:
        machine_id = choose_machine(await client.machines(), arguments.machine).id
        conversations = await client.conversations(
            machine_id, arguments.agent, directory=directory, limit=arguments.limit
        )
        if arguments.ids:
            await _import(client, machine_id, conversations, arguments)
        else:
            _print_list(conversations, arguments)
    return SUCCESS


async def _import(
    client: AsyncClient,
    machine_id: str,
    conversations: list[StoredConversation],
    arguments: argparse.Namespace,
) -> None:
    for given in arguments.ids:
        native_id = _find_conversation(conversations, given).native_id
        session = await client.adopt(machine_id, arguments.agent, native_id, title=arguments.title)
        print(session.id)


def _find_conversation(conversations: list[StoredConversation], given: str) -> StoredConversation:
    matching = [conversation for conversation in conversations if conversation.native_id.startswith(given)]
    exact = [conversation for conversation in matching if conversation.native_id == given]
    if len(exact or matching) == 1:
        return (exact or matching)[0]
    if not matching:
        raise NotFound(f"no conversation id starts with {given!r}")
    raise BadRequest(f"{len(matching)} conversation ids start with {given!r}")


def _print_list(conversations: list[StoredConversation], arguments: argparse.Namespace) -> None:
    if arguments.json:
        for conversation in conversations:
            print(printable_json(conversation))
        return
    if not conversations:
        print(f"{arguments.agent} has stored no conversations there", file=sys.stderr)
        return
    header = ("ID", "USED", "MESSAGES", "SESSION", "DIRECTORY", "TITLE")
    print(table([header, *map(_row, conversations)], get_terminal_size().columns))


def _row(conversation: StoredConversation) -> tuple[str, ...]:
    return (
        conversation.native_id[:13],
        ago(conversation.updated_at),
        "" if conversation.messages is None else str(conversation.messages),
        (conversation.session_id or "")[:8],
        one_line(conversation.directory, 40),
        conversation.title or "",
    )
