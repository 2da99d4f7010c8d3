"""A program that behaves as Droid does, in several of its versions, and misbehaves on request.

It speaks the face's vocabulary, keeps its sessions on disk where Droid does, and does what the user's text says:
`python -m tests.support.droid_simulator --help` lists it. `install` makes an executable of it, to be found as `droid`.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[3]


def install(folder: Path, profile: str, *options: str) -> str:
    """The path of an executable that is this simulator in that version. `options` are those of its command line."""
    path = folder / f"droid-{profile}"
    command = [sys.executable, "-m", __name__, "--profile", profile, *options]
    path.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(_ROOT))} exec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)
    return str(path)
