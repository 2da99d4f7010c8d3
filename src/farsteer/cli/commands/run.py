"""`farsteer run`: the agent's own interface in this terminal, as a session."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.client.config import absolute_path
from farsteer.core.errors import BadRequest
from farsteer.core.modes import PermissionMode

if TYPE_CHECKING:
    from farsteer.client import AsyncClient
    from farsteer.core.api import SessionView

DESCRIPTION = """\
Start the agent's own interface in this terminal, as a session of Farsteer. What
is said there is in the session's log, and whoever has access can follow it from
anywhere and answer its approvals.

A message from elsewhere reaches Codex while its interface is open. Claude Code
takes messages only in its terminal: when one is sent from elsewhere, its
interface ends, the same conversation goes on without it, and this terminal shows
what happens. Enter takes it back. What you had typed and not sent is lost then.

ARGS are passed to the agent. Options of Farsteer come before AGENT. A runner must
run on this machine: `farsteer up`, or `farsteer runner`.
"""

EXAMPLES = """\
  farsteer run claude
  farsteer run codex
  farsteer run --mode acceptEdits claude --model opus
  farsteer run --session 3f2a claude      # go on with a session in this terminal
"""


def run_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("run", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument("--session", metavar="ID", help="go on with this session, or one whose id begins so")
    parser.add_argument("--dir", metavar="DIR", help="directory to work in (default: this one)")
    parser.add_argument(
        "--mode",
        choices=[mode.value for mode in PermissionMode],
        help="permission mode of a new session (default: default)",
    )
    parser.add_argument("--title", metavar="TEXT", help="title of a new session")
    parser.add_argument("agent", metavar="AGENT", help="claude, codex, or a model provider such as glm")
    parser.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS", help="arguments for the agent")
    return context.run(_run(parser.parse_args(argv)))


async def _run(arguments: argparse.Namespace) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadRequest("this needs a terminal; `farsteer exec` works without one")
    from farsteer.cli.terminal.agent_terminal import AgentTerminal

    home = context.home_directory(arguments)
    async with context.hub_client(arguments) as client:
        terminal = AgentTerminal(home, client, tuple(arguments.args))
        await terminal.wait_for_runner()
        session = await _session(client, home, arguments)
        return await terminal.run(session.id)


async def _session(client: AsyncClient, home: Path, arguments: argparse.Namespace) -> SessionView:
    from farsteer.core.api import CreateSession
    from farsteer.runner.machine import machine_id

    if arguments.session:
        session = await context.find_session(client, arguments.session)
        if session.agent != arguments.agent:
            raise BadRequest(f"this is a session of {session.agent}, not of {arguments.agent}")
        return session
    request = CreateSession(
        machine_id=machine_id(home), directory=absolute_path(arguments.dir or "."), agent=arguments.agent,
        permission_mode=PermissionMode(arguments.mode) if arguments.mode else None, title=arguments.title,
        source="terminal", terminal=True,
    )  # fmt: skip
    return await client.session((await client.create_session(request)).session_id)
