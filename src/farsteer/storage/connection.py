"""How we open SQLite: write-ahead log, every commit on the disk before it counts, files for the owner only."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

_PRAGMAS = (
    "PRAGMA busy_timeout = 5000",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -8000",
)
# A checkpoint writes each changed page once: rarer ones write hot pages less often. 16 MB of log is read in no time.
_WRITER_PRAGMAS = ("PRAGMA wal_autocheckpoint = 4000", "PRAGMA journal_size_limit = 33554432")


def connect(path: Path, *, query_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode: transactions are begun and ended by name.

    It is not bound to a thread, so that its owner may close it from another one; it is used from one at a time.
    """
    _create_private(path)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        for pragma in _PRAGMAS if query_only else (*_PRAGMAS, *_WRITER_PRAGMAS):
            connection.execute(pragma)
        if query_only:
            connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _create_private(path: Path) -> None:
    """SQLite gives its log files the mode of the database, so it is enough to create that one right."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
