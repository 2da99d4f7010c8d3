"""`farsteer attach`: a session in this terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from farsteer.cli import context
from farsteer.cli.main import DONE
from farsteer.cli.text import clean, one_line
from farsteer.cli.view import lines_of
from farsteer.core.api import SessionView
from farsteer.core.events import Delta

ABOUT = """\
Follow a session in this terminal: the end of its history, then everything as it
happens. Type to send a message; Alt-Enter or pasting makes a line break. What
the agent asks is answered here: y, n and why, a for always, the number of a
choice. Ctrl-C interrupts the turn, twice detaches, as does Ctrl-D; the session
goes on. Without a terminal it is a plain log.
"""

EXAMPLES = """\
  farsteer attach              # the session used last
  farsteer attach 3f2a
  farsteer attach 3f2a --tail 500 > log.txt
"""


def main(argv: Sequence[str]) -> int:
    parser = context.command("attach", ABOUT, EXAMPLES)
    context.add_hub(parser)
    parser.add_argument("id", nargs="?", metavar="ID", help="a session's id or the beginning of one")
    parser.add_argument(
        "--tail",
        type=int,
        default=100,
        metavar="N",
        help="how many entries of history to show (default: 100)",
    )
    return context.run(_run(parser.parse_args(argv)))


async def _run(arguments: argparse.Namespace) -> int:
    from farsteer.cli.follower import Follower

    async with context.client(arguments) as client:
        session = await context.find_session(client, arguments.id)
        follower = Follower(client, session.id, arguments.tail)
        if sys.stdin.isatty() and sys.stdout.isatty():
            from farsteer.cli.conversation import Conversation

            return await Conversation(client, session, follower).run()
        print(header(session), flush=True)
        tools: dict[str, str] = {}
        async for update in follower.updates():
            if not isinstance(update, Delta):
                for line in lines_of(update, tools):
                    print(line.text, flush=True)
        print("the session was deleted", file=sys.stderr)
    return DONE


def header(session: SessionView) -> str:
    title = f" {one_line(session.title, 60)!r}" if session.title else ""
    place = f"{clean(session.agent)} in {clean(session.directory)}"
    return f"session {session.id[:8]}{title}: {place}, {session.status.value}"
