"""What a failing database means to a person: a damaged file, a full disk, a home directory that is gone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from farsteer.core.errors import ErrorCode, FarsteerError, Unavailable

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def translated(error: sqlite3.Error, path: Path) -> Exception:
    """Return `storage_error` if the file or its disk failed. Any other error is a defect of the program."""
    if isinstance(error, sqlite3.OperationalError) or _code(error) in _DAMAGED:
        return storage_error(error, path)
    return error


def storage_error(error: sqlite3.Error, path: Path) -> FarsteerError:
    """Return an error that says what happened to the database at `path`, and what to do."""
    code = _code(error)
    if code in _DAMAGED:
        return Unavailable(
            f"{path} is damaged ({error}): stop Farsteer, then restore a backup with `farsteer restore`, or move"
            f" {path.name}, {path.name}-wal and {path.name}-shm aside to begin with an empty one",
            code=ErrorCode.DATABASE_DAMAGED,
        )
    if code == sqlite3.SQLITE_FULL:
        return Unavailable(
            f"the disk of {path} is full: free some space there; nothing is stored until then",
            code=ErrorCode.DISK_FULL,
        )
    return Unavailable(f"{path} cannot be used: {error}")


def home_removed(path: Path) -> FarsteerError:
    """Return the error for a file of the home that is not there any more, or is another one now."""
    return Unavailable(
        f"{path} was removed or replaced while it was in use: whatever is written now would be lost. Put"
        f" {path.parent} back and start Farsteer again, or start it without to begin with an empty one",
        code=ErrorCode.HOME_REMOVED,
    )


def _code(error: sqlite3.Error) -> int:
    """Return the primary result code; an extended one has more in its upper bits."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
