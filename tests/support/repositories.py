"""Real git repositories for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(where: Path | str, *args: str) -> str:
    """Run git as a person would, and return its output."""
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgSign=false")
    done = subprocess.run(["git", *identity, *args], cwd=where, check=True, capture_output=True)
    return done.stdout.decode(errors="surrogateescape").strip()


def make_repository(path: Path) -> Path:
    """Make a repository with the branch `main` and two files."""
    path.mkdir(parents=True, exist_ok=True)
    git(path, "init", "-q", "-b", "main")
    commit(path, "first", **{"a.txt": "one\ntwo\nthree\n", "b.txt": "b\n"})
    return path


def commit(where: Path | str, message: str, **files: str) -> str:
    """Write files, commit everything and return the commit."""
    for name, text in files.items():
        (Path(where) / name).write_text(text)
    git(where, "add", "-A")
    git(where, "commit", "-q", "--allow-empty", "-m", message)
    return git(where, "rev-parse", "HEAD")


def snapshot(where: Path | str) -> tuple[str, ...]:
    """Return everything that a failed change must leave as it was: branches, index, files and unfinished operations."""
    files = sorted(
        (str(path.relative_to(where)), path.read_bytes())
        for path in Path(where).rglob("*")
        if path.is_file() and ".git" not in path.relative_to(where).parts
    )
    return (
        git(where, "for-each-ref"), git(where, "rev-parse", "HEAD"), git(where, "symbolic-ref", "-q", "HEAD"),
        git(where, "ls-files", "--stage"), git(where, "status", "--porcelain"), repr(files),
    )  # fmt: skip
