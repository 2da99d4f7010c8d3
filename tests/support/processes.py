"""Finds processes that a test left behind."""

import os
import sys
import time
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

import psutil

GRACE = 2.0


def started_here(workspace: Path) -> set[psutil.Process]:
    """Living descendants of this process, and orphans that still work in a directory of its tests.

    An orphan of a killed agent has another parent by then, but it keeps its working directory.
    """
    if sys.platform == "linux":
        return _started_here(workspace)
    found = set(psutil.Process().children(recursive=True))
    mine = os.getuid()
    for process in psutil.process_iter():
        try:
            if process.uids().real == mine and Path(process.cwd()).is_relative_to(workspace):
                found.add(process)
        except psutil.Error:
            continue
    found.discard(psutil.Process())
    return {process for process in found if is_alive(process)}


def _started_here(workspace: Path) -> set[psutil.Process]:
    """The same from /proc, in a quarter of the time. Every test calls it twice."""
    own, folder = os.getpid(), str(workspace)
    parents: dict[int, int] = {}
    found: set[int] = set()
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                state, parent, *_ = file.read(512).rpartition(b")")[2].split(None, 2)
            if state in (b"Z", b"X"):
                continue
            parents[pid] = int(parent)
            cwd = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            continue
        if cwd == folder or cwd.startswith(f"{folder}/"):
            found.add(pid)
    family = {own}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    living: set[psutil.Process] = set()
    for pid in (found | family) - {own}:
        with suppress(psutil.Error):
            living.add(psutil.Process(pid))
    return living


def is_alive(process: psutil.Process) -> bool:
    """Return False for a zombie as well: Python's ResourceWarning reports those."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def left_behind(
    workspace: Path, before: Set[psutil.Process] = frozenset(), grace: float = GRACE
) -> list[psutil.Process]:
    """Return processes started since `before` that still run after a short grace period."""
    deadline = time.monotonic() + grace
    while True:
        leftovers = started_here(workspace) - before
        if not leftovers or time.monotonic() >= deadline:
            return sorted(leftovers, key=lambda process: process.pid)
        time.sleep(0.02)


def describe(processes: list[psutil.Process]) -> str:
    lines: list[str] = []
    for process in processes:
        try:
            command = " ".join(process.cmdline())
            lines.append(f"  {process.pid}: {command} (in {process.cwd()}, child of {process.ppid()})")
        except psutil.Error:
            lines.append(f"  {process.pid}: gone while we looked")
    return "\n".join(lines)


def kill(processes: list[psutil.Process]) -> None:
    """Kill them, so that they are not reported again for the next test."""
    for process in processes:
        try:
            process.kill()
        except psutil.Error:
            continue
    psutil.wait_procs(processes, timeout=GRACE)
