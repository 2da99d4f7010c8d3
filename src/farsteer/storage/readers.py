"""A small pool of reader threads, each with its own read-only connection."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from farsteer.core.errors import Unavailable
from farsteer.storage.connection import connect
from farsteer.storage.failures import home_removed
from farsteer.storage.home import OpenedFile

T = TypeVar("T")


class Readers:
    """Runs reads in threads. A read sees every commit that completed before it was requested."""

    def __init__(self, path: Path, threads: int = 2) -> None:
        self._path = path
        self._file = OpenedFile(path)
        self._closed = False
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._pool = ThreadPoolExecutor(threads, f"reader {path.name}")

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one snapshot, return its result. Raises Unavailable after `close`, and if the file is gone."""
        if self._closed:
            raise Unavailable("the database is closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, work)

    async def close(self) -> None:
        """Wait for running reads and close the connections. Idempotent."""
        self._closed = True
        await asyncio.to_thread(self._shut_down)

    def _shut_down(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for connection in self._connections:
            connection.close()

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        db = self._connection()
        db.execute("BEGIN")
        try:
            return work(db)
        finally:
            if db.in_transaction:
                db.execute("COMMIT")

    def _connection(self) -> sqlite3.Connection:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is None:
            if not self._file.is_there:
                # Opening another database that is there now could change it.
                raise home_removed(self._path)
            db = self._local.db = connect(self._path, query_only=True)
            self._connections.append(db)
        return db
