"""What commands share: how their arguments look, and how they find home, hub, token and session."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from farsteer.cli.text import one_line
from farsteer.client.access import home_dir, running_hub
from farsteer.core.errors import BadRequest, NotFound, Unauthorized, Unavailable
from farsteer.core.ids import is_uuid

if TYPE_CHECKING:
    from farsteer.client import AsyncClient
    from farsteer.core.api import SessionView


class Sessions(Protocol):
    async def session(self, session_id: str) -> SessionView: ...

    def sessions(self) -> AsyncIterator[SessionView]: ...


def command(name: str, about: str, examples: str = "") -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"farsteer {name}",
        description=about,
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_home(parser)
    return parser


def add_home(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--home", metavar="DIR", help="where data and token are (default: $FARSTEER_HOME or ~/.farsteer)"
    )


def add_hub(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--hub",
        metavar="URL",
        help="the hub to use (default: $FARSTEER_HUB, the one that runs on the home, or http://127.0.0.1:3006)",
    )


def add_server(parser: argparse.ArgumentParser) -> None:
    """What a command that listens takes."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=3006, help="port to listen on, 0 for any (default: %(default)s)"
    )
    parser.add_argument(
        "--allowed-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name this hub is reached by besides --host and localhost, e.g. behind a proxy; may be repeated",
    )
    parser.add_argument(
        "--allowed-origin",
        metavar="URL",
        action="append",
        default=[],
        help="a web page's origin (https://name) that may call this hub; may be repeated",
    )


def home(arguments: argparse.Namespace) -> Path:
    """The home of this call; what looks in the environment for it, and agents, find the same."""
    if arguments.home:
        os.environ["FARSTEER_HOME"] = str(Path(arguments.home).expanduser().absolute())
    return home_dir()


def client(arguments: argparse.Namespace) -> AsyncClient:
    from farsteer.client import AsyncClient

    place = home(arguments)
    try:
        return AsyncClient(arguments.hub)
    except Unauthorized:
        if arguments.hub or os.environ.get("FARSTEER_HUB") or running_hub(place):
            raise
        raise Unavailable(f"no hub has run on {place} yet: `farsteer up` starts one") from None


def run(work: Coroutine[Any, Any, int]) -> int:
    return asyncio.run(work)


async def find_session(hub: Sessions, given: str | None) -> SessionView:
    """The session of that id or unique beginning of one; None: the one used last."""
    if given is not None and is_uuid(given):
        return await hub.session(given)
    found = [session async for session in hub.sessions() if session.id.startswith(given or "")]
    if given is None and found:
        return max(found, key=lambda session: session.updated_at)
    if not found:
        raise (
            NotFound("there is no session yet: `farsteer exec` makes one")
            if given is None
            else NotFound(f"no session's id begins with {given!r}")
        )
    if len(found) > 1:
        choice = ", ".join(
            f"{session.id[:13]} ({one_line(session.title or '', 30)})" for session in found[:5]
        )
        raise BadRequest(f"{len(found)} sessions begin with {given!r}: {choice}")
    return found[0]
