"""Shared by the commands: argument parsers, and finding the home directory, the hub and a session."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farsteer.cli.terminal.text import one_line
from farsteer.client.config import home_dir, running_hub, stored_login
from farsteer.core.errors import BadRequest, NotFound, Unauthorized, Unavailable
from farsteer.core.ids import is_uuid

if TYPE_CHECKING:
    from farsteer.client import AsyncClient
    from farsteer.client.hub_client import HubClient
    from farsteer.core.api import SessionView


def command_parser(name: str, description: str, examples: str) -> argparse.ArgumentParser:
    """Return a parser for `farsteer NAME` that has the options every command takes."""
    parser = argparse.ArgumentParser(
        prog=f"farsteer {name}",
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--home",
        metavar="DIR",
        help="directory of the data and the access token (default: $FARSTEER_HOME or ~/.farsteer)",
    )
    return parser


def add_hub_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--hub",
        metavar="URL",
        help="hub to use (default: $FARSTEER_HUB, else the hub that runs on the home directory, else the hub "
        "of `farsteer login`, else http://127.0.0.1:3006); one that does not run on the home directory needs "
        "`farsteer login` or $CLI_API_TOKEN",
    )


def add_machine_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--machine",
        metavar="M",
        help="id, name or host of the machine (default: the only one that is connected, else this one)",
    )


def home_directory(arguments: argparse.Namespace) -> Path:
    """Return the home directory of this call and export it as `$FARSTEER_HOME`, where the SDK and agents look."""
    if arguments.home:
        os.environ["FARSTEER_HOME"] = str(Path(arguments.home).expanduser().absolute())
    return home_dir()


def hub_client(arguments: argparse.Namespace) -> AsyncClient:
    """Return a client of the hub that `--hub`, the environment or the home directory name.

    Raises:
        Unavailable: No hub is named, and none runs on this home directory.
        Unauthorized: A hub is known, but there is no access token for it.
    """
    from farsteer.client import AsyncClient

    home = home_directory(arguments)
    try:
        return AsyncClient(arguments.hub)
    except Unauthorized:
        if arguments.hub or os.environ.get("FARSTEER_HUB") or running_hub(home):
            raise
        raise Unavailable(
            f"no hub runs on {home}: start one with `farsteer up`, or use another after `farsteer login`"
        ) from None


def has_external_hub(arguments: argparse.Namespace) -> bool:
    """Return whether a hub outside this process is named, runs on the home directory or was logged in to."""
    home = home_directory(arguments)
    return bool(arguments.hub or os.environ.get("FARSTEER_HUB") or running_hub(home) or stored_login(home))


@asynccontextmanager
async def open_hub(
    arguments: argparse.Namespace, *, external: bool | None = None
) -> AsyncGenerator[HubClient]:
    """Connect to the external hub if there is one, otherwise run a hub and a runner in this process.

    Args:
        arguments: The parsed arguments, with `home` and `hub`.
        external: What `has_external_hub` returned, for a caller that has to know it too.

    Raises:
        Conflict: Another process already runs a hub on the home directory.
    """
    home = home_directory(arguments)
    if has_external_hub(arguments) if external is None else external:
        async with hub_client(arguments) as client:
            yield client
    else:
        import logging

        from farsteer.cli.daemon.in_process import in_process_hub
        from farsteer.cli.daemon.process import log_to_stderr

        log_to_stderr(logging.ERROR)
        async with in_process_hub(home) as client:
            yield client


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run a command's coroutine to its end and return its exit code."""
    return asyncio.run(work)


async def find_session(hub: HubClient, given: str | None) -> SessionView:
    """Return the session with the id `given` or an id that starts with it.

    Args:
        hub: The hub that has the session.
        given: An id or its first characters. None stands for the session that was used last.

    Raises:
        NotFound: No session matches.
        BadRequest: Several sessions match.
    """
    if given is not None and is_uuid(given):
        return await hub.session(given)
    found = [session async for session in hub.sessions() if session.id.startswith(given or "")]
    if given is None and found:
        return max(found, key=lambda session: session.updated_at)
    if not found:
        raise (
            NotFound("there are no sessions yet: `farsteer exec` creates one")
            if given is None
            else NotFound(f"no session id starts with {given!r}")
        )
    if len(found) > 1:
        choices = ", ".join(
            f"{session.id[:13]} ({one_line(session.title or '', 30)})" for session in found[:5]
        )
        raise BadRequest(f"{len(found)} session ids start with {given!r}: {choices}")
    return found[0]
