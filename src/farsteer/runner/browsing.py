"""Browsing the directories of this machine, to choose one for a new session. Only names of directories are shown."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path

from farsteer.core.api.files import MAX_ENTRIES, MAX_SCANNED, BrowsedDirectory, DirectoriesResponse
from farsteer.core.errors import ErrorCode, Unprocessable
from farsteer.runner.directories import SessionDirectories
from farsteer.runner.file_access import is_of_system, shown


def browse(directories: SessionDirectories, asked: str | None) -> DirectoriesResponse:
    """List what is in a directory. Raises Unprocessable if there is no such directory, or it may not be shown."""
    if asked is None and directories.roots:
        found = [_browsed(directories, root, str(root)) for root in directories.roots if root.is_dir()]
        return DirectoriesResponse(None, None, False, found[:MAX_ENTRIES], len(found) > MAX_ENTRIES)
    real = _real_path(directories, str(Path.home()) if asked is None else asked)
    try:
        names, truncated = _names(real)
    except OSError as error:
        message = f"the user of the runner may not read {asked!r}"
        raise Unprocessable(message, code=ErrorCode.FILE_UNREADABLE) from error
    places = (place for place in (real / name for name in names) if directories.may_show(place))
    listed = [_browsed(directories, place, place.name) for place in islice(places, MAX_ENTRIES + 1)]
    parent = real.parent
    return DirectoriesResponse(
        path=shown(str(real)),
        parent=shown(str(parent)) if parent != real and directories.may_show(parent) else None,
        allowed=directories.allows(str(real)),
        directories=listed[:MAX_ENTRIES],
        truncated=truncated or len(listed) > MAX_ENTRIES,
    )


def _real_path(directories: SessionDirectories, asked: str) -> Path:
    path = Path(os.path.expanduser(asked)) if "\0" not in asked else Path()
    if not path.is_absolute():
        raise Unprocessable(
            f"directory must be an absolute path, not {asked!r}", code=ErrorCode.DIRECTORY_NOT_ALLOWED
        )
    real = Path(os.path.realpath(path))
    if is_of_system(real) or not directories.may_show(real):
        raise Unprocessable(
            f"directory {asked} may not be shown: it is in Farsteer's home, a directory of the system, or outside of "
            "this machine's roots (runner.toml)",
            code=ErrorCode.DIRECTORY_NOT_ALLOWED,
        )
    if not real.is_dir():
        raise Unprocessable(f"directory {asked} does not exist", code=ErrorCode.DIRECTORY_MISSING)
    return real


def _names(directory: Path) -> tuple[list[str], bool]:
    with os.scandir(directory) as entries:
        first = [*islice(entries, MAX_SCANNED + 1)]
    return sorted(_directories(first[:MAX_SCANNED])), len(first) > MAX_SCANNED


def _directories(entries: Iterable[os.DirEntry[str]]) -> Iterable[str]:
    for entry in entries:
        with suppress(OSError):
            if entry.is_dir() and not is_of_system(Path(entry.path)):
                yield entry.name


def _browsed(directories: SessionDirectories, place: Path, name: str) -> BrowsedDirectory:
    return BrowsedDirectory(
        name=shown(name),
        path=shown(str(place)),
        allowed=directories.allows(str(place)) and os.access(place, os.R_OK | os.X_OK),
        repository=(place / ".git").exists() if os.access(place, os.X_OK) else False,
    )
