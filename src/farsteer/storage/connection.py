"""SQLite connections: write-ahead log, synchronous commits, files readable by the owner only."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from farsteer.storage.home import check_private, open_private

_PRAGMAS = (
    "PRAGMA busy_timeout = 5000",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -8000",
)
# A checkpoint writes each changed page once, so fewer checkpoints write hot pages less often.
_WRITER_PRAGMAS = ("PRAGMA wal_autocheckpoint = 4000", "PRAGMA journal_size_limit = 33554432")


def connect(path: Path, *, query_only: bool = False) -> sqlite3.Connection:
    """Open a connection in autocommit mode. Callers begin and end transactions explicitly.

    The connection is not bound to a thread, so another thread may close it. Use it from one thread at a time.
    A missing database is created, unless it is opened with `query_only`.
    """
    if query_only:
        # Closing a descriptor of the file would release the locks of all other connections of this process. Then a
        # program that looks at the database would remove its write-ahead log, and with it all that is committed later.
        check_private(path)
    else:
        os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        if path.stat().st_size == 0:
            # Before anything else that writes to a new database (see `free_space`).
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        for pragma in _PRAGMAS if query_only else (*_PRAGMAS, *_WRITER_PRAGMAS):
            connection.execute(pragma)
        if query_only:
            connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection
