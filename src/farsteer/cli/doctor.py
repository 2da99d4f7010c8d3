"""`farsteer doctor`: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from farsteer.cli import context
from farsteer.cli.main import DONE, FAILED

ABOUT = """\
Look at everything Farsteer needs on this machine and say what is well, what is
missing and how to get it. Changes nothing.
"""

EXAMPLES = """\
  farsteer doctor
  farsteer doctor --hub https://farsteer.example.com

exit codes: 0 everything needed is there, 1 something is wrong
"""


def main(argv: Sequence[str]) -> int:
    parser = context.command("doctor", ABOUT, EXAMPLES)
    context.add_hub(parser)
    parser.add_argument("--port", type=int, default=3006, help="the port `farsteer up` shall use")
    return context.run(_run(parser.parse_args(argv)))


async def _run(arguments: argparse.Namespace) -> int:
    import sys

    from farsteer.cli.checks import Grade, check_all
    from farsteer.cli.paint import coloured, painted
    from farsteer.cli.view import Line

    home = context.home(arguments)
    colour = coloured(sys.stdout)
    styles = {Grade.OK: "green", Grade.NOTE: "dim", Grade.WARN: "bold yellow", Grade.FAIL: "red"}
    worst = DONE
    async for check in check_all(home, arguments.hub, arguments.port):
        print(f"{painted(Line(f'{check.grade.value:<5}', styles[check.grade]), colour)} {check.what}")
        if check.how:
            print(f"      → {check.how}")
        if check.grade is Grade.FAIL:
            worst = FAILED
    return worst
