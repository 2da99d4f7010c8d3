"""CPU time, memory and order statistics."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterable, Sequence

import psutil


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the user and system time of these processes, including threads."""
    return sum(_cpu(pid) for pid in pids)


def _cpu(pid: int) -> float:
    if sys.platform == "linux":
        # clock_getcpuclockid(3): nanoseconds, where /proc/<pid>/stat counts in ticks of 10 ms
        return time.clock_gettime((~pid << 3) | 2)
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def resident(pids: Iterable[int]) -> float:
    """Return the resident memory in MB."""
    return sum(psutil.Process(pid).memory_info().rss for pid in pids) / 1e6


def descendants(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
