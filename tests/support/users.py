"""Runs programs as an ordinary user, also if the tests run as root, which may read everything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534

_SOURCES = Path(__file__).parents[2] / "src"
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_PROBE = (
    "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import farsteer, msgspec'], check=True)"
)


class OrdinaryUser:
    """A user without privileges: the one who runs the tests, or nobody if that is root."""

    def __init__(self, home: Path, prefix: list[str], python: str) -> None:
        self.home = home
        self.prefix = prefix
        """What to put in front of a command line to run it as this user."""
        self.python = python
        """A Python that this user can run and that has Farsteer."""


@contextmanager
def ordinary_user() -> Iterator[OrdinaryUser]:
    """Make a home for the user. Skips the test if there is no Python that the user can run."""
    # Not in a directory of pytest: those are closed to other users.
    with tempfile.TemporaryDirectory(prefix="farsteer-") as name:
        if os.geteuid() != 0:
            yield OrdinaryUser(Path(name), [], sys.executable)
            return
        directory = Path(name)
        directory.chmod(0o755)
        home = directory / "home"
        home.mkdir(mode=0o700)
        os.chown(home, NOBODY, NOBODY)
        prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
        python = _find_python(prefix, directory)
        if python is None:
            pytest.skip("an ordinary user cannot run this Python")
        yield OrdinaryUser(home, prefix, python)


def _find_python(prefix: list[str], directory: Path) -> str | None:
    """Return this Python, or a virtual environment of the system's Python if root has this one for itself."""
    if shutil.which(prefix[0]) is None:
        return None
    candidates = [sys.executable]
    system = shutil.which(_VERSION, path="/usr/local/bin:/usr/bin")
    if system is not None:
        candidates.append(_make_environment(system, directory / "python"))
    for python in candidates:
        if subprocess.run([*prefix, python, "-c", _PROBE], check=False, capture_output=True).returncode == 0:
            return python
    return None


def _make_environment(python: str, directory: Path) -> str:
    packages = directory / "lib" / _VERSION / "site-packages"
    packages.mkdir(parents=True)
    (packages / "tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n{_SOURCES}\n")
    (directory / "pyvenv.cfg").write_text(f"home = {Path(python).parent}\n")
    (directory / "bin").mkdir()
    (directory / "bin" / "python").symlink_to(python)
    return str(directory / "bin" / "python")
