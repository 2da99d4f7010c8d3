"""How tests open and crash a SQLite store."""

import asyncio
import shutil
from pathlib import Path

from farsteer.hub.feed import Feed
from farsteer.hub.store.base import Store
from farsteer.hub.store.sqlite.store import SqliteStore


class SqliteFactory:
    """Crashing copies the files as they are, without a checkpoint, and continues with the copy."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._crashes = 0

    @property
    def path(self) -> Path:
        return self._directory / str(self._crashes) / "hub.db"

    async def open(self, feed: Feed) -> SqliteStore:
        self.path.parent.mkdir(exist_ok=True)
        return await SqliteStore.open(self.path, feed)

    async def crash(self, store: Store) -> None:
        crashed = self.path.parent
        self._crashes += 1
        await asyncio.to_thread(_copy, crashed, self.path.parent)
        await store.close()


def _copy(source: Path, target: Path) -> None:
    """Copy the log first: a checkpoint may begin at any time, and moves what is in the log to the database."""
    target.mkdir()
    for name in ("hub.db-wal", "hub.db"):
        if (source / name).exists():
            shutil.copyfile(source / name, target / name)
