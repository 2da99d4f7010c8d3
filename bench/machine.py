"""The machine a run was made on, in a few words."""

from __future__ import annotations

import os
import platform
import sqlite3
from pathlib import Path

import psutil


def describe() -> str:
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} cores ({_processor()}), {memory:.0f} GB, {platform.system()} {platform.release()},"
        f" SQLite {sqlite3.sqlite_version}"
    )


def load() -> str:
    return f"{os.getloadavg()[0]:.2f}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
