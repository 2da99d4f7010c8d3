"""The single writer of a database: a thread with group commit.

Jobs that arrive while a commit runs form the next transaction. Under load many jobs share one sync of the disk, and a
single job is committed at once. A job completes after its transaction is on disk.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from farsteer.core.errors import Unavailable
from farsteer.storage import free_space
from farsteer.storage.connection import connect
from farsteer.storage.failures import home_removed
from farsteer.storage.free_space import FreeSpace
from farsteer.storage.home import OpenedFile
from farsteer.storage.migrations import Migration, migrate

T = TypeVar("T")

_logger = logging.getLogger(__name__)

MAX_WAITING = 1024
"""The maximum number of incomplete jobs. `submit` waits while there are more."""
_MAX_BATCH = 1024


class _Job(Generic[T]):
    __slots__ = ("error", "future", "result", "then", "work")

    def __init__(
        self,
        work: Callable[[sqlite3.Connection], T],
        then: Callable[[T], None] | None,
        future: asyncio.Future[T],
    ) -> None:
        self.work = work
        self.then = then
        self.future = future
        self.error: BaseException | None = None
        self.result: Any = None

    def run(self, db: sqlite3.Connection) -> None:
        self.error = None
        self.result = self.work(db)

    def deliver(self) -> None:
        """Complete the job on the event loop. The commit stands even if the caller was cancelled."""
        if self.error is None and self.then is not None:
            try:
                self.then(self.result)
            except Exception:
                _logger.exception("callback after a commit failed")
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Writer:
    """Create it with `Writer.open`. All methods must be called on the event loop it was opened on."""

    def __init__(self, path: Path, migrations: Sequence[Migration], max_waiting: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        self._room = asyncio.Semaphore(max_waiting)
        self._closed = False
        self._erasures: set[asyncio.Future[None]] = set()
        """Requested and not finished. Used in the writer's thread only."""
        self._erasure_requested = False
        self._disk_failed = False
        self._path = path
        self.home_removed = asyncio.Event()
        """The file is gone or was replaced. Nothing is written any more."""
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(
            target=self._main, args=(migrations,), name=f"writer {path.name}", daemon=True
        )

    @classmethod
    async def open(
        cls, path: Path, migrations: Sequence[Migration] = (), *, max_waiting: int = MAX_WAITING
    ) -> Writer:
        """Open or create the database and apply missing migrations."""
        writer = cls(path, migrations, max_waiting)
        writer._thread.start()
        try:
            await writer._opened
        except BaseException:
            await writer.close()
            raise
        return writer

    async def submit(
        self, work: Callable[[sqlite3.Connection], T], then: Callable[[T], None] | None = None
    ) -> asyncio.Future[T]:
        """Queue `work` and return a future for its result. Jobs run in the order of submission.

        Args:
            work: runs in the writer's thread inside a transaction. It may run twice, so it must have no effect other
                than on the database.
            then: called on the event loop after the commit, in the order of submission and before the future completes.

        Raises Unavailable after `close`.
        """
        await self._room.acquire()
        if self._closed:
            self._room.release()
            raise Unavailable("the database is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Job(work, then, future))
        return future

    async def run(
        self, work: Callable[[sqlite3.Connection], T], then: Callable[[T], None] | None = None
    ) -> T:
        """Submit `work`, wait for the commit and return the result."""
        return await (await self.submit(work, then))

    async def erase(self) -> asyncio.Future[None]:
        """Let what was deleted so far disappear from the files, in the background. Returns at once.

        Returns:
            A future that is done when it has disappeared.
        """
        erased: asyncio.Future[None] = self._loop.create_future()

        def request(_: sqlite3.Connection) -> None:
            self._erasure_requested = True
            self._erasures.add(erased)

        await self.submit(request)
        return erased

    async def close(self) -> None:
        """Finish queued jobs and refuse new ones. Idempotent."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    def _deliver(self, jobs: list[_Job[Any]]) -> None:
        for job in jobs:
            job.deliver()
            self._room.release()

    # -- writer thread

    def _main(self, migrations: Sequence[Migration]) -> None:
        try:
            db = connect(self._path)
            try:
                migrate(db, migrations)
                free_space.prepare(db, self._path)
            except BaseException:
                db.close()
                raise
        except BaseException as error:  # noqa: BLE001
            self._loop.call_soon_threadsafe(_complete, self._opened, error)
            self._loop.call_soon_threadsafe(_complete, self._ended)
            return
        self._loop.call_soon_threadsafe(_complete, self._opened)
        try:
            self._serve(db, OpenedFile(self._path))
        finally:
            db.close()
            self._loop.call_soon_threadsafe(_complete, self._ended)

    def _serve(self, db: sqlite3.Connection, file: OpenedFile) -> None:
        space = FreeSpace(db)
        # A process that was killed may have left an erasure unfinished.
        space.erase()
        last = False
        while not last:
            batch: list[_Job[Any]] = []
            try:
                last = self._collect(space, batch)
                if batch and file.is_there:
                    self._commit(db, batch)
                elif batch:
                    self._loop.call_soon_threadsafe(self.home_removed.set)
                    _fail(batch, home_removed(self._path))
            except Exception as error:
                # A lack of memory, for example. Without this thread nothing would ever be stored again.
                _logger.exception("the writer of %s failed", self._path)
                _fail(batch, error)
            if batch:
                self._loop.call_soon_threadsafe(self._deliver, batch)

    def _collect(self, space: FreeSpace, batch: list[_Job[Any]]) -> bool:
        """Wait for a job and add it to `batch` with those that wait behind it. Returns True after the last one."""
        job = self._next_job(space)
        while job is not None:
            batch.append(job)
            if len(batch) == _MAX_BATCH:
                return False
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return False
        return True

    def _next_job(self, space: FreeSpace) -> _Job[Any] | None:
        """Wait for a job, and give back free space meanwhile."""
        while True:
            if self._disk_failed:
                self._disk_failed = False
                space.release_log()
            if self._erasure_requested:
                self._erasure_requested = False
                space.erase()
            if not self._jobs.empty() and not space.is_overdue:
                return self._jobs.get()
            delay = space.step()
            if delay is None:
                self._finish_erasures()
            with suppress(Empty):
                if delay != 0:
                    return self._jobs.get(timeout=delay)

    def _finish_erasures(self) -> None:
        for erased in self._erasures:
            self._loop.call_soon_threadsafe(_complete, erased)
        self._erasures.clear()

    def _commit(self, db: sqlite3.Connection, batch: list[_Job[Any]]) -> None:
        try:
            if not _run_in_one_transaction(db, batch):
                _run_in_savepoints(db, batch)
        except BaseException as error:  # noqa: BLE001
            # The transaction itself failed, for example on a full disk: no job of the batch is stored.
            _fail(batch, error)
            self._disk_failed = isinstance(error, sqlite3.OperationalError)
            if db.in_transaction:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")


def _fail(batch: list[_Job[Any]], error: BaseException) -> None:
    for job in batch:
        job.error = job.error or error


def _run_in_one_transaction(db: sqlite3.Connection, batch: list[_Job[Any]]) -> bool:
    """Run all jobs in one transaction. Returns False after a rollback, if a job failed after changing something."""
    db.execute("BEGIN IMMEDIATE")
    for job in batch:
        before = db.total_changes
        try:
            job.run(db)
        except BaseException as error:  # noqa: BLE001
            if db.total_changes != before or not db.in_transaction:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                return False
            job.error = error
    db.execute("COMMIT")
    return True


def _run_in_savepoints(db: sqlite3.Connection, batch: list[_Job[Any]]) -> None:
    """Run all jobs in one transaction with a savepoint for each, so that a failing job undoes only its own changes."""
    db.execute("BEGIN IMMEDIATE")
    for job in batch:
        db.execute("SAVEPOINT job")
        try:
            job.run(db)
        except BaseException as error:
            job.error = error
            if not db.in_transaction:
                raise
            db.execute("ROLLBACK TO job")
        db.execute("RELEASE job")
    db.execute("COMMIT")


def _complete(future: asyncio.Future[None], error: BaseException | None = None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
