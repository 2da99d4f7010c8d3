"""SQLite writers and readers that can be killed. The inline ones use no threads, so that runs are reproducible."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from farsteer.core.errors import Unavailable
from farsteer.storage.connection import connect
from farsteer.storage.migrations import Migration, migrate
from farsteer.storage.readers import Readers
from farsteer.storage.writer import MAX_WAITING, Writer

T = TypeVar("T")


class InlineWriter(Writer):
    """Does the same jobs with the same group commit in the event loop. Does not wait for the disk."""

    def __init__(self, path: Path, migrations: Sequence[Migration], max_waiting: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(max_waiting)
        self._closed = False
        self._path = path
        self.home_removed = asyncio.Event()
        self._erasures = set()
        self._waiting: list[Any] = []
        self._jobs = self  # pyright: ignore[reportAttributeAccessIssue]
        self._db = connect(path)
        self._db.execute("PRAGMA synchronous = OFF")
        migrate(self._db, migrations)

    @classmethod
    async def open(
        cls, path: Path, migrations: Sequence[Migration] = (), *, max_waiting: int = MAX_WAITING
    ) -> InlineWriter:
        return cls(path, migrations, max_waiting)

    def put(self, job: Any) -> None:
        self._waiting.append(job)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        batch, self._waiting = self._waiting, []
        if batch:
            self._commit(self._db, batch)
            self._loop.call_soon(self._deliver, batch)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._drain()
            self._db.close()
        await asyncio.sleep(0)

    def crash(self, *, lose: bool) -> None:
        """Stop as by SIGKILL. What was being committed is lost if `lose` is set; nobody is notified either way."""
        if not self._closed:
            self._closed = True
            batch, self._waiting = self._waiting, []
            if batch and not lose:
                self._commit(self._db, batch)
            self._db.close()


class KillableWriter(Writer):
    """The ordinary writer with its thread. A crash drops the waiting jobs if `lose` is set."""

    def crash(self, *, lose: bool) -> None:
        if not self._closed:
            self._closed = True
            while lose and not self._jobs.empty():
                self._jobs.get()
            self._jobs.put(None)
            self._thread.join()


class KillableReaders(Readers):
    def crash(self) -> None:
        self._closed = True
        self._shut_down()


class InlineReaders(Readers):
    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        await asyncio.sleep(0)
        if self._closed:
            raise Unavailable("the database is closed")
        return self._read(work)

    async def close(self) -> None:
        self.crash()

    def crash(self) -> None:
        self._closed = True
        self._shut_down()
