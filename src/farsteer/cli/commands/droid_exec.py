"""`farsteer exec --input-format stream-jsonrpc`: answers like `droid exec`, with any agent behind it."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import Sequence

from farsteer.cli import context
from farsteer.cli.commands.exec import DROID_FORMAT
from farsteer.cli.exit_codes import SUCCESS
from farsteer.core.droid import AUTONOMY_LEVELS, permission_mode
from farsteer.core.errors import BadRequest
from farsteer.faces.droid.params import SettingsParams
from farsteer.faces.droid.protocol import DEFAULT_DIALECT, DIALECTS
from farsteer.faces.droid.sessions import ServerOptions

DESCRIPTION = f"""\
Speak Droid's {DROID_FORMAT} protocol on stdin and stdout. A program written for
`droid exec --input-format {DROID_FORMAT}` can call farsteer instead and steer any
agent. If a hub runs on the home directory, or --hub names one, sessions are
created there; otherwise a hub and a runner run inside this process.

stdout carries only protocol messages; logs go to stderr. Requests override these
options. Other options of `droid exec` are accepted and ignored, unknown ones refused.
"""

EXAMPLES = f"""\
  farsteer exec --input-format {DROID_FORMAT} --output-format {DROID_FORMAT} --cwd . --agent demo
"""

_logger = logging.getLogger(__name__)


_IGNORED_FLAGS = (
    "--skip-permissions-unsafe", "--disable-builtin-skills", "--use-spec", "--mission", "--list-tools",
)  # fmt: skip
_IGNORED_OPTIONS = (
    ("-f", "--file"), ("--fork",), ("--spec-model",), ("--spec-reasoning-effort",), ("--only-tools",), ("--add-tools",),
    ("--remove-tools",), ("--enabled-tools",), ("--disabled-tools",), ("--worktree-dir",), ("--tag",),
    ("--log-group-id",), ("--worker-model",), ("--worker-reasoning-effort",), ("--validator-model",),
    ("--validator-reasoning-effort",), ("--append-system-prompt",), ("--append-system-prompt-file",),
)  # fmt: skip
"""What `droid exec` takes, in any version. With this protocol Droid itself ignores nearly all of its options."""


def droid_exec_command(argv: Sequence[str]) -> int:
    parser = _parser()
    given = _ignored_parser().parse_known_args(argv)
    arguments = parser.parse_args(given[1])
    context.log(arguments, "warning")
    ignored = [name for name, value in vars(given[0]).items() if value not in (None, False)]
    if ignored:
        _logger.warning("ignored options: %s", " ".join(ignored))
    if not arguments.input_format == arguments.output_format == DROID_FORMAT:
        raise BadRequest(f"--input-format and --output-format must both be {DROID_FORMAT}")
    return context.run(_serve(arguments))


def _ignored_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in _IGNORED_FLAGS:
        parser.add_argument(name, dest=name, action="store_true")
    for names in _IGNORED_OPTIONS:
        parser.add_argument(*names, dest=names[-1])
    parser.add_argument("-w", "--worktree", dest="--worktree", nargs="?", const="")
    return parser


def _parser() -> argparse.ArgumentParser:
    parser = context.command_parser("exec", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    for names in (["--input-format"], ["-o", "--output-format"]):
        parser.add_argument(*names, metavar=DROID_FORMAT, help=f"must be {DROID_FORMAT}")
    parser.add_argument(
        "--cwd", metavar="DIR", default=".", help="working directory of agents (default: this one)"
    )
    parser.add_argument(
        "--agent",
        metavar="A",
        help="agent to use (default: demo without a hub, else the one the machine prefers)",
    )
    context.add_machine_option(parser)
    context.add_log_option(parser)
    parser.add_argument("-s", "--session-id", metavar="ID", help="open this session at the start")
    parser.add_argument("-m", "--model", metavar="M", help="model of sessions that do not set one")
    parser.add_argument(
        "-r", "--reasoning-effort", metavar="E", help="reasoning effort of sessions that do not set one"
    )
    parser.add_argument(
        "--auto", choices=AUTONOMY_LEVELS, help="autonomy level of sessions that do not set one"
    )
    parser.add_argument(
        "--droid-version",
        choices=[*DIALECTS],
        default=DEFAULT_DIALECT.version,
        help="version of Droid whose error messages and autonomy levels to use (default: %(default)s)",
    )
    return parser


def _options(arguments: argparse.Namespace) -> ServerOptions:
    agent = arguments.agent or (None if context.has_external_hub(arguments) else "demo")
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


async def _serve(arguments: argparse.Namespace) -> int:
    from farsteer.faces.droid.server import Server
    from farsteer.jsonrpc.stdio import StdinReader, StdoutWriter, claim_stdio

    source, target = claim_stdio()
    server = Server(
        _options(arguments), StdinReader(source), StdoutWriter(target), lambda: context.open_hub(arguments)
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, server.shut_down)
    await server.run()
    return SUCCESS
