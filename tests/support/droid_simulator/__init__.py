"""A program that behaves like Droid, in several of its versions, and shows faults on request.

It uses the face's protocol, keeps its sessions on disk where Droid does, and follows the commands in the user's text:
`python -m tests.support.droid_simulator --help` lists them. `install` makes an executable of it.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[3]


def install(folder: Path, profile: str, *options: str) -> str:
    """Write an executable that runs the simulator in this version, with these options, and return its path."""
    path = folder / f"droid-{profile}"
    command = [sys.executable, "-m", __name__, "--profile", profile, *options]
    path.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(_ROOT))} exec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)
    return str(path)
