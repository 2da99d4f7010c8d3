"""The limit of open files: raised for this process, and as it was for the agents that it starts.

An agent takes four descriptors of the runner, a client of the hub one. The usual soft limit of 1024 would end at about
250 agents. Programs that still use `select` break above 1024, so agents get the limit that the runner was started with.
"""

from __future__ import annotations

import resource
import sys
from contextlib import suppress

DESCRIPTORS_PER_AGENT = 4
"""Its input, its output, its errors and its exit."""
_MAX_ON_MACOS = 10_240
"""macOS refuses a higher limit although it reports none."""

_original: tuple[int, int] | None = None


def raise_file_limit() -> None:
    """Raise the soft limit of this process to the hard one, as far as the system allows."""
    global _original
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = reachable_file_limit()
    if soft < target:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            _original = _original or (soft, hard)


def reachable_file_limit() -> int:
    """Return the limit that `raise_file_limit` sets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if sys.platform == "darwin":
        return max(soft, _MAX_ON_MACOS if hard == resource.RLIM_INFINITY else min(hard, _MAX_ON_MACOS))
    return hard if hard != resource.RLIM_INFINITY else sys.maxsize


def restore_file_limit(pid: int) -> None:
    """Give a process that has just been started the limit that this one had. Only Linux can do that."""
    if _original is not None and sys.platform == "linux":
        with suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _original)
