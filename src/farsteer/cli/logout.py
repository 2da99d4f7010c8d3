"""`farsteer logout`: forget what `farsteer login` remembers."""

from __future__ import annotations

from collections.abc import Sequence

from farsteer.cli import context
from farsteer.cli.main import DONE
from farsteer.client.access import login_file

ABOUT = """\
Forget the hub and the access token that `farsteer login` has put into the home. The
token itself stays good until it is revoked: `farsteer token revoke` at the hub.
"""

EXAMPLES = """\
  farsteer logout
"""


def main(argv: Sequence[str]) -> int:
    arguments = context.command("logout", ABOUT, EXAMPLES).parse_args(argv)
    path = login_file(context.home(arguments))
    known = path.exists()
    path.unlink(missing_ok=True)
    print("logged out" if known else "nobody was logged in")
    return DONE
