"""What the hub's own database and the file beside it tell about a database that was set back."""

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from farsteer.hub.feed import Feed
from farsteer.hub.store.conformance import StoreHarness
from farsteer.hub.store.conformance.harness import NAMESPACE, new_item
from farsteer.hub.store.sqlite.epoch import mark_restored
from farsteer.hub.store.sqlite.store import SqliteStore
from tests.hub.store.factory import SqliteFactory


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(directory / "hub.db", Feed())
    try:
        yield store
    finally:
        await store.close()


async def epoch_of(directory: Path) -> str:
    async with opened(directory) as store:
        return store.epoch


@pytest.fixture
async def used(tmp_path: Path) -> Path:
    """A directory with a database that had 9 entries, and `backup.db`, a copy of when it had 3."""
    harness = await StoreHarness.open(SqliteFactory(tmp_path))
    log = await harness.create_session(entries=3)
    await harness.store.close()
    shutil.copyfile(tmp_path / "hub.db", tmp_path / "backup.db")
    await harness.reopen()
    await harness.connect()
    await harness.append(log, log.add_messages(6))
    await harness.store.close()
    return tmp_path


async def test_a_copy_written_over_the_database_begins_an_epoch(used: Path) -> None:
    earlier = await epoch_of(used)
    shutil.copyfile(used / "backup.db", used / "hub.db")
    epoch = await epoch_of(used)
    assert epoch != earlier
    assert await epoch_of(used) == epoch
    # The same backup again: its epoch is not the last one any more.
    shutil.copyfile(used / "backup.db", used / "hub.db")
    assert await epoch_of(used) not in (earlier, epoch)


async def test_a_copied_home_begins_an_epoch(used: Path, tmp_path: Path) -> None:
    earlier = await epoch_of(used)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("hub.db", "hub.epoch"):
        shutil.copy2(used / name, copy / name)
    assert await epoch_of(copy) != earlier
    assert await epoch_of(used) == earlier


async def test_a_marked_copy_begins_an_epoch(used: Path) -> None:
    earlier = await epoch_of(used)
    with closing(sqlite3.connect(used / "hub.db", isolation_level=None)) as db:
        mark_restored(db)
    epoch = await epoch_of(used)
    assert epoch != earlier
    assert await epoch_of(used) == epoch


@pytest.mark.parametrize("content", [None, b"", b"not JSON", b'{"epoch": 5}'])
async def test_a_missing_or_damaged_file_is_no_evidence(used: Path, content: bytes | None) -> None:
    earlier = await epoch_of(used)
    if content is None:
        (used / "hub.epoch").unlink()
    else:
        (used / "hub.epoch").write_bytes(content)
    assert await epoch_of(used) == earlier


async def test_a_database_of_an_earlier_version_keeps_its_epoch(used: Path) -> None:
    earlier = await epoch_of(used)
    with closing(sqlite3.connect(used / "hub.db", isolation_level=None)) as db:
        db.execute("DELETE FROM meta WHERE key = 'inode'")
    (used / "hub.epoch").unlink()
    assert await epoch_of(used) == earlier


async def test_the_file_never_has_a_cursor_that_is_not_committed(tmp_path: Path) -> None:
    """Else a kill would look like a restored backup."""
    harness = await StoreHarness.open(SqliteFactory(tmp_path))
    log = await harness.create_session()
    epoch = harness.store.epoch
    for _ in range(5):
        await harness.append(log, log.add_messages(20))
        await harness.store.accept_item(NAMESPACE, log.session_id, new_item())
        await harness.crash()
        await harness.connect()
        assert harness.store.epoch == epoch
    await harness.store.close()


async def test_two_databases_never_share_an_epoch(tmp_path: Path) -> None:
    epochs = set[str]()
    for name in "ab":
        (tmp_path / name).mkdir()
        epochs.add(await epoch_of(tmp_path / name))
    assert len(epochs) == 2
