"""The SQLite store keeps the contracts of every store."""

from pathlib import Path

from farsteer.hub.store.conformance import StoreConformance
from tests.hub.store.factory import SqliteFactory


class TestSqlite(StoreConformance):
    def factory(self, directory: Path) -> SqliteFactory:
        return SqliteFactory(directory)
