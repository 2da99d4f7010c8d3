"""Installs the pinned aider, with locked and hashed packages, into an environment of its own in the vendor cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.vendor.install import CACHE, TIMEOUT, InstallFailed, locked

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
PYTHON = ">=3.11,<3.13"
"""What aider runs with."""


def version() -> str:
    lines = REQUIREMENTS.read_text().splitlines()
    return next(line.split()[0] for line in lines if line.startswith("aider-chat==")).partition("==")[2]


def program(cache: Path = CACHE) -> Path:
    """Return the path of the installed program."""
    return _place(cache) / "bin" / "aider"


def is_installed(cache: Path = CACHE) -> bool:
    return (_place(cache) / ".installed").exists()


def install(cache: Path = CACHE) -> Path:
    """Return the pinned program, and install it if it is missing. Raises InstallFailed."""
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / f".{_place(cache).name}.lock"):
        if not is_installed(cache):
            # In its place from the start: an environment cannot be moved. The mark says that it is complete.
            place, uv = _place(cache), str(Path(sys.executable).with_name("uv"))
            _run(uv, "venv", "--clear", "--python", PYTHON, str(place))
            _run(
                uv, "pip", "sync", "--require-hashes", "--python", str(place / "bin" / "python"), str(REQUIREMENTS)
            )  # fmt: skip
            (place / ".installed").touch()
    return program(cache)


def _place(cache: Path) -> Path:
    return cache / f"aider-{version()}"


def _run(*argv: str) -> None:
    command = [*argv, "--quiet", "--no-config"]
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise InstallFailed(f"uv took more than {TIMEOUT:g} s") from error
    if ran.returncode != 0:
        raise InstallFailed(ran.stderr.strip())
