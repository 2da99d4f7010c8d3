"""`farsteer token`: creates, lists and revokes access tokens."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.text import ago, table
from farsteer.client.config import token_file
from farsteer.core.api import TokenView
from farsteer.core.errors import BadRequest, NotFound
from farsteer.core.text import clean_line

if TYPE_CHECKING:
    from farsteer.client import AsyncClient

DESCRIPTION = """\
Manage the access tokens of a hub. The owner's token is in a file of the home
directory; further tokens are created for a device, a machine or a person, and can
be revoked one by one.

actions:
  show-path             print the path of the owner's token file (the default)
  create LABEL          create a token and print its secret, only this once
  list                  list all tokens
  revoke ID             revoke a token and all tokens made with it, and close the
                        connections that use them
"""

EXAMPLES = """\
  cat "$(farsteer token)"
  farsteer token create "build server" --scope runner --expires 90d
  farsteer token create "anna" --namespace anna
  farsteer token revoke 7c1e
"""

_UNIT_SECONDS = {"m": 60, "h": 3600, "d": 86400}


def token_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("token", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument(
        "action",
        nargs="?",
        choices=["show-path", "create", "list", "revoke"],
        default="show-path",
        metavar="ACTION",
        help="see above (default: show-path)",
    )
    parser.add_argument(
        "value", nargs="?", metavar="LABEL|ID", help="label of the new token, or first characters of an id"
    )
    parser.add_argument(
        "--namespace", metavar="NS", help="create: namespace the token belongs to (default: yours)"
    )
    parser.add_argument(
        "--scope",
        action="append",
        metavar="S",
        help="create: scope of the token; may be repeated (default: read, write and approve)",
    )
    parser.add_argument(
        "--expires",
        metavar="TIME",
        help="create: lifetime, such as 30d, 12h or 90m; a token ends with the one that made it (default: unlimited)",
    )
    arguments = parser.parse_intermixed_args(argv)
    if (arguments.value is not None) != (arguments.action in ("create", "revoke")):
        parser.error(
            f"{arguments.action} {'needs a LABEL or ID' if arguments.value is None else 'takes no value'}"
        )
    if arguments.action == "show-path":
        return _show_path(arguments)
    return context.run(_run_action(arguments))


def _show_path(arguments: argparse.Namespace) -> int:
    path = token_file(context.home_directory(arguments))
    if not path.exists():
        raise NotFound(f"there is no token file at {path} yet: `farsteer up` creates it")
    print(path)
    return SUCCESS


async def _run_action(arguments: argparse.Namespace) -> int:
    expires_in = parse_duration(arguments.expires) if arguments.expires else None
    async with context.hub_client(arguments) as client:
        match arguments.action:
            case "create":
                created = await client.create_token(
                    arguments.value,
                    namespace=arguments.namespace,
                    scopes=arguments.scope,
                    expires_in=expires_in,
                )
                about = f"token {created.token.id[:8]} for {created.token.label!r}"
                print(f"{about}; its secret is shown only this once:", file=sys.stderr)
                print(created.secret)
            case "list":
                await _print_list(client)
            case _:
                await _revoke(client, arguments.value)
    return SUCCESS


async def _print_list(client: AsyncClient) -> None:
    rows = [_row(token) for token in await client.tokens()]
    header = ("ID", "NAMESPACE", "MADE", "BY", "USED", "EXPIRES", "SCOPES", "LABEL")
    print(table([header, *rows], get_terminal_size().columns))


def _row(token: TokenView) -> tuple[str, ...]:
    return (
        token.id[:8],
        token.namespace,
        ago(token.created_at),
        token.created_by[:8] if token.created_by else "unknown",
        ago(token.last_used_at) if token.last_used_at else "never",
        _format_date(token.expires_at) if token.expires_at else "never",
        ",".join(token.scopes),
        f"{token.label} ({clean_line(token.device)})" if token.device else token.label,
    )


async def _revoke(client: AsyncClient, given: str) -> None:
    tokens = await client.tokens()
    found = [token for token in tokens if token.id.startswith(given)]
    if len(found) != 1:
        raise NotFound(
            f"{len(found) or 'no'} token ids start with {given!r}: `farsteer token list` lists them"
        )
    await client.revoke_token(found[0].id)
    others = len(_descendants(found[0].id, tokens))
    made = f" and {others} made with it" if others else ""
    print(f"revoked {clean_line(found[0].label)!r}{made}", file=sys.stderr)


def _descendants(token_id: str, tokens: list[TokenView]) -> set[str]:
    """Return the ids of the tokens that were created with this one, directly or not."""
    children = {token.id for token in tokens if token.created_by == token_id}
    return children.union(*(_descendants(child, tokens) for child in children))


def _format_date(milliseconds: int) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%Y-%m-%d")


def parse_duration(text: str) -> int:
    """Return the seconds that `30d`, `12h` or `90m` stand for."""
    match = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if match is None:
        raise BadRequest(f"--expires {text!r} is not a duration: write 30d, 12h or 90m")
    return int(match[1]) * _UNIT_SECONDS[match[2]]
