"""Looks at a database from outside, whether or not a process uses it. Changes nothing in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from farsteer.storage.failures import storage_error
from farsteer.storage.free_space import size_of

_STEPS_PER_LOOK = 10_000
"""After how many steps of SQLite the clock is looked at."""


@dataclass(frozen=True, slots=True)
class Inspection:
    size: int
    """Bytes of the file and of its write-ahead log."""
    problem: str | None = None
    """Why it cannot be used, and what to do."""
    is_whole: bool = True
    """False if there was not enough time to check all of it."""


def inspect(path: Path, seconds: float = 2.0) -> Inspection:
    """Check a database for at most about `seconds`. Raises FileNotFoundError."""
    path.stat()
    size = size_of(path)
    deadline = monotonic() + seconds
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=1.0)) as db:
            db.set_progress_handler(lambda: monotonic() > deadline, _STEPS_PER_LOOK)
            found = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
            if found != "ok":
                return Inspection(size, str(storage_error(_malformed(found), path)))
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
            return Inspection(size, is_whole=False)
        return Inspection(size, str(storage_error(error, path)))
    return Inspection(size)


def _malformed(finding: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(finding)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error
