"""The released versions, oldest first. Every release adds a line here and its golden frames (see docs/faults.md)."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"


@dataclass(frozen=True, slots=True)
class Release:
    version: str
    commit: str
    protocol: int
    """The newest link protocol that it speaks."""

    @property
    def golden(self) -> Path:
        return GOLDEN / self.version


RELEASES = (Release("0.1.0", "a44adc5", protocol=2),)


class SourceMissing(Exception):
    """The source of a release cannot be had from this directory."""


def extract(release: Release, directory: Path) -> Path:
    """Write the source of a release below `directory` and return the path to import it from."""
    if shutil.which("git") is None:
        raise SourceMissing("git is not installed")
    archive = subprocess.run(
        ["git", "archive", release.commit, "src"], cwd=ROOT, capture_output=True, check=False, timeout=60
    )
    if archive.returncode:
        shallow = subprocess.run(
            ["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, check=False, timeout=60
        )  # fmt: skip
        if shallow.stdout.strip() == b"false":
            raise AssertionError(f"git has no commit {release.commit}: {archive.stderr.decode()}")
        raise SourceMissing(f"this clone does not have the history with release {release.version}")
    target = directory / release.version
    target.mkdir()
    subprocess.run(["tar", "-x", "-C", str(target)], input=archive.stdout, check=True, timeout=60)
    return target / "src"
