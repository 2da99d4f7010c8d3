"""A control group for each launch, where this process may create one: Linux, cgroup v2, a group of its own user.

Every descendant of a process is in its group, whatever it does to its environment, its session and its parents, so
that `cgroup.kill` finds those that have no launch mark. That is so under a user's systemd and for root. Elsewhere there
are no groups, and the mark is all there is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

_PREFIX = "farsteer."
_KILL = "cgroup.kill"
_ENTER = '{ echo $$ > "$0"; } 2> /dev/null; exec "$@"'
"""Moving takes milliseconds, so the new process does it by itself, before it can have children."""


class LaunchGroup(NamedTuple):
    path: str

    def command(self, argv: Sequence[str], search_path: str | None) -> Sequence[str]:
        """Return the command line that runs `argv` in this group. One that cannot be run stays as it is, to fail so."""
        if shutil.which(argv[0], path=search_path) is None:
            return argv
        return ["/bin/sh", "-c", _ENTER, f"{self.path}/cgroup.procs", *argv]

    def kill(self) -> None:
        """Send SIGKILL to every process in the group."""
        with suppress(OSError), open(f"{self.path}/{_KILL}", "w") as file:
            file.write("1")

    def remove(self) -> bool:
        """Return whether the group is gone. One that still has a process cannot be removed; a zombie is none."""
        with suppress(OSError):
            os.rmdir(self.path)
        return not os.path.isdir(self.path)


def create_group(mark: str) -> LaunchGroup | None:
    """Create the group of a launch. Returns None if this process cannot."""
    parent = parent_group()
    if parent is None:
        return None
    path = os.path.join(parent, _PREFIX + mark.replace("/", "_"))
    with suppress(OSError):
        os.makedirs(path, exist_ok=True)
        return LaunchGroup(path)
    return None


def find_groups(home: str) -> list[LaunchGroup]:
    """Return the groups that an earlier runner of this home has left here."""
    parent = parent_group()
    if parent is None:
        return []
    start = f"{_PREFIX}{home}:"
    return [LaunchGroup(entry.path) for entry in os.scandir(parent) if entry.name.startswith(start)]


@cache
def parent_group() -> str | None:
    """Return the group of this process if groups can be created and killed below it."""
    try:
        with open("/proc/self/cgroup") as file:
            own = next(line[3:].strip() for line in file if line.startswith("0::"))
        with open("/proc/self/mounts") as file:
            mounts = (line.split() for line in file)
            root = next(fields[1] for fields in mounts if fields[2] == "cgroup2")
        parent = os.path.normpath(root + own)
        probe = os.path.join(parent, f"{_PREFIX}probe.{os.getpid()}")
        os.mkdir(probe)
        usable = os.access(os.path.join(probe, _KILL), os.W_OK) and os.access(
            f"{parent}/cgroup.procs", os.W_OK
        )
        os.rmdir(probe)
    except (OSError, StopIteration):
        return None
    return parent if usable else None
