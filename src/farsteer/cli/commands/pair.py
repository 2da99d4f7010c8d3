"""`farsteer pair`: a one-time code and a QR code, with which another device gets a token of its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from urllib.parse import urlsplit

from farsteer.cli import context
from farsteer.cli.commands.tokens import parse_duration
from farsteer.cli.exit_codes import SUCCESS
from farsteer.client.config import check_url, is_loopback
from farsteer.core.errors import BadRequest

DESCRIPTION = """\
Let another device use the hub: a phone, a browser. Prints a code, and a QR code
with the address of the hub and the code. The code works once, for 10 minutes. The
device gets an access token of its own, which `farsteer token list` shows and
`farsteer token revoke` revokes.

Whoever sees the code can use it first. Then the device is refused, and the token
that was made is in `farsteer token list`.
"""

EXAMPLES = """\
  farsteer pair phone
  farsteer pair phone --address https://hub.example
  farsteer pair "wall display" --scope read --expires 30d
"""

MAX_QR_ADDRESS = 400
"""A longer address makes a QR code that does not fit into a terminal."""


def pair_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("pair", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument(
        "label", nargs="?", metavar="LABEL", help="what the new token is called (default: paired device)"
    )
    parser.add_argument(
        "--scope",
        action="append",
        metavar="S",
        help="scope of the device; may be repeated (default: read, write, approve and files)",
    )
    parser.add_argument(
        "--expires", metavar="TIME", help="lifetime of the device's token, such as 30d (default: unlimited)"
    )
    parser.add_argument(
        "--address",
        metavar="URL",
        help="address of the hub as the device reaches it (default: the one this command uses)",
    )
    return context.run(_pair(parser.parse_args(argv)))


async def _pair(arguments: argparse.Namespace) -> int:
    expires_in = parse_duration(arguments.expires) if arguments.expires else None
    address = _address(arguments.address) if arguments.address else None
    async with context.hub_client(arguments) as client:
        address = address or client.url
        made = await client.create_pairing(arguments.label, scopes=arguments.scope, expires_in=expires_in)
    _print_qr(pairing_link(address, made.code))
    print(f"open {address} on the device and enter:", file=sys.stderr)
    print(made.code)
    scopes = ", ".join(made.pairing.scopes)
    print(f"it works once, for 10 minutes, and gives: {scopes}", file=sys.stderr)
    if is_loopback(address):
        print(
            "only this machine reaches that address: pass --address URL with the one that the device uses",
            file=sys.stderr,
        )
    return SUCCESS


def pairing_link(address: str, code: str) -> str:
    """Return the link of the QR code. A browser sends no fragment to anybody (see docs/security.md)."""
    return f"{address.rstrip('/')}/#pair={code}"


def _address(given: str) -> str:
    url = check_url(given).rstrip("/")
    parts = urlsplit(url)
    if parts.query or parts.fragment or parts.username is not None or len(url) > MAX_QR_ADDRESS:
        raise BadRequest(f"{given!r} is not the address of a hub, such as https://hub.example")
    return url


def _print_qr(link: str) -> None:
    """Print a QR code if a person is at a terminal that can show it."""
    if not sys.stderr.isatty() or "utf" not in (sys.stderr.encoding or "").lower():
        return
    import segno

    segno.make(link, error="m", micro=False).terminal(out=sys.stderr, compact=True)
