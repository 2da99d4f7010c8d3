"""`farsteer attach`: shows a session in this terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.follower import Follower
from farsteer.cli.terminal.log_view import entry_lines, session_header
from farsteer.core.events import Delta

DESCRIPTION = """\
Follow a session in this terminal: the last entries of its log, then everything
as it happens. Type a message and press Enter to send it; Alt-Enter or pasting
inserts a line break. Approvals are answered here too: type y, n and a reason, a
for always, or the number of a choice. Ctrl-C interrupts the turn; Ctrl-D, or a
second Ctrl-C, detaches and leaves the session running. If stdin or stdout is not
a terminal, the log is printed as plain text.
"""

EXAMPLES = """\
  farsteer attach              # the session used last
  farsteer attach 3f2a
  farsteer attach 3f2a --tail 500 > log.txt
"""


def attach_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("attach", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="id of a session, or its first characters (default: used last)"
    )
    parser.add_argument(
        "--tail",
        type=int,
        default=100,
        metavar="N",
        help="number of log entries to show first (default: %(default)s)",
    )
    return context.run(_attach(parser.parse_args(argv)))


async def _attach(arguments: argparse.Namespace) -> int:
    async with context.hub_client(arguments) as client:
        session = await context.find_session(client, arguments.id)
        follower = Follower(client, session.id, arguments.tail)
        if sys.stdin.isatty() and sys.stdout.isatty():
            from farsteer.cli.terminal.chat import Chat

            return await Chat(client, session, follower).run()
        await _print_log(session_header(session), follower)
    return SUCCESS


async def _print_log(header: str, follower: Follower) -> None:
    print(header, flush=True)
    titles: dict[str, str] = {}
    async for update in follower.updates():
        if not isinstance(update, Delta):
            for line in entry_lines(update, titles):
                print(line.text, flush=True)
    print("the session was deleted", file=sys.stderr)
