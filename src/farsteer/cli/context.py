"""Shared by the commands: argument parsers, and finding the home directory, the hub and a session."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farsteer.cli.command_parser import CommandParser
from farsteer.cli.terminal.text import one_line
from farsteer.client.config import running_hub, stored_login
from farsteer.client.settings import LOG_LEVELS, find_flag, find_text, home_dir, setting
from farsteer.core.errors import BadRequest, NotFound, Unauthorized, Unavailable
from farsteer.core.ids import is_uuid

if TYPE_CHECKING:
    from farsteer.client import AsyncClient
    from farsteer.client.hub_client import HubClient
    from farsteer.core.api import SessionView


def command_parser(name: str, description: str, examples: str) -> argparse.ArgumentParser:
    """Return a parser for `farsteer NAME` that has the options every command takes."""
    parser = CommandParser(
        prog=f"farsteer {name}",
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # An option of ours or of an agent's own command must not become another one that begins like it.
        allow_abbrev=False,
    )
    add_setting(parser, "home", metavar="DIR")
    return parser


def add_setting(parser: argparse.ArgumentParser, name: str, **options: Any) -> None:
    """Add the flag of a setting. Its help is that of the table of settings, and says what else can set it."""
    wanted = setting(name)
    places = [f"${variable}" for variable in wanted.variables]
    if wanted.in_file:
        places.append(f"{name} in config.toml")
    if wanted.default:
        places.append(str(wanted.default))
    note = f" (default: {', else '.join(places)})" if places else ""
    parser.add_argument(str(wanted.flag), help=wanted.help + note, **options)


def add_log_option(parser: argparse.ArgumentParser) -> None:
    add_setting(parser, "log_level", choices=LOG_LEVELS, metavar="LEVEL")


def log(arguments: argparse.Namespace, default: str) -> None:
    """Log to stderr from now on, at the level of `--log-level`, the environment, `config.toml` or `default`."""
    from farsteer.cli.daemon.process import log_to_stderr

    home_directory(arguments)
    debug = "debug" if find_flag("debug") else None
    log_to_stderr(find_text("log_level", arguments.log_level) or debug or default)


def add_hub_option(parser: argparse.ArgumentParser) -> None:
    add_setting(parser, "hub", metavar="URL")


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
        if find_text("hub", arguments.hub) or running_hub(home):
            raise
        raise Unavailable(
            f"no hub runs on {home}: start one with `farsteer up`, or use another after `farsteer login`"
        ) from None


def has_external_hub(arguments: argparse.Namespace) -> bool:
    """Return whether a hub outside this process is named, runs on the home directory or was logged in to."""
    home = home_directory(arguments)
    return bool(find_text("hub", arguments.hub) or running_hub(home) or stored_login(home))


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

        if not logging.getLogger().handlers:
            log_to_stderr("error")
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
