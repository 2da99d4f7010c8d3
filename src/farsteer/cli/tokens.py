"""`farsteer token`: access tokens."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from farsteer.cli import context
from farsteer.cli.main import DONE
from farsteer.cli.text import ago, clean, table
from farsteer.core.api import TokenView
from farsteer.core.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from farsteer.client import AsyncClient

ABOUT = """\
Access tokens of a hub. The owner's token is in a file of the home; others are
minted for a device, a machine or a person, and can be revoked one by one.

  show-path             where the owner's token is (also without an action)
  create LABEL          mint a token; its secret is printed this once
  list                  all tokens
  revoke ID             end a token, and what it has open, now
"""

EXAMPLES = """\
  cat "$(farsteer token)"
  farsteer token create "build server" --scope runner --expires 90d
  farsteer token create "anna" --namespace anna
  farsteer token revoke 7c1e
"""

_UNITS = {"m": 60, "h": 3600, "d": 86400}


def main(argv: Sequence[str]) -> int:
    parser = context.command("token", ABOUT, EXAMPLES)
    context.add_hub(parser)
    parser.add_argument(
        "action",
        nargs="?",
        choices=["show-path", "create", "list", "revoke"],
        default="show-path",
        metavar="ACTION",
    )
    parser.add_argument("value", nargs="?", metavar="LABEL|ID")
    parser.add_argument("--namespace", metavar="NS", help="create: the tenant it belongs to (default: yours)")
    parser.add_argument(
        "--scope",
        action="append",
        metavar="S",
        help="create: what it may do; may be repeated (default: all of yours)",
    )
    parser.add_argument("--expires", metavar="TIME", help="create: 30d, 12h or 90m from now (default: never)")
    arguments = parser.parse_intermixed_args(argv)
    if (arguments.value is not None) != (arguments.action in ("create", "revoke")):
        parser.error(
            f"{arguments.action} {'needs a LABEL or ID' if arguments.value is None else 'takes no value'}"
        )
    if arguments.action == "show-path":
        return _show_path(arguments)
    return context.run(_run(arguments))


def _show_path(arguments: argparse.Namespace) -> int:
    from farsteer.client.access import token_file

    path = token_file(context.home(arguments))
    if not path.exists():
        raise NotFound(f"there is no token file at {path} yet: `farsteer up` makes it")
    print(path)
    return DONE


async def _run(arguments: argparse.Namespace) -> int:
    expires = _seconds(arguments.expires) if arguments.expires else None
    async with context.client(arguments) as client:
        match arguments.action:
            case "create":
                created = await client.create_token(
                    arguments.value, namespace=arguments.namespace, scopes=arguments.scope, expires_in=expires
                )
                print(
                    f"token {created.token.id[:8]} for {created.token.label!r}; this is its only showing:",
                    file=sys.stderr,
                )
                print(created.secret)
            case "list":
                await _list(client)
            case _:
                await _revoke(client, arguments.value)
    return DONE


async def _list(client: AsyncClient) -> None:
    rows = [_row(token) for token in await client.tokens()]
    header = ("ID", "NAMESPACE", "MADE", "USED", "EXPIRES", "SCOPES", "LABEL")
    print(table([header, *rows], get_terminal_size().columns))


def _row(token: TokenView) -> tuple[str, ...]:
    return (
        token.id[:8],
        clean(token.namespace),
        ago(token.created_at),
        ago(token.last_used_at) if token.last_used_at else "never",
        _date(token.expires_at) if token.expires_at else "never",
        ",".join(token.scopes),
        clean(token.label),
    )


async def _revoke(client: AsyncClient, given: str) -> None:
    found = [token for token in await client.tokens() if token.id.startswith(given)]
    if len(found) != 1:
        raise NotFound(f"{len(found) or 'no'} tokens begin with {given!r}: `farsteer token list` shows them")
    await client.revoke_token(found[0].id)
    print(f"revoked {clean(found[0].label)!r}", file=sys.stderr)


def _date(milliseconds: int) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%Y-%m-%d")


def _seconds(text: str) -> int:
    match = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if match is None:
        raise BadRequest(f"--expires {text!r} is no time: write 30d, 12h or 90m")
    return int(match[1]) * _UNITS[match[2]]
