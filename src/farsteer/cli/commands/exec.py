"""`farsteer exec`: sends one prompt and prints the answer."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from itertools import pairwise

from farsteer.cli import context
from farsteer.cli.exit_codes import INTERRUPTED
from farsteer.core.errors import BadRequest
from farsteer.core.modes import PermissionMode, ReasoningEffort

DROID_FORMAT = "stream-jsonrpc"

DESCRIPTION = """\
Send one prompt to an agent and print its answer. If a hub runs on the home
directory, or --hub names one, the session is created there and other clients can
follow it. Otherwise a hub and a runner run inside this process until the answer
is complete.

The answer goes to stdout, everything else to stderr. With --output-format json,
stdout has one JSON object per line: each entry of the session's log, then the
result. Approvals are asked on the terminal; without a terminal they are denied,
and the exit code is 4. Ctrl-C interrupts the turn, a second one exits at once.
"""

EXAMPLES = """\
  farsteer exec "what does this project do?"
  farsteer exec --agent demo --cwd ~/project --yolo "run make test"
  git diff | farsteer exec --output-format json - | jq -r 'select(.type=="result").text'
  farsteer exec --session 3f2a "and now the tests"      # continue a session

exit codes: 0 the agent finished, 1 it failed or could not start, 2 wrong usage,
3 no hub or machine reachable, 4 an approval was denied because nobody could
answer it, 130 interrupted
"""


def exec_command(argv: Sequence[str]) -> int:
    if _uses_droid_format(argv):
        from farsteer.cli.commands.droid_exec import droid_exec_command

        return droid_exec_command(argv)
    arguments = _parser().parse_args(argv)
    arguments.prompt = _read_prompt(arguments.prompt)
    return context.run(_execute(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = context.command_parser("exec", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument("prompt", nargs="?", help="the message; - or no prompt reads it from stdin")
    parser.add_argument("--agent", metavar="A", help="agent to use (default: the one the machine prefers)")
    parser.add_argument("--cwd", metavar="DIR", help="working directory of the agent (default: this one)")
    context.add_machine_option(parser)
    parser.add_argument("--session", metavar="ID", help="continue this session instead of creating one")
    parser.add_argument("--model", metavar="M", help="model the agent uses")
    parser.add_argument(
        "--effort",
        choices=[*ReasoningEffort],
        metavar="E",
        help=f"reasoning effort: {', '.join(ReasoningEffort)}",
    )
    permissions = parser.add_mutually_exclusive_group()
    permissions.add_argument(
        "--permission-mode",
        choices=[*PermissionMode],
        metavar="MODE",
        help=f"what the agent may do without asking: {', '.join(PermissionMode)}",
    )
    permissions.add_argument("--yolo", action="store_true", help="let the agent do everything without asking")
    parser.add_argument(
        "--approvals",
        choices=["ask", "deny", "wait"],
        help="ask on this terminal, deny, or wait until another client answers "
        "(default: ask on a terminal, otherwise deny)",
    )
    parser.add_argument(
        "--output-format",
        choices=["text", "json"],
        default="text",
        help=f"format of stdout (default: %(default)s); {DROID_FORMAT}, together with "
        f"--input-format {DROID_FORMAT}, speaks Droid's protocol instead",
    )
    parser.add_argument("--quiet", action="store_true", help="print no progress to stderr")
    return parser


def _uses_droid_format(argv: Sequence[str]) -> bool:
    pairs = {*pairwise(argv), *(tuple(word.split("=", 1)) for word in argv)}
    return bool(pairs & {(name, DROID_FORMAT) for name in ("--input-format", "--output-format")})


def _read_prompt(given: str | None) -> str:
    if given is None and sys.stdin.isatty():
        raise BadRequest('a prompt is missing: `farsteer exec "..."`')
    text = sys.stdin.buffer.read().decode(errors="replace") if given in (None, "-") else given
    if not text or not text.strip():
        raise BadRequest("the prompt is empty")
    return text


async def _execute(arguments: argparse.Namespace) -> int:
    from farsteer.cli.terminal.execution import Execution, InterruptHandler

    external = context.has_external_hub(arguments)
    try:
        async with InterruptHandler() as interrupts, context.open_hub(arguments, external=external) as hub:
            return await Execution(hub, arguments, interrupts, external_hub=external).run()
    except asyncio.CancelledError:
        return INTERRUPTED
