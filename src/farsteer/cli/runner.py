"""`farsteer runner`: connects this machine to a hub."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from farsteer.cli import context
from farsteer.core.errors import BadRequest

ABOUT = """\
Connect this machine to a hub, which can then run agents on it. The hub's access
token is read from $CLI_API_TOKEN or --token-file, never from the command line.
A lost link comes back by itself; Ctrl-C or SIGTERM ends the runner and its
agents. runner.toml in the home says what sessions may do here: `roots` lists
the directories they may run in, `agents` the preferred agents, best first.
"""

EXAMPLES = """\
  CLI_API_TOKEN=... farsteer runner --hub https://farsteer.example.com
  farsteer runner --hub https://farsteer.example.com --token-file /run/secrets/farsteer
"""


def main(argv: Sequence[str]) -> int:
    parser = context.command("runner", ABOUT, EXAMPLES)
    context.add_hub(parser)
    parser.add_argument("--token-file", metavar="FILE", help="a file with the hub's access token")
    arguments = parser.parse_args(argv)
    home = context.home(arguments)
    token = _token(arguments)
    from farsteer.cli.machine import run_until_stopped
    from farsteer.client.access import find_url

    return run_until_stopped(home, find_url(arguments.hub), token)


def _token(arguments: argparse.Namespace) -> str:
    from farsteer.client.access import find_token

    if not arguments.token_file:
        return find_token()
    try:
        return find_token(Path(arguments.token_file).expanduser().read_text(encoding="utf-8-sig").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read --token-file {arguments.token_file}: {error}") from error
