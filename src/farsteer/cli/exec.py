"""`farsteer exec`: one prompt, one answer."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.main import INTERRUPTED
from farsteer.core.errors import BadRequest
from farsteer.core.modes import PermissionMode, ReasoningEffort

DROID_FORMAT = "stream-jsonrpc"

if TYPE_CHECKING:
    from farsteer.client.hub_client import HubClient

ABOUT = """\
Send one prompt to an agent and print its answer. If a hub runs on this home, or
--hub names one, the session is made there and can be watched; otherwise hub and
runner are started inside this process for as long as it takes.

The answer goes to stdout, everything else to stderr. With --output-format json
every entry of the log is one line of JSON, and the last line is the result.
What the agent wants approved is asked on the terminal; where there is none it is
denied and said so. Ctrl-C interrupts the turn, a second one leaves at once.
"""

EXAMPLES = """\
  farsteer exec "what does this project do?"
  farsteer exec --agent demo --cwd ~/project --yolo "run make test"
  git diff | farsteer exec --output-format json - | jq -r 'select(.type=="result").text'
  farsteer exec --session 3f2a "and now the tests"      # go on in a session

exit codes: 0 the agent finished, 1 it failed or could not start, 2 wrong usage,
3 no hub or machine reachable, 4 something was denied because nobody was there
to approve it, 130 interrupted
"""


def main(argv: Sequence[str]) -> int:
    if _speaks_droid(argv):
        from farsteer.cli import droid_rpc

        return droid_rpc.main(argv)
    parser = context.command("exec", ABOUT, EXAMPLES)
    context.add_hub(parser)
    _add_arguments(parser)
    arguments = parser.parse_args(argv)
    arguments.prompt = _prompt(arguments.prompt)
    return context.run(_run(arguments))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="?", help="what to say; - or nothing: read it from stdin")
    parser.add_argument("--agent", metavar="A", help="which agent (default: the machine's preferred one)")
    parser.add_argument("--cwd", metavar="DIR", help="where the agent works (default: here)")
    parser.add_argument("--machine", metavar="M", help="id, name or host of the machine (default: this one)")
    parser.add_argument("--session", metavar="ID", help="go on in this session instead of a new one")
    parser.add_argument("--model", metavar="M", help="the model the agent shall use")
    parser.add_argument(
        "--effort",
        choices=[*ReasoningEffort],
        metavar="E",
        help=f"how hard it shall think: {', '.join(ReasoningEffort)}",
    )
    allowed = parser.add_mutually_exclusive_group()
    allowed.add_argument(
        "--permission-mode",
        choices=[*PermissionMode],
        metavar="MODE",
        help=f"what it may do without asking: {', '.join(PermissionMode)}",
    )
    allowed.add_argument("--yolo", action="store_true", help="let it do everything without asking")
    parser.add_argument(
        "--approvals",
        choices=["ask", "deny", "wait"],
        help="ask here, deny, or wait for an answer from elsewhere (default: ask on a terminal, else deny)",
    )
    parser.add_argument(
        "--output-format",
        choices=["text", "json"],
        default="text",
        help=f"or {DROID_FORMAT}, with --input-format {DROID_FORMAT}: be spoken to as Droid is",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def _speaks_droid(argv: Sequence[str]) -> bool:
    pairs = {*pairwise(argv), *(tuple(word.split("=", 1)) for word in argv)}
    return bool(pairs & {(name, DROID_FORMAT) for name in ("--input-format", "--output-format")})


def _prompt(given: str | None) -> str:
    if given is None and sys.stdin.isatty():
        raise BadRequest('a prompt is needed: `farsteer exec "..."`')
    text = sys.stdin.buffer.read().decode(errors="replace") if given in (None, "-") else given
    if not text or not text.strip():
        raise BadRequest("the prompt is empty")
    return text


async def _run(arguments: argparse.Namespace) -> int:
    from farsteer.cli.execution import Execution
    from farsteer.cli.interrupts import Interrupts

    try:
        async with Interrupts() as interrupts, steering(arguments) as (hub, remote):
            return await Execution(hub, arguments, interrupts, remote=remote).run()
    except asyncio.CancelledError:
        return INTERRUPTED


def is_remote(arguments: argparse.Namespace) -> bool:
    """There is a hub for this call, so that none is to be part of this process."""
    from farsteer.client.access import known_login, running_hub

    home = context.home(arguments)
    return bool(arguments.hub or os.environ.get("FARSTEER_HUB") or running_hub(home) or known_login(home))


@asynccontextmanager
async def steering(arguments: argparse.Namespace) -> AsyncGenerator[tuple[HubClient, bool]]:
    """A hub to steer, and whether it goes on without us."""
    home = context.home(arguments)
    if is_remote(arguments):
        async with context.client(arguments) as client:
            yield client, True
    else:
        import logging

        from farsteer.cli.embedded import embedded
        from farsteer.cli.logs import log_to_stderr

        log_to_stderr(logging.ERROR)
        async with embedded(home) as hub:
            yield hub, False
