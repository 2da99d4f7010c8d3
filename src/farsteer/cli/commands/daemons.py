"""`farsteer up`, `farsteer hub` and `farsteer runner`: the commands that run until they are stopped."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from farsteer.cli import context
from farsteer.cli.protection import forget_token
from farsteer.client.config import find_token, find_url
from farsteer.client.settings import find_list, find_number, find_text
from farsteer.core.errors import BadRequest

UP_DESCRIPTION = """\
Start the hub, a runner and the demo agent in one process. When it is ready, one
line on stdout says its address and where the access token is; logs go to stderr.
Ctrl-C or SIGTERM stops it and the agents it runs. Sessions are kept: after the
next start they continue with the next message.
"""

UP_EXAMPLES = """\
  farsteer up
  farsteer up --port 8080 --home /srv/farsteer
  CLI_API_TOKEN=... farsteer up --host 0.0.0.0 --allowed-host farsteer.example.com
"""

HUB_DESCRIPTION = """\
Start a hub without a runner. Machines connect to it with
`farsteer runner --hub URL`. When it is ready, one line on stdout says its address
and where the access token is; logs go to stderr. Ctrl-C or SIGTERM stops it;
agents on the machines keep working meanwhile.

`farsteer hub compact` removes old sessions by the rules in hub.toml and gives
back free space, whether or not the hub runs.
"""

HUB_EXAMPLES = """\
  farsteer hub
  farsteer hub --allowed-host farsteer.example.com   # behind an https proxy
  farsteer hub compact --dry-run
"""

RUNNER_DESCRIPTION = """\
Connect this machine to a hub, which can then run agents on it. The access token
is read from $CLI_API_TOKEN, --token-file or `farsteer login`, never from the
command line, where other users could see it. A lost connection is re-established; Ctrl-C or SIGTERM
stops the runner and its agents.

runner.toml in the home directory restricts the sessions of this machine: `roots`
lists the directories they may use, `agents` the agents to prefer, best first,
`live_agents` is how many agents may run at a time (default: 2000).
If root runs the runner, `run_as` names the user that agents run as.
"""

RUNNER_EXAMPLES = """\
  CLI_API_TOKEN=... farsteer runner --hub https://farsteer.example.com
  farsteer runner --hub https://farsteer.example.com --token-file /run/secrets/farsteer
  farsteer runner --home ~/copy --new-identity     # once, on a copied home directory
"""


def up_command(argv: Sequence[str]) -> int:
    return _run_hub(_server_parser("up", UP_DESCRIPTION, UP_EXAMPLES).parse_args(argv), with_runner=True)


def hub_command(argv: Sequence[str]) -> int:
    if argv and argv[0] == "compact":
        from farsteer.cli.commands.compact import compact_command

        return compact_command(argv[1:])
    return _run_hub(_server_parser("hub", HUB_DESCRIPTION, HUB_EXAMPLES).parse_args(argv), with_runner=False)


def runner_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("runner", RUNNER_DESCRIPTION, RUNNER_EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument("--token-file", metavar="FILE", help="file that contains the hub's access token")
    parser.add_argument(
        "--new-identity",
        action="store_true",
        help="first give this home directory, a copy of another one, an id and a key of its own; its sessions stay "
        "with the machine that it was copied from",
    )
    context.add_log_option(parser)
    arguments = parser.parse_args(argv)
    home = context.home_directory(arguments)
    context.log(arguments, "info")
    url = find_url(arguments.hub)
    token = _read_token(arguments, url)
    forget_token()
    from farsteer.cli.daemon.runner_process import run_runner

    return run_runner(home, url, token, new_identity=arguments.new_identity)


def _server_parser(name: str, description: str, examples: str) -> argparse.ArgumentParser:
    parser = context.command_parser(name, description, examples)
    context.add_setting(parser, "host")
    context.add_setting(parser, "port", type=int)
    context.add_setting(parser, "allowed_host", metavar="NAME", action="append", default=[])
    context.add_setting(parser, "allowed_origin", metavar="URL", action="append", default=[])
    parser.add_argument(
        "--trusted-proxy",
        metavar="ADDRESS|NETWORK",
        action="append",
        default=[],
        help="reverse proxy in front of this hub: its Forwarded or X-Forwarded-For header names the client, by "
        "which failed sign-ins are counted; may be repeated",
    )
    context.add_log_option(parser)
    return parser


def _run_hub(arguments: argparse.Namespace, *, with_runner: bool) -> int:
    from farsteer.cli.daemon.hub_process import run_hub
    from farsteer.faces.app import ServerConfig

    home = context.home_directory(arguments)
    context.log(arguments, "info")
    config = ServerConfig(
        host=find_text("host", arguments.host) or "",
        port=find_number("port", arguments.port),
        allowed_hosts=find_list("allowed_host", arguments.allowed_host),
        allowed_origins=find_list("allowed_origin", arguments.allowed_origin),
        trusted_proxies=tuple(arguments.trusted_proxy),
    )
    return run_hub(home, config, with_runner=with_runner)


def _read_token(arguments: argparse.Namespace, url: str) -> str:
    if not arguments.token_file:
        return find_token(url)
    try:
        token = Path(arguments.token_file).expanduser().read_text(encoding="utf-8-sig").strip()
        return find_token(url, token)
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read --token-file {arguments.token_file}: {error}") from error
