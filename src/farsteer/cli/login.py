"""`farsteer login`: remember a hub elsewhere and its access token."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from getpass import getpass
from pathlib import Path

from farsteer.cli import context
from farsteer.cli.main import DONE
from farsteer.client.access import DEFAULT_URL, Login, check_url, login_file
from farsteer.core.errors import BadRequest
from farsteer.core.wire import encode

ABOUT = """\
Remember the address of a hub and an access token for it in the home (0600).
Commands, editors and the SDK use them when no hub runs on this home and nothing
else is named. `farsteer logout` forgets them.

The token is asked for, or read from the first line of stdin: never from the
command line, where others could see it.
"""

EXAMPLES = """\
  farsteer login --hub https://hub.example
  farsteer login --hub https://hub.example < token-file
"""


def main(argv: Sequence[str]) -> int:
    parser = context.command("login", ABOUT, EXAMPLES)
    parser.add_argument("--hub", metavar="URL", help="the hub; asked for if it is left out")
    arguments = parser.parse_args(argv)
    return context.run(_run(context.home(arguments), *_ask(arguments.hub)))


def _ask(hub: str | None) -> tuple[str, str]:
    """The hub's address and a token for it."""
    asked = sys.stdin.isatty()
    url = hub or (input(f"hub [{DEFAULT_URL}]: ").strip() if asked else "")
    token = (getpass("access token: ") if asked else sys.stdin.readline()).strip()
    if not token:
        raise BadRequest("an access token is needed: `farsteer token create` at the hub mints one")
    return check_url(url or DEFAULT_URL).rstrip("/"), token


async def _run(home: Path, url: str, token: str) -> int:
    from farsteer.client import AsyncClient
    from farsteer.storage.home import prepare_home, write_secret

    async with AsyncClient(url, token) as client:
        machines = await client.machines()
    write_secret(login_file(prepare_home(home)), encode(Login(url=url, token=token)))
    active = sum(machine.active for machine in machines)
    print(f"logged in to {url}: {active} of {len(machines)} machines are online")
    return DONE
