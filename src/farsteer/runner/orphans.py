"""Processes that an earlier runner process of this home left behind. They are killed before any session continues."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from farsteer.agents.process import posix
from farsteer.agents.process.cgroups import LaunchGroup, find_groups
from farsteer.agents.process.environment import LaunchMark
from farsteer.runner.machine import machine_id

_KILL_SECONDS = 3.0

_logger = logging.getLogger(__name__)


def home_id(home: Path) -> str:
    """Return the name of this home in the launch marks of its agents.

    A copy of a home has the same machine id but is another home. Device and inode of the directory distinguish them.
    """
    directory = home.stat()
    return f"{machine_id(home)}.{directory.st_dev:x}.{directory.st_ino:x}"


def kill_orphans(home: Path) -> int:
    """Kill every process with a launch mark of `home`, or in a control group of it. Returns when they are gone.

    Returns how many had a mark.

    The caller must hold the lock of the home. Then no other runner can have started them.
    """
    name = home_id(home)

    def is_ours(value: str) -> bool:
        mark = LaunchMark.parse(value)
        return mark is not None and mark.home == name

    groups = find_groups(name)
    for group in groups:
        group.kill()
    killed = posix.kill_marked(is_ours)
    if killed:
        _logger.warning("killed %d processes that an earlier runner left behind", len(killed))
        for pid in posix.wait_gone(killed, _KILL_SECONDS):
            _logger.error("process %d is still alive %g s after SIGKILL", pid, _KILL_SECONDS)
    _wait_until_empty(groups)
    return len(killed)


def _wait_until_empty(groups: list[LaunchGroup]) -> None:
    deadline = time.monotonic() + _KILL_SECONDS
    while groups := [group for group in groups if not group.remove()]:
        if time.monotonic() > deadline:
            _logger.error(
                "processes are still alive %g s after SIGKILL, in %s", _KILL_SECONDS, groups[0].path
            )
            return
        time.sleep(0.01)
