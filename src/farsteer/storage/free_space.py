"""Gives the space of deleted rows back to the file system, and erases what was in it.

SQLite keeps the pages of deleted rows in the file for later use, with their contents, and its write-ahead log repeats
them. The writer moves free pages out of the file in small steps while it has nothing else to do.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from farsteer.storage.connection import connect

_logger = logging.getLogger(__name__)

_INCREMENTAL = 2
_MAX_CONVERTED_BYTES = 32 * 1024 * 1024
"""A larger database of an earlier version is not converted when it is opened: that would take seconds."""
_MAX_FREE_PAGES = 1024
_KEPT_FREE_PAGES = 256
_STEP_PAGES = 128
"""How many pages one step moves at most."""
_FIRST_STEP_PAGES = 16
_STEP_SECONDS = 0.01
"""How long a step should take, and how long a job may have to wait for it. A slow disk gets smaller steps."""
_CHECKPOINT_PAGES = 512
_RETRY_SECONDS = 0.1
_MAX_DELAY_SECONDS = 0.25
"""How long a busy writer may put off the next step of an erasure."""


def prepare(db: sqlite3.Connection, path: Path) -> None:
    """Let a database give back its free pages. One of an earlier version is rewritten for that, unless it is large."""
    if _read(db, "auto_vacuum") != _INCREMENTAL:
        size = _read(db, "page_count") * _read(db, "page_size")
        if size <= _MAX_CONVERTED_BYTES:
            try:
                db.execute("PRAGMA auto_vacuum = INCREMENTAL")
                db.execute("VACUUM")
            except sqlite3.Error as error:
                _logger.warning("%s: cannot be rewritten: %s", path, error)
        else:
            _logger.warning(
                "%s has %d MiB and was made by an earlier version: it does not shrink after deletions. To change that,"
                " stop Farsteer and run `farsteer hub compact` if it is a hub's, else:"
                " sqlite3 %s 'PRAGMA auto_vacuum = INCREMENTAL; VACUUM'",
                path, size // 1024**2, path,
            )  # fmt: skip
    # In a file that shrinks, only what stays in it has to be overwritten.
    shrinks = _read(db, "auto_vacuum") == _INCREMENTAL
    db.execute(f"PRAGMA secure_delete = {'FAST' if shrinks else 'ON'}")


class Space(NamedTuple):
    free_bytes: int
    shrinks: bool
    """Free pages can be given back."""


def read_space(db: sqlite3.Connection) -> Space:
    free = _read(db, "freelist_count") * _read(db, "page_size")
    return Space(free, _read(db, "auto_vacuum") == _INCREMENTAL)


def size_of(path: Path) -> int:
    """Return the bytes of a database and of its write-ahead log on the disk."""
    log = path.with_name(f"{path.name}-wal")
    return sum(file.stat().st_size for file in (path, log) if file.exists())


def rewrite(path: Path) -> None:
    """Let a database of an earlier version give back space from now on. It takes seconds per gigabyte.

    The caller must hold the lock of the home.
    """
    with closing(connect(path)) as db:
        if _read(db, "auto_vacuum") != _INCREMENTAL:
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            db.execute("VACUUM")


class FreeSpace:
    """Used in the writer's thread, outside of transactions."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._shrinks = _read(db, "auto_vacuum") == _INCREMENTAL
        self._limit = _MAX_FREE_PAGES
        self._moved = 0
        self._pages = _FIRST_STEP_PAGES
        """How many pages the next step moves."""
        self._truncates = False
        """The log has to be written back and emptied."""
        self._last_step = monotonic()

    def erase(self) -> None:
        """Remove all free pages, and the log with them. What was deleted is in none of the files afterwards."""
        self._limit, self._truncates = 0, True

    def release_log(self) -> None:
        """Empty the log as soon as possible: on a full disk that makes room."""
        self._truncates = True

    @property
    def is_overdue(self) -> bool:
        """Whether a step should be done although jobs wait."""
        return self._truncates and monotonic() - self._last_step > _MAX_DELAY_SECONDS

    def step(self) -> float | None:
        """Do a bounded amount of work. Return after how many seconds to go on, or None if there is nothing to do."""
        try:
            return self._step()
        except (sqlite3.Error, MemoryError) as error:
            # A full disk, for example. The next step comes after the next job.
            _logger.warning("cannot give back free space: %s", error)
            return None
        finally:
            self._last_step = monotonic()

    def _step(self) -> float | None:
        if self._moved >= _CHECKPOINT_PAGES:
            # Or else a later commit would have to write all of it back.
            self._moved = 0
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            return 0
        if self._shrinks and _read(self._db, "freelist_count") > self._limit:
            self._limit, self._truncates = min(self._limit, _KEPT_FREE_PAGES), True
            self._moved += self._pages
            began = monotonic()
            # `execute` would move one page only: this statement moves a page with each row, and its rows are empty.
            self._db.executescript(f"PRAGMA incremental_vacuum({self._pages})")
            self._adjust(monotonic() - began)
            return 0
        if self._truncates:
            if not self._truncate_log():
                return _RETRY_SECONDS
            self._limit, self._truncates, self._moved = _MAX_FREE_PAGES, False, 0
        return None

    def _adjust(self, seconds: float) -> None:
        """Let the next step take about `_STEP_SECONDS`."""
        if seconds > _STEP_SECONDS:
            self._pages = max(4, self._pages // 2)
        elif seconds < _STEP_SECONDS / 3:
            self._pages = min(_STEP_PAGES, self._pages * 2)

    def _truncate_log(self) -> bool:
        """Return False if a reader still needs the log. Does not wait for it."""
        self._db.execute("PRAGMA busy_timeout = 0")
        try:
            [(busy, _, _)] = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._db.execute("PRAGMA busy_timeout = 5000")
        return not busy


def _read(db: sqlite3.Connection, pragma: str) -> int:
    return int(db.execute(f"PRAGMA {pragma}").fetchone()[0])
