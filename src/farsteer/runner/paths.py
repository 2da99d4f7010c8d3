"""Paths, and names of files as text for JSON: a name may have any bytes, also line feeds and none of UTF-8."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from farsteer.core.worktrees import LISTED

_MAX_BYTES = 24 * 1024
"""How long the names together may be in the details of an error."""


def real_path(path: str | Path) -> str:
    return os.path.realpath(path)


def is_directory(path: str | Path) -> bool:
    return os.path.isdir(path)


def exists(path: str | Path) -> bool:
    """Return whether there is anything, also a link that leads nowhere."""
    return os.path.lexists(path)


def are_same(path: str | Path, other: str | Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def shown(name: str) -> str:
    """Return a name as git gave it, with bytes that are not UTF-8 as `\\xNN`."""
    return os.fsencode(name).decode(errors="backslashreplace")


def shown_names(names: Iterable[str]) -> list[str]:
    return [shown(name) for name in names]


def bounded_names(names: Sequence[str]) -> list[str]:
    """Return the first names, as many as an error may carry."""
    kept: list[str] = []
    size = 0
    for name in names[:LISTED]:
        size += len(name.encode())
        if size > _MAX_BYTES:
            break
        kept.append(name)
    return kept
