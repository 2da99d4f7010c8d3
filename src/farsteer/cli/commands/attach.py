"""`farsteer attach`, and `farsteer` alone: a conversation with a session in this terminal."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.follower import Follower
from farsteer.cli.terminal.log_view import entry_lines, session_header
from farsteer.core.events import Delta

if TYPE_CHECKING:
    from farsteer.client import AsyncClient
    from farsteer.core.api import SessionView

DESCRIPTION = """\
Talk with a session in this terminal. Without an id you choose one from a list,
or make a new one. F1 shows the keys. Ctrl-C interrupts the turn; Ctrl-D, or a
second Ctrl-C, leaves. Leaving never ends the session.

--plain prints line by line, moves no cursor and redraws nothing: for screen
readers and simple terminals. It is also used if $TERM is dumb. Type :help there
for its commands. If stdin or stdout is not a terminal, the log is only printed,
without an id that of the session used last.

Colours follow $NO_COLOR.
"""

EXAMPLES = """\
  farsteer attach              # choose a session, or make one
  farsteer attach 3f2a
  farsteer attach 3f2a --plain
  farsteer attach 3f2a --tail 500 > log.txt
"""


def attach_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("attach", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="id of a session, or its first characters (default: choose one)"
    )
    parser.add_argument(
        "--tail",
        type=int,
        default=100,
        metavar="N",
        help="number of log entries to show first (default: %(default)s)",
    )
    parser.add_argument("--plain", action="store_true", help="print line by line, and redraw nothing")
    return context.run(_attach(parser.parse_args(argv)))


async def _attach(arguments: argparse.Namespace) -> int:
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    async with context.hub_client(arguments) as client:
        session = None
        if arguments.id is not None or not is_terminal:
            session = await context.find_session(client, arguments.id)
        if is_terminal:
            if arguments.plain or os.environ.get("TERM", "dumb") in ("dumb", ""):
                from farsteer.cli.terminal.plain_chat import talk_plainly

                return await talk_plainly(client, session, arguments.tail)
            from farsteer.cli.fullscreen.app import FarsteerApp

            return await FarsteerApp(client, session, tail=max(1, arguments.tail)).run_until_left()
        assert session is not None
        await _print_log(client, session, arguments.tail)
    return SUCCESS


async def _print_log(client: AsyncClient, session: SessionView, tail: int) -> None:
    print(session_header(session), flush=True)
    titles: dict[str, str] = {}
    async for update in Follower(client, session.id, tail).updates():
        if not isinstance(update, Delta):
            for line in entry_lines(update, titles):
                print(line.text, flush=True)
    print("the session was deleted", file=sys.stderr)
