"""`farsteer acp`: an ACP agent for editors, in front of every agent on every machine."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.logs import log_to_stderr
from farsteer.cli.main import DONE

if TYPE_CHECKING:
    from farsteer.client.hub_client import HubClient

ABOUT = """\
An agent for editors that speak the Agent Client Protocol (Zed, JetBrains, Neovim,
Toad): every agent on every machine of a hub, and every session, also those that
were begun elsewhere. If a hub runs on this home, or --hub names one, the editor
joins it, and what it begins is seen on the web and on the phone too. Otherwise hub
and runner are part of this process.

stdout carries protocol lines and nothing else.
"""

_HOME_SECONDS = 5.0
_AGAIN_SECONDS = 0.1
_FLUSH_SECONDS = 5.0

EDITORS = ("zed", "jetbrains", "nvim", "toad")

EXAMPLES = """\
  farsteer acp --print-config zed
  farsteer acp --print-config jetbrains --agent droid > ~/.jetbrains/acp.json
  farsteer acp --agent droid
  farsteer acp --hub https://hub.example --session 3f2a0000-0000-4000-8000-000000000000
"""


def main(argv: Sequence[str]) -> int:
    parser = context.command("acp", ABOUT, EXAMPLES)
    context.add_hub(parser)
    parser.add_argument(
        "action", nargs="?", choices=["login"], help="log in to a hub, as an editor asks for it"
    )
    parser.add_argument(
        "--agent", metavar="A", help="which agent new sessions get (default: what is preferred)"
    )
    parser.add_argument("--machine", metavar="M", help="id, name or host of the machine (default: this one)")
    parser.add_argument("--session", metavar="ID", help="be in this session instead of a new one")
    parser.add_argument(
        "--lenient",
        action="store_true",
        help="leave out the MCP servers and further directories an agent cannot take, instead of refusing",
    )
    parser.add_argument(
        "--print-config",
        metavar="EDITOR",
        choices=EDITORS,
        help=f"what to put where, for {', '.join(EDITORS)}",
    )
    arguments = parser.parse_args(argv)
    if arguments.print_config:
        return _print_config(arguments)
    if arguments.action == "login":
        from farsteer.cli import login

        given = (("--hub", arguments.hub), ("--home", arguments.home))
        return login.main([part for name, value in given if value for part in (name, value)])
    log_to_stderr(logging.WARNING)
    return context.run(_run(arguments))


def _print_config(arguments: argparse.Namespace) -> int:
    from farsteer.cli.editors import PLACES, configuration

    print(f"for {PLACES[arguments.print_config]}:", file=sys.stderr)
    print(configuration(arguments.print_config, _options(arguments)))
    return DONE


def _options(arguments: argparse.Namespace) -> list[str]:
    """The options of this call, for the editor's configuration."""
    given = [(f"--{name}", getattr(arguments, name)) for name in ("hub", "home", "agent", "machine")]
    options = [part for name, value in given if value for part in (name, value)]
    return [*options, "--lenient"] if arguments.lenient else options


async def _found(arguments: argparse.Namespace, opened: AsyncExitStack) -> HubClient:
    """A hub. An editor that starts us anew does not wait for the end of the one before, so we do, for a while."""
    from farsteer.cli.exec import steering
    from farsteer.core.errors import Conflict

    loop = asyncio.get_running_loop()
    patience = loop.time() + _HOME_SECONDS
    while True:
        try:
            return (await opened.enter_async_context(steering(arguments)))[0]
        except Conflict:
            if loop.time() > patience:
                raise
            await asyncio.sleep(_AGAIN_SECONDS)


async def _run(arguments: argparse.Namespace) -> int:
    from farsteer.faces.acp.server import AcpOptions, serve
    from farsteer.jsonrpc.stdio import StdinReader, StdioTransport, StdoutWriter, claim_stdio

    source, target = claim_stdio()

    @asynccontextmanager
    async def hub() -> AsyncGenerator[HubClient]:
        async with AsyncExitStack() as opened:
            found = await _found(arguments, opened)
            # What is there now stays to the end: the collector need not look through it for every page of a log.
            gc.freeze()
            yield found

    def forget() -> None:
        from farsteer.client.access import login_file

        login_file(context.home(arguments)).unlink(missing_ok=True)

    writer = StdoutWriter(target)
    transport = StdioTransport(StdinReader(source), writer)
    options = AcpOptions(
        agent=arguments.agent, machine=arguments.machine, session_id=arguments.session, lenient=arguments.lenient,
        forget_login=forget,
    )  # fmt: skip
    conversing = asyncio.create_task(serve(transport, options, hub))
    unheard = asyncio.create_task(writer.broken.wait())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, conversing.cancel)
    try:
        # An editor that reads no more is as gone as one that says no more.
        await asyncio.wait([conversing, unheard], return_when=asyncio.FIRST_COMPLETED)
        if unheard.done():
            conversing.cancel()
        await conversing
    except asyncio.CancelledError:
        logging.getLogger(__name__).info("ended before the editor said its last")
    finally:
        unheard.cancel()
    await writer.flush(_FLUSH_SECONDS)
    return DONE
