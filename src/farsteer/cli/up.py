"""`farsteer up`: everything on this machine, in one process."""

from __future__ import annotations

from collections.abc import Sequence

from farsteer.cli import context

ABOUT = """\
Start hub, runner and demo agent in one process. One line on stdout says when it
is ready, where, and where the access token is; logs go to stderr. Ctrl-C or
SIGTERM ends it and the agents it runs. Sessions are kept: after the next start
they go on with the next message.
"""

EXAMPLES = """\
  farsteer up
  farsteer up --port 8080 --home /srv/farsteer
  CLI_API_TOKEN=... farsteer up --host 0.0.0.0 --allowed-host farsteer.example.com
"""


def main(argv: Sequence[str]) -> int:
    parser = context.command("up", ABOUT, EXAMPLES)
    context.add_server(parser)
    arguments = parser.parse_args(argv)
    from farsteer.cli.lean import import_socketio

    import_socketio()
    from farsteer.cli.serving import serve_until_stopped

    return serve_until_stopped(arguments, with_runner=True)
