"""Measures events per CPU second of our adapter and of Factory's SDK, alternately, on the same stream."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.measure import median
from bench.peers.base import Unavailable
from bench.progress import say

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REQUIREMENTS = HERE / "requirements.txt"
SECONDS = 300


@dataclass(frozen=True, slots=True)
class Flood:
    """Events per CPU second of the reading process, and the version of the SDK."""

    ours: float
    sdk: float
    version: str


def measure_flood(events: int, rounds: int) -> Flood:
    python = sdk_python()
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        droid = _simulator(Path(folder))
        for _ in range(rounds):
            ours.append(_read([sys.executable, "-m", "bench.droid.ours"], droid, events))
            theirs.append(_read([str(python), str(HERE / "sdk.py")], droid, events))
    found = Flood(median(ours), median(theirs), _version())
    say(f"droid flood: {found.ours:,.0f} events per CPU second, droid-sdk {found.sdk:,.0f}")
    return found


def _read(argv: list[str], droid: Path, events: int) -> float:
    done = subprocess.run(
        [*argv, str(droid), str(events)],
        cwd=ROOT,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        start_new_session=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{argv}: {done.stderr}")
    characters, cpu = done.stdout.split()
    # All deltas have the same text, so a reader that dropped one has fewer characters.
    if int(characters) % events:
        raise RuntimeError(f"{argv}: {characters} characters are not {events} deltas")
    return events / float(cpu)


def _simulator(folder: Path) -> Path:
    """Write an executable named droid that runs the simulator."""
    path = folder / "droid"
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m tests.support.droid_simulator "$@"\n'
    )
    path.chmod(0o700)
    return path


def _version() -> str:
    return (HERE / "requirements.in").read_text().strip().partition("==")[2]


def sdk_home() -> Path:
    """Return the folder of the SDK's own virtual environment, in a cache outside the repository."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "farsteer-bench" / f"droid-sdk-{_version()}"


def sdk_python(home: Path | None = None) -> Path:
    """Return the Python of the SDK's environment, which is installed if it is missing. Raises Unavailable."""
    home = home or sdk_home()
    python = home / "bin" / "python"
    done = home / ".installed"
    if not done.exists():
        say(f"installing droid-sdk {_version()} into {home}")
        uv = str(Path(sys.executable).with_name("uv"))
        for argv in (
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)],
            [uv, "pip", "sync", "--quiet", "--require-hashes", "--python", str(python), str(REQUIREMENTS)],
        ):
            ran = subprocess.run(
                argv,
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                start_new_session=True,
            )
            if ran.returncode != 0:
                raise Unavailable(f"droid-sdk cannot be installed: {ran.stderr.strip()}")
        done.touch()
    return python
