"""What an earlier life of this runner left behind: agents and their tools, ended before any session goes on."""

from __future__ import annotations

import logging
from pathlib import Path

from farsteer.agents.process import posix
from farsteer.agents.process.environment import LaunchMark
from farsteer.runner.machine import machine_id

_GRACE = 3.0

_log = logging.getLogger(__name__)


def home_id(home: Path) -> str:
    """The name of this home in the marks of its agents.

    A copy of a home has the same machine id and is another home: the directory itself tells them apart.
    """
    directory = home.stat()
    return f"{machine_id(home)}.{directory.st_dev:x}.{directory.st_ino:x}"


def reap(home: Path) -> int:
    """End what carries the mark of a launch of `home`, and return how many that were when they are gone.

    Only who holds the home's lock may do this: nobody else can have started them but a runner that is no more.
    """
    name = home_id(home)

    def ours(value: str) -> bool:
        mark = LaunchMark.parse(value)
        return mark is not None and mark.home == name

    left = posix.kill_marked(ours)
    if left:
        _log.warning("an earlier life of this runner left %d processes behind: they are ended", len(left))
        for pid in posix.wait_gone(left, _GRACE):
            _log.error("process %d outlives SIGKILL by %g s", pid, _GRACE)
    return len(left)
