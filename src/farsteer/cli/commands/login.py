"""`farsteer login` and `farsteer logout`: store the address of a hub and an access token for it, and remove them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from getpass import getpass
from pathlib import Path

from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.client.config import DEFAULT_URL, Login, check_url, login_file
from farsteer.core.errors import BadRequest
from farsteer.core.wire import encode

LOGIN_DESCRIPTION = """\
Store the address of a hub and an access token for it in the home directory, in a
file that only you can read. Commands, editors and the SDK use them if no hub runs
on the home directory and no other is named, and for this address if it is named.
The token goes to no other address. `farsteer logout` removes them.

The token is asked for, or read from the first line of stdin if that is not a
terminal. It is never an option, because other users could see it there.
"""

LOGIN_EXAMPLES = """\
  farsteer login --hub https://hub.example
  farsteer login --hub https://hub.example < token-file
"""

LOGOUT_DESCRIPTION = """\
Remove the address and the access token that `farsteer login` stored in the home
directory. The token itself stays valid until `farsteer token revoke` revokes it.
"""

LOGOUT_EXAMPLES = """\
  farsteer logout
"""


def login_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("login", LOGIN_DESCRIPTION, LOGIN_EXAMPLES)
    parser.add_argument("--hub", metavar="URL", help="address of the hub (default: ask on the terminal)")
    arguments = parser.parse_args(argv)
    home = context.home_directory(arguments)
    url, token = _read_credentials(arguments.hub)
    return context.run(_login(home, url, token))


def _read_credentials(hub: str | None) -> tuple[str, str]:
    """Return the hub's address and an access token, asking for what is missing if stdin is a terminal."""
    interactive = sys.stdin.isatty()
    url = hub or (input(f"hub [{DEFAULT_URL}]: ").strip() if interactive else "")
    token = (getpass("access token: ") if interactive else sys.stdin.readline()).strip()
    if not token:
        raise BadRequest("an access token is missing: `farsteer token create` at the hub creates one")
    return check_url(url or DEFAULT_URL).rstrip("/"), token


async def _login(home: Path, url: str, token: str) -> int:
    from farsteer.client import AsyncClient
    from farsteer.storage.home import prepare_home, write_secret

    # Lists the machines to find out whether the token works before it is stored.
    async with AsyncClient(url, token) as client:
        machines = await client.machines()
    write_secret(login_file(prepare_home(home)), encode(Login(url=url, token=token)))
    active = sum(machine.active for machine in machines)
    print(f"logged in to {url}: {active} of {len(machines)} machines are online")
    return SUCCESS


def logout_command(argv: Sequence[str]) -> int:
    arguments = context.command_parser("logout", LOGOUT_DESCRIPTION, LOGOUT_EXAMPLES).parse_args(argv)
    path = login_file(context.home_directory(arguments))
    existed = path.exists()
    path.unlink(missing_ok=True)
    print("logged out" if existed else "no login was stored")
    return SUCCESS
