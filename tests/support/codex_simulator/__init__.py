"""A program that behaves like `codex app-server`, and shows faults on request.

It keeps its threads on disk where Codex does, in a format of its own, and follows the commands in the user's text:
`python -m tests.support.codex_simulator --help` lists them. `install` makes an executable of it.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[3]


def install(folder: Path) -> str:
    """Write an executable that runs the simulator and return its path."""
    path = folder / "codex"
    command = [sys.executable, "-m", __name__]
    path.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(_ROOT))} exec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)
    return str(path)
