"""Keeps the credentials of this process from the agents, which usually run as the same user."""

from __future__ import annotations

import os
import sys

_PR_SET_DUMPABLE = 4
_TOKEN_VARIABLE = "CLI_API_TOKEN"  # noqa: S105


def protect_process() -> None:
    """Close this process to other processes of the same user.

    They cannot read its environment, memory and open files in /proc, or attach to it with ptrace, and no core dump is
    written. A program that it starts is not affected. Only Linux can do this; elsewhere nothing happens.
    """
    if sys.platform != "linux":
        return
    import ctypes

    if ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        print("farsteer: this process cannot be closed to others (prctl failed)", file=sys.stderr)


def forget_token() -> bool:
    """Remove the access token from the environment, so that no child inherits it. Returns whether there was one."""
    return bool(os.environ.pop(_TOKEN_VARIABLE, None))
