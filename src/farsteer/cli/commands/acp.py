"""`farsteer acp`: an ACP agent for editors, in front of every agent on every machine of a hub."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import shlex
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS

if TYPE_CHECKING:
    from farsteer.client.hub_client import HubClient

DESCRIPTION = """\
Serve an editor that speaks the Agent Client Protocol (Zed, JetBrains, Neovim,
Toad). The editor can use every agent on every machine of the hub, and open every
session, also those that were started elsewhere. If a hub runs on the home
directory, or --hub names one, the editor's sessions are created there and every
other client sees them. Otherwise a hub and a runner run inside this process.

stdout carries only protocol messages; logs go to stderr.
"""

EXAMPLES = """\
  farsteer acp --print-config zed
  farsteer acp --print-config jetbrains --agent droid > ~/.jetbrains/acp.json
  farsteer acp --agent droid
  farsteer acp --hub https://hub.example --session 3f2a0000-0000-4000-8000-000000000000
"""

CONFIG_PLACES = {
    "zed": "Zed's settings.json",
    "jetbrains": "~/.jetbrains/acp.json",
    "nvim": "your init.lua, for codecompanion.nvim",
    "toad": "a terminal",
}
"""Where the configuration of each editor belongs."""

_HOME_LOCK_SECONDS = 5.0
_HOME_LOCK_RETRY_SECONDS = 0.1
_FLUSH_SECONDS = 5.0

_logger = logging.getLogger(__name__)


def acp_command(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    if arguments.print_config:
        print(f"for {CONFIG_PLACES[arguments.print_config]}:", file=sys.stderr)
        print(editor_config(arguments.print_config, _config_options(arguments)))
        return SUCCESS
    if arguments.action == "login":
        from farsteer.cli.commands.login import login_command

        given = (("--hub", arguments.hub), ("--home", arguments.home))
        return login_command([part for name, value in given if value for part in (name, value)])
    context.log(arguments, "warning")
    return context.run(_serve(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = context.command_parser("acp", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument(
        "action",
        nargs="?",
        choices=["login"],
        help="log in to a hub, as `farsteer login` does; editors call this",
    )
    parser.add_argument(
        "--agent", metavar="A", help="agent of new sessions (default: the one the machine prefers)"
    )
    context.add_machine_option(parser)
    context.add_log_option(parser)
    parser.add_argument("--session", metavar="ID", help="open this session instead of creating one")
    parser.add_argument(
        "--lenient",
        action="store_true",
        help="drop MCP servers and additional directories that the agent does not support, instead of "
        "refusing the session",
    )
    parser.add_argument(
        "--print-config",
        metavar="EDITOR",
        choices=[*CONFIG_PLACES],
        help=f"print the configuration for an editor and exit: {', '.join(CONFIG_PLACES)}",
    )
    return parser


async def _serve(arguments: argparse.Namespace) -> int:
    from farsteer.faces.acp.server import AcpOptions, serve
    from farsteer.jsonrpc.stdio import StdinReader, StdioTransport, StdoutWriter, claim_stdio

    source, target = claim_stdio()

    def forget_login() -> None:
        from farsteer.client.config import login_file

        login_file(context.home_directory(arguments)).unlink(missing_ok=True)

    @asynccontextmanager
    async def open_hub() -> AsyncGenerator[HubClient]:
        async with AsyncExitStack() as stack:
            client = await _wait_for_hub(arguments, stack)
            # Everything loaded so far lives as long as the process; the garbage collector need not scan it.
            gc.freeze()
            yield client

    writer = StdoutWriter(target)
    transport = StdioTransport(StdinReader(source), writer)
    options = AcpOptions(
        agent=arguments.agent, machine=arguments.machine, session_id=arguments.session, lenient=arguments.lenient,
        forget_login=forget_login,
    )  # fmt: skip
    serving = asyncio.create_task(serve(transport, options, open_hub))
    write_error = asyncio.create_task(writer.broken.wait())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    try:
        # An editor that closed its end of stdout is gone, even if it still holds stdin open.
        await asyncio.wait([serving, write_error], return_when=asyncio.FIRST_COMPLETED)
        if write_error.done():
            serving.cancel()
        await serving
    except asyncio.CancelledError:
        _logger.info("stopped before the editor closed the connection")
    finally:
        write_error.cancel()
    await writer.flush(_FLUSH_SECONDS)
    writer.close()
    return SUCCESS


async def _wait_for_hub(arguments: argparse.Namespace, stack: AsyncExitStack) -> HubClient:
    """Open the hub. If another process holds the home directory, retry for a few seconds.

    An editor that restarts us does not wait until the previous process has ended.
    """
    from farsteer.core.errors import Conflict

    loop = asyncio.get_running_loop()
    deadline = loop.time() + _HOME_LOCK_SECONDS
    while True:
        try:
            return await stack.enter_async_context(context.open_hub(arguments))
        except Conflict:
            if loop.time() > deadline:
                raise
            await asyncio.sleep(_HOME_LOCK_RETRY_SECONDS)


def _config_options(arguments: argparse.Namespace) -> list[str]:
    """Return the options of this call as the editor has to pass them."""
    given = [(f"--{name}", getattr(arguments, name)) for name in ("hub", "home", "agent", "machine")]
    options = [part for name, value in given if value for part in (name, value)]
    return [*options, "--lenient"] if arguments.lenient else options


def editor_config(editor: str, options: Sequence[str]) -> str:
    """Return the configuration that makes `editor` start `farsteer acp` with `options`."""
    program, *rest = _program()
    arguments = [*rest, "acp", *options]
    server: dict[str, Any] = {"command": program, "args": arguments, "env": {}}
    match editor:
        case "zed":
            return json.dumps({"agent_servers": {"Farsteer": {"type": "custom", **server}}}, indent=2)
        case "jetbrains":
            return json.dumps({"agent_servers": {"Farsteer": server}}, indent=2)
        case "nvim":
            return _NVIM.format(command=", ".join(json.dumps(part) for part in (program, *arguments)))
        case _:
            return f"toad acp {shlex.quote(shlex.join((program, *arguments)))} ."


def _program() -> tuple[str, ...]:
    """Return an absolute command, because an editor started from a desktop has another PATH than a terminal."""
    for name in (sys.argv[0], "farsteer"):
        found = shutil.which(name) if Path(name).name == "farsteer" else None
        if found is not None:
            return (str(Path(found).absolute()),)
    return (sys.executable, "-m", "farsteer")


_NVIM = """\
require("codecompanion").setup({{
  adapters = {{
    acp = {{
      farsteer = function()
        return require("codecompanion.adapters").extend("gemini_cli", {{
          name = "farsteer",
          formatted_name = "Farsteer",
          commands = {{ default = {{ {command} }} }},
          defaults = {{ auth_method = "farsteer-login" }},
        }})
      end,
    }},
  }},
  interactions = {{ chat = {{ adapter = "farsteer" }} }},
}})"""
