"""A short description of the machine."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from pathlib import Path

import psutil


def describe() -> str:
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} cores ({_processor()}), {memory:.0f} GB, {platform.system()} {platform.release()},"
        f" SQLite {sqlite3.sqlite_version}"
    )


class Neighbours:
    """CPU share of other programs since construction. Our own children count once they are reaped."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._busy = _busy() - _own()

    def share(self) -> float:
        seconds = time.monotonic() - self._begin
        return max(0.0, _busy() - _own() - self._busy) / seconds / (os.cpu_count() or 1)


def _busy() -> float:
    """Return the CPU seconds that all processes have used."""
    times = psutil.cpu_times()
    return times.user + times.system


def _own() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
