"""The epoch of hub.db: the part of every cursor that says which history the cursor belongs to.

A database that was set back (a backup, a copied file) gives the same numbers again to other events. A client that
resumes from a number it was given before would miss some of them without noticing. So a new epoch begins when the
database is known to be older than what others have seen; every cursor of an earlier epoch is then answered with `gap`.

The database itself knows it when it is opened:

- `farsteer backup` leaves a mark in its copy.
- The file has another inode than the one stored in it: it is a copy.
- `hub.epoch` beside it, written within a second after a commit, has another epoch or a later cursor.

Later only a runner can tell, when it connects: a hub has confirmed entries to it that this one does not have. A
client's cursor proves nothing, since anybody may invent one; one that is too high gives that client a `gap`. An open
database cannot be set back, so the epoch changes at most once after it was opened: a false claim of a runner costs the
clients one reread for each start of the hub.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sqlite3
from contextlib import suppress
from pathlib import Path

from msgspec import DecodeError, Struct

from farsteer.core.errors import BadRequest
from farsteer.core.wire import decode, encode
from farsteer.hub.store.sqlite.transaction import last_cursor
from farsteer.storage.home import open_private, read_private

_logger = logging.getLogger(__name__)

_WRITE_SECONDS = 1.0
_FILE_BYTES = 80


class LastSeen(Struct, frozen=True):
    """The content of `hub.epoch`."""

    epoch: str
    cursor: int


class OpenedEpoch(Struct, frozen=True):
    epoch: str
    is_new: bool
    """It began now, because the database was set back."""


def _file_of(database: Path) -> Path:
    return database.with_suffix(".epoch")


def open_epoch(db: sqlite3.Connection, path: Path, seen: LastSeen | None) -> OpenedEpoch:
    """Return the epoch of a database that is being opened. A new database gets its first one."""
    meta = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('epoch', 'restored', 'inode')"))
    inode = str(path.stat().st_ino)
    reason = _set_back_reason(meta, inode, seen, last_cursor(db))
    if meta.get("inode") != inode:
        db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('inode', ?)", (inode,))
    if "epoch" in meta and reason is None:
        return OpenedEpoch(meta["epoch"], is_new=False)
    if reason is not None:
        _logger.warning("%s %s: a new epoch begins, and clients read again what they show", path, reason)
    return OpenedEpoch(start_epoch(db), is_new=reason is not None)


def start_epoch(db: sqlite3.Connection) -> str:
    """Choose a new epoch and store it."""
    epoch = secrets.token_hex(6)
    db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('epoch', ?)", (epoch,))
    db.execute("DELETE FROM meta WHERE key = 'restored'")
    return epoch


def mark_restored(db: sqlite3.Connection) -> None:
    """Let a copy of the database begin a new epoch wherever it is opened."""
    db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('restored', '1')")


def _set_back_reason(meta: dict[str, str], inode: str, seen: LastSeen | None, highest: int) -> str | None:
    """Return why the database must have been set back, or None."""
    if "epoch" not in meta:
        return None
    if "restored" in meta:
        return "is a backup"
    if meta.get("inode", inode) != inode:
        return "is a copy"
    if seen is not None and (seen.epoch != meta["epoch"] or seen.cursor > highest):
        return "is older than what was here before"
    return None


def read_last_seen(database: Path) -> LastSeen | None:
    """Return what `hub.epoch` says. None if it is missing or damaged: it is only one witness of several."""
    with suppress(OSError, BadRequest, DecodeError):
        content = read_private(_file_of(database))
        return None if content is None else decode(content, LastSeen)
    return None


class EpochFile:
    """Writes `hub.epoch`, at most once a second and never before what it says is committed."""

    def __init__(self, database: Path) -> None:
        self._path = _file_of(database)
        self._last: LastSeen | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._write: asyncio.Future[None] | None = None

    def record(self, epoch: str, cursor: int) -> None:
        """Write within a second."""
        self._last = LastSeen(epoch, cursor)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_WRITE_SECONDS, self._write_in_background)

    def write(self, epoch: str, cursor: int) -> None:
        """Write at once, when an epoch begins: the file of another epoch would begin one more at the next start."""
        self._last = LastSeen(epoch, cursor)
        self._overwrite(self._last)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._write is not None:
            await asyncio.wait([self._write])
        if self._last is not None:
            await asyncio.to_thread(self._overwrite, self._last)

    def _write_in_background(self) -> None:
        self._timer = None
        assert self._last is not None
        self._write = asyncio.ensure_future(asyncio.to_thread(self._overwrite, self._last))

    def _overwrite(self, last: LastSeen) -> None:
        """Write in place, so that a killed process leaves no other file behind. Blanks keep the length."""
        try:
            file = open_private(self._path, os.O_WRONLY | os.O_CREAT)
            try:
                os.pwrite(file, encode(last).ljust(_FILE_BYTES), 0)
            finally:
                os.close(file)
        except (OSError, BadRequest) as error:
            _logger.warning("%s cannot be written: %s", self._path, error)
