"""Readers of a database: a few threads, each with its own connection that cannot write."""

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

T = TypeVar("T")


class Readers:
    """Reads see every commit that was answered before they were asked, and never wait for the writer."""

    def __init__(self, path: Path, threads: int = 2) -> None:
        self._path = path
        self._closed = False
        self._own = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._pool = ThreadPoolExecutor(threads, f"reader {path.name}")

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` reads, in one snapshot."""
        if self._closed:
            raise Unavailable("the database is closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, work)

    async def close(self) -> None:
        """Wait for the reads that run. Idempotent."""
        self._closed = True
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
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
        db: sqlite3.Connection | None = getattr(self._own, "db", None)
        if db is None:
            db = self._own.db = connect(self._path, query_only=True)
            self._connections.append(db)
        return db
