"""Prints an error as one line that says what to do next, and chooses the exit code."""

from __future__ import annotations

import sys

from farsteer.cli.exit_codes import FAILURE, UNREACHABLE, USAGE_ERROR
from farsteer.client.settings import find_flag
from farsteer.core.errors import ErrorCode, FarsteerError
from farsteer.core.text import clean_line

HINTS = {
    ErrorCode.UNAVAILABLE: "start a hub with `farsteer up`, or choose another with --hub",
    ErrorCode.UNAUTHORIZED: "the access token comes from $CLI_API_TOKEN, `farsteer login` or the home directory of "
    "the hub",
    ErrorCode.MACHINE_OFFLINE: "run `farsteer runner --hub URL` on that machine",
    ErrorCode.AGENT_UNKNOWN: "`farsteer agents` lists the agents",
    ErrorCode.AGENT_NOT_INSTALLED: "`farsteer agents` says how to install it",
    ErrorCode.NOT_FOUND: "`farsteer sessions` lists the sessions",
}

_MAX_MESSAGE = 2000


def report_error(error: Exception) -> int:
    """Print `error` to stderr and return the exit code for it."""
    if find_flag("debug"):
        import traceback

        traceback.print_exception(error)
    if not isinstance(error, FarsteerError):
        # The message of an OSError is complete by itself; others need the name of their class.
        message = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        print(
            f"farsteer: {clean_line(message, _MAX_MESSAGE)} (FARSTEER_DEBUG=1 prints the traceback)",
            file=sys.stderr,
        )
        return FAILURE
    for step in error.details.get("logs", ()):
        if step.message == error.message:
            continue
        print(
            f"  {clean_line(step.status):<7}{clean_line(step.step)}: {clean_line(step.message)}",
            file=sys.stderr,
        )
    print(f"farsteer: {clean_line(message_with_hint(error), _MAX_MESSAGE)}", file=sys.stderr)
    return exit_code(error)


def message_with_hint(error: FarsteerError) -> str:
    """Return the error's message, with what to do next if the message does not say so itself."""
    hint = HINTS.get(error.code)
    has_hint = any(mark in error.message for mark in ("`", "--", "CLI_API_TOKEN"))
    return error.message if hint is None or has_hint else f"{error.message}; {hint}"


def exit_code(error: FarsteerError) -> int:
    """Return the exit code that stands for `error`."""
    if error.code in (ErrorCode.UNAVAILABLE, ErrorCode.TIMEOUT, ErrorCode.MACHINE_OFFLINE):
        return UNREACHABLE
    return USAGE_ERROR if error.status == 400 else FAILURE
