"""An error as a person at a terminal meets it: one line that says what to do next, and an exit code."""

from __future__ import annotations

import os
import sys

from farsteer.cli.main import FAILED, UNREACHABLE, USAGE
from farsteer.cli.text import clean
from farsteer.core.errors import ErrorCode, FarsteerError

NEXT = {
    ErrorCode.UNAVAILABLE: "start a hub with `farsteer up`, or name another with --hub",
    ErrorCode.UNAUTHORIZED: "the access token comes from $CLI_API_TOKEN or the token file in $FARSTEER_HOME",
    ErrorCode.MACHINE_OFFLINE: "start its runner: `farsteer runner --hub URL` on that machine",
    ErrorCode.AGENT_UNKNOWN: "`farsteer agents` lists what there is",
    ErrorCode.AGENT_NOT_INSTALLED: "`farsteer agents` says how to get it",
    ErrorCode.NOT_FOUND: "`farsteer sessions` lists what there is",
}


def failed(error: Exception) -> int:
    """Say on stderr what happened; returns the exit code."""
    if os.environ.get("FARSTEER_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    if not isinstance(error, FarsteerError):
        kind = type(error).__name__
        hint = "FARSTEER_DEBUG=1 shows where"
        line = f"{error} ({hint})" if isinstance(error, OSError) else f"{kind}: {error} ({hint})"
        print(f"farsteer: {clean(line)}", file=sys.stderr)
        return FAILED
    for step in error.details.get("logs", ()):
        print(f"  {step.status:<7}{clean(step.step)}: {clean(step.message)}", file=sys.stderr)
    print(f"farsteer: {clean(explain(error))}", file=sys.stderr)
    return exit_code(error)


def explain(error: FarsteerError) -> str:
    hint = NEXT.get(error.code)
    # A message that names a command, an option or a variable says already what to do.
    said = any(mark in error.message for mark in ("`", "--", "CLI_API_TOKEN"))
    return error.message if hint is None or said else f"{error.message}; {hint}"


def exit_code(error: FarsteerError) -> int:
    if error.code in (ErrorCode.UNAVAILABLE, ErrorCode.TIMEOUT, ErrorCode.MACHINE_OFFLINE):
        return UNREACHABLE
    return USAGE if error.status == 400 else FAILED
