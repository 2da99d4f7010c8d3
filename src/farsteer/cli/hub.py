"""`farsteer hub`: the meeting point alone; machines connect with `farsteer runner`."""

from __future__ import annotations

from collections.abc import Sequence

from farsteer.cli import context

ABOUT = """\
Start the hub alone, where clients and machines meet. Machines connect to it
with `farsteer runner --hub URL`. One line on stdout says when it is ready and
where. Ctrl-C or SIGTERM ends it; agents on the machines work on meanwhile.
"""

EXAMPLES = """\
  farsteer hub
  farsteer hub --allowed-host farsteer.example.com   # behind an https proxy
"""


def main(argv: Sequence[str]) -> int:
    parser = context.command("hub", ABOUT, EXAMPLES)
    context.add_server(parser)
    arguments = parser.parse_args(argv)
    from farsteer.cli.lean import import_socketio

    import_socketio()
    from farsteer.cli.serving import serve_until_stopped

    return serve_until_stopped(arguments, with_runner=False)
