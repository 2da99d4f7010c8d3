"""How tests open and crash a SQLite store."""

import asyncio
from pathlib import Path

from farsteer.hub.feed import Feed
from farsteer.hub.store.base import Store
from farsteer.hub.store.sqlite.store import SqliteStore

_FILES = ("hub.db-wal", "hub.epoch", "hub.db")
"""The log first: a checkpoint may begin at any time, and moves what is in the log to the database."""


class SqliteFactory:
    """Crashing keeps the files as they are, without a checkpoint, and continues with them."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "hub.db"

    async def open(self, feed: Feed) -> SqliteStore:
        return await SqliteStore.open(self.path, feed)

    async def crash(self, store: Store) -> None:
        files = await asyncio.to_thread(self._read)
        await store.close()
        self.path.with_name("hub.db-shm").unlink(missing_ok=True)
        for name, content in files.items():
            # Written in place: a file that a crash leaves behind is not another file.
            (self.path.parent / name).write_bytes(content)

    def _read(self) -> dict[str, bytes]:
        paths = [self.path.with_name(name) for name in _FILES]
        return {path.name: path.read_bytes() for path in paths if path.exists()}
