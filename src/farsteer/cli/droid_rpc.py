"""`farsteer exec --input-format stream-jsonrpc`: answers as Droid does, for any agent."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.exec import DROID_FORMAT, is_remote, steering
from farsteer.cli.logs import log_to_stderr
from farsteer.cli.main import DONE
from farsteer.core.droid import AUTONOMY_LEVELS, permission_mode
from farsteer.core.errors import BadRequest
from farsteer.faces.droid.params import SettingsParams
from farsteer.faces.droid.protocol import DEFAULT_DIALECT, DIALECTS
from farsteer.faces.droid.sessions import ServerOptions

if TYPE_CHECKING:
    from farsteer.client.hub_client import HubClient

ABOUT = f"""\
Speak Droid's {DROID_FORMAT} on stdin and stdout: a program written for
`droid exec --input-format {DROID_FORMAT}` steers any agent by calling farsteer
instead. If a hub runs on this home, or --hub names one, the sessions are made
there; otherwise hub and runner are part of this process.

stdout carries protocol lines and nothing else. What the requests say wins over
these options. Options of Droid's that mean nothing here are ignored.
"""

EXAMPLES = f"""\
  farsteer exec --input-format {DROID_FORMAT} --output-format {DROID_FORMAT} --cwd . --agent demo
"""


def main(argv: Sequence[str]) -> int:
    arguments, ignored = _parser().parse_known_args(argv)
    log_to_stderr(logging.WARNING)
    if ignored:
        logging.getLogger(__name__).warning("ignored: %s", " ".join(ignored))
    if not arguments.input_format == arguments.output_format == DROID_FORMAT:
        raise BadRequest(f"--input-format and --output-format must both be {DROID_FORMAT}")
    return context.run(_run(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = context.command("exec", ABOUT, EXAMPLES)
    context.add_hub(parser)
    for name in ("--input-format", "--output-format"):
        parser.add_argument(name, metavar=DROID_FORMAT)
    parser.add_argument("--cwd", metavar="DIR", default=".", help="where agents work (default: here)")
    parser.add_argument(
        "--agent", metavar="A", help="which agent (default: demo, or what the hub's machine prefers)"
    )
    parser.add_argument("--machine", metavar="M", help="id, name or host of the machine (default: this one)")
    parser.add_argument("-s", "--session-id", metavar="ID", help="be in this session from the start")
    parser.add_argument("-m", "--model", metavar="M", help="the model of sessions that name none")
    parser.add_argument("-r", "--reasoning-effort", metavar="E", help="the effort of sessions that name none")
    parser.add_argument("--auto", choices=AUTONOMY_LEVELS, help="the autonomy of sessions that name none")
    parser.add_argument(
        "--droid-version",
        choices=[*DIALECTS],
        default=DEFAULT_DIALECT.version,
        help="whose words for errors and autonomy to use (default: %(default)s)",
    )
    return parser


def _options(arguments: argparse.Namespace) -> ServerOptions:
    agent = arguments.agent or (None if is_remote(arguments) else "demo")
    return ServerOptions(
        directory=arguments.cwd,
        agent=agent,
        machine=arguments.machine,
        model=arguments.model,
        mode=permission_mode(autonomy_level=arguments.auto),
        effort=SettingsParams(reasoning_effort=arguments.reasoning_effort).requested_effort(),
        session_id=arguments.session_id,
        dialect=DIALECTS[arguments.droid_version],
    )


async def _run(arguments: argparse.Namespace) -> int:
    from farsteer.faces.droid.server import Server
    from farsteer.jsonrpc.stdio import StdinReader, StdoutWriter, claim_stdio

    source, target = claim_stdio()

    @asynccontextmanager
    async def hub() -> AsyncGenerator[HubClient]:
        async with steering(arguments) as (found, _):
            yield found

    server = Server(_options(arguments), StdinReader(source), StdoutWriter(target), hub)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, server.shut_down)
    await server.run()
    return DONE
