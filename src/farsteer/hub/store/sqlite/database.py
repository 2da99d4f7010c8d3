"""The database of a store: changes in transactions of one writer, which publish their events, and reads."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from farsteer.core.clock import Clock
from farsteer.core.errors import FarsteerError
from farsteer.hub.feed import Feed
from farsteer.hub.store.sqlite.epoch import EpochFile, OpenedEpoch
from farsteer.hub.store.sqlite.repair import MAX_REPAIRS, Repairs
from farsteer.hub.store.sqlite.transaction import Transaction
from farsteer.storage.failures import home_removed, translated
from farsteer.storage.quarantine import DamagedRow
from farsteer.storage.readers import Readers
from farsteer.storage.writer import Writer

T = TypeVar("T")


class StoreDatabase:
    def __init__(
        self, path: Path, writer: Writer, readers: Readers, feed: Feed, epoch: OpenedEpoch, clock: Clock
    ) -> None:
        self._path = path
        self._writer = writer
        self._readers = readers
        self._feed = feed
        self._epoch = epoch.epoch
        self._epoch_is_final = epoch.is_new
        """The epoch changes at most once while the store is open (see `epoch`)."""
        self._epoch_file = EpochFile(path)
        self._clock = clock
        self._repairs = Repairs(path)

    async def failure(self) -> FarsteerError:
        await self._writer.home_removed.wait()
        return home_removed(self._path)

    @property
    def epoch(self) -> str:
        return self._epoch

    async def _submit(self, work: Callable[[Transaction], T]) -> asyncio.Future[T]:
        tx: Transaction
        damaged: list[DamagedRow] = []

        def job(db: sqlite3.Connection) -> T:
            nonlocal tx
            tx = Transaction(db, self._epoch, self._clock())
            return self._repairs.run(tx, work, damaged)

        def publish(_: T) -> None:
            if tx.begins_epoch:
                self._epoch, self._epoch_is_final = tx.epoch, True
                self._epoch_file.write(tx.epoch, 0)
                self._feed.begin_epoch()
            if tx.published:
                self._feed.publish(tx.published)
                self._epoch_file.record(self._epoch, tx.published[-1].cursor or 0)
            if tx.announced:
                self._feed.publish(tx.announced)

        return await self._writer.submit(job, publish)

    async def _change(self, work: Callable[[Transaction], T]) -> T:
        try:
            return await (await self._submit(work))
        except sqlite3.DatabaseError as error:
            raise translated(error, self._path) from error

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        for _ in range(MAX_REPAIRS):
            try:
                return await self._readers.run(work)
            except DamagedRow as error:
                damaged = error
            except sqlite3.DatabaseError as error:
                raise translated(error, self._path) from error
            except FileNotFoundError as error:
                raise home_removed(self._path) from error
            await self._change(lambda tx, row=damaged: self._repairs.replace(tx, row))
        return await self._readers.run(work)
