"""`farsteer exec`: sends one prompt and prints the answer."""

from __future__ import annotations

import argparse
import asyncio
import os
import stat
import sys
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TextIO

from farsteer.cli import context
from farsteer.cli.exit_codes import INTERRUPTED
from farsteer.core.droid import AUTONOMY_LEVELS
from farsteer.core.errors import BadRequest
from farsteer.core.modes import PermissionMode, ReasoningEffort

DROID_FORMAT = "stream-jsonrpc"
PATIENCE_SECONDS = 3.0
"""How long stdin may take before a person is told what is waited for."""

DESCRIPTION = """\
Send one prompt to an agent and print its answer. If a hub runs on the home
directory, or --hub names one, the session is created there and other clients can
follow it. Otherwise a hub and a runner run inside this process until the answer
is complete.

What is piped into stdin is appended to the prompt, up to its end; with - it is the
whole prompt. The answer goes to stdout, everything else to stderr. -o json prints
one JSON object with the result, -o stream-json a line for each step and the result,
both as Droid's own command does. When nobody reads stdout any more, the turn ends.

Approvals are asked on the terminal; without a terminal they are denied, and the
exit code is 4. Ctrl-C interrupts the turn, a second one exits at once.
"""

EXAMPLES = """\
  farsteer exec "what does this project do?"
  farsteer exec --agent demo --cwd ~/project --yolo "run make test"
  git diff | farsteer exec "review this change"
  git diff | farsteer exec -o json - | jq -r .result
  farsteer exec --auto low -m demo-1-mini "write a.txt hello"
  farsteer exec -s 3f2a "and now the tests"             # continue a session

exit codes: 0 the agent finished, 1 it failed or could not start, 2 wrong usage,
3 no hub or machine reachable, 4 an approval was denied because nobody could
answer it, 130 interrupted
"""


def exec_command(argv: Sequence[str]) -> int:
    if _uses_droid_format(argv):
        from farsteer.cli.commands.droid_exec import droid_exec_command

        return droid_exec_command(argv)
    arguments = _parser().parse_args(argv)
    arguments.prompt = _read_prompt(arguments.prompt, arguments.file)
    context.log(arguments, "error")
    return context.run(_execute(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = context.command_parser("exec", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument("prompt", nargs="?", help="the message; - or no prompt reads it from stdin")
    parser.add_argument("-f", "--file", metavar="FILE", help="read the prompt from this file")
    parser.add_argument("--agent", metavar="A", help="agent to use (default: the one the machine prefers)")
    parser.add_argument("--cwd", metavar="DIR", help="working directory of the agent (default: this one)")
    context.add_machine_option(parser)
    parser.add_argument(
        "-s", "--session-id", "--session", dest="session", metavar="ID",
        help="continue this session instead of creating one: its id or the first characters",
    )  # fmt: skip
    parser.add_argument("-m", "--model", metavar="M", help="model the agent uses")
    parser.add_argument(
        "-r", "--reasoning-effort", "--effort",
        dest="effort",
        choices=[*map(str, ReasoningEffort)],
        metavar="E",
        help=f"reasoning effort: {', '.join(ReasoningEffort)}",
    )  # fmt: skip
    permissions = parser.add_mutually_exclusive_group()
    permissions.add_argument(
        "--auto",
        choices=AUTONOMY_LEVELS,
        metavar="LEVEL",
        help="what the agent may do without asking, as Droid names it: low (edit files), medium (and run commands "
        "that can be undone), high (everything), off",
    )
    permissions.add_argument(
        "--permission-mode",
        choices=[*map(str, PermissionMode)],
        metavar="MODE",
        help=f"the same by our own names: {', '.join(PermissionMode)}",
    )
    permissions.add_argument(
        "--yolo",
        "--skip-permissions-unsafe",
        action="store_true",
        help="let the agent do everything without asking",
    )
    parser.add_argument(
        "--approvals",
        choices=["ask", "deny", "wait"],
        help="ask on this terminal, deny, or wait until another client answers "
        "(default: ask on a terminal, otherwise deny)",
    )
    parser.add_argument(
        "-o",
        "--output-format",
        choices=["text", "json", "stream-json"],
        default="text",
        help=f"format of stdout (default: %(default)s); {DROID_FORMAT}, together with "
        f"--input-format {DROID_FORMAT}, speaks Droid's protocol instead",
    )
    parser.add_argument("--quiet", action="store_true", help="print no progress to stderr")
    context.add_log_option(parser)
    return parser


def _uses_droid_format(argv: Sequence[str]) -> bool:
    pairs = {*pairwise(argv), *(tuple(word.split("=", 1)) for word in argv)}
    named = {(name, DROID_FORMAT) for name in ("-o", "--input-format", "--output-format")}
    return bool(pairs & named) or f"-o{DROID_FORMAT}" in argv


def _read_prompt(given: str | None, file: str | None) -> str:
    if given is not None and file is not None:
        raise BadRequest("a prompt and --file were given: pass one of them")
    if file is not None:
        given = Path(file).expanduser().read_text(errors="replace")
    if given is None and sys.stdin.isatty():
        raise BadRequest('a prompt is missing: `farsteer exec "..."`')
    if given in (None, "-"):
        text = _read_stdin()
    else:
        piped = _read_stdin() if _is_piped(sys.stdin) else ""
        text = f"{given}\n\n{piped}" if piped.strip() else given
    if not text.strip():
        raise BadRequest("the prompt is empty")
    return text


def _is_piped(stream: TextIO) -> bool:
    """Return whether somebody redirected a pipe or a file here. Not so: a terminal, /dev/null, a closed stream."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode)


def _read_stdin() -> str:
    """Read to the end, and say so if it takes long: a program may have left a pipe open that it never writes to."""
    note = "farsteer: reading stdin to its end and appending it to the prompt; `< /dev/null` says there is nothing"
    timer = threading.Timer(PATIENCE_SECONDS, print, (note,), {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        return sys.stdin.buffer.read().decode(errors="replace")
    finally:
        timer.cancel()


async def _execute(arguments: argparse.Namespace) -> int:
    from farsteer.cli.terminal.execution import Execution, InterruptHandler

    external = context.has_external_hub(arguments)
    try:
        async with InterruptHandler() as interrupts, context.open_hub(arguments, external=external) as hub:
            return await Execution(hub, arguments, interrupts, external_hub=external).run()
    except asyncio.CancelledError:
        return INTERRUPTED
