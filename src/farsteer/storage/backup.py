"""A backup of a home directory: one tar file with consistent copies of its databases, its secrets and its settings.

Hub and runner may run meanwhile. Each database is copied from one snapshot, which does not hold up its writer. The
snapshot of runner.db is taken before that of hub.db, because a runner deletes what a hub has confirmed: in the other
order an entry could be in neither.

The last member of the archive is its manifest, which names every other member with its size and digest. An archive
without it is not whole.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import shutil
import sqlite3
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO

from msgspec import Struct

from farsteer.core.clock import now_ms
from farsteer.core.errors import BadRequest, Conflict, ErrorCode, NotFound, Unavailable
from farsteer.core.wire import encode
from farsteer.storage.connection import connect
from farsteer.storage.failures import storage_error
from farsteer.storage.home import sync_directory

MANIFEST = "manifest.json"
FORMAT = 1
DATABASES = ("runner.db", "hub.db")
"""In the order of their snapshots."""
FILES = (
    "token", "jwt.key", "machine-id", "machine.key", "login.json", "hub.toml", "runner.toml", "config.toml",
    "worktrees.json", "worktree-setup.json",
)  # fmt: skip
AGENTS = "agents"
"""The directory of the adapters' own files."""
TEMPORARY = frozenset(
    {
        "hub.json", "hub.epoch", "hub.lock", "hub.db-wal", "hub.db-shm",
        "runner.lease", "runner.lock", "runner.db-wal", "runner.db-shm",
    }
)  # fmt: skip
"""What belongs to the running processes and is made anew."""

_STEP_PAGES = 1024
_CHUNK = 1024 * 1024
_SPOOLED = 8 * 1024 * 1024

Progress = Callable[[str, int, int], None]
"""Called with what is being done, the bytes done and all bytes."""
Prepare = Callable[[sqlite3.Connection], None]
"""Changes the copy of a database before it is put into the archive."""


class Member(Struct, frozen=True):
    name: str
    size: int
    sha256: str


class Manifest(Struct, frozen=True):
    format: int
    version: str
    """Of Farsteer."""
    created_at: int
    files: list[Member]


class Backup(Struct, frozen=True):
    file: Path
    size: int
    contents: list[Member]
    left_out: list[str]
    """Files of the home that are not known, or that cannot be read."""


def create_backup(
    home: Path,
    target: Path,
    *,
    version: str,
    prepare: Mapping[str, Prepare] | None = None,
    force: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Backup:
    """Write a backup of `home` to `target`, which appears when it is complete.

    Args:
        home: The home directory.
        target: The file to write, with mode 0600.
        version: Of Farsteer, for the manifest.
        prepare: By name of a database, what to do to its copy.
        force: Replace `target` if it exists.
        progress: Called while something takes long.

    Raises:
        NotFound: There is no home directory.
        Conflict: `target` exists.
        BadRequest: There is nothing to back up, or `target` cannot be written.
        Unavailable: A database cannot be read; code `database_damaged` if it is not whole.
    """
    if not home.is_dir():
        raise NotFound(f"there is no home directory {home}: choose it with --home")
    if target.exists() and not force:
        raise Conflict(f"{target} exists: choose another file, or replace it with --force")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadRequest(f"{target} cannot be written: {error.strerror}") from error
    try:
        with open(file, "wb") as stream:
            written = _Archive(home, stream, progress)
            written.write(version, prepare or {}, target.absolute().parent)
            stream.flush()
            os.fsync(stream.fileno())
            size = stream.tell()
        _put_in_place(temporary, target, force=force)
    finally:
        temporary.unlink(missing_ok=True)
    return Backup(target, size, written.members, written.left_out)


def _put_in_place(temporary: Path, target: Path, *, force: bool) -> None:
    if force:
        temporary.replace(target)
    else:
        try:
            # Unlike a rename this never replaces a file that has appeared meanwhile.
            os.link(temporary, target)
        except FileExistsError:
            raise Conflict(f"{target} has just been created by somebody else") from None
        except OSError:
            # A file system without hard links.
            temporary.replace(target)
    sync_directory(target.parent)


class _Archive:
    def __init__(self, home: Path, stream: IO[bytes], progress: Progress) -> None:
        self._home = home
        self._tar = tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._progress = progress
        self.members: list[Member] = []
        self.left_out: list[str] = []

    def write(self, version: str, prepare: Mapping[str, Prepare], directory: Path) -> None:
        with ExitStack() as opened:
            # Beside the archive: the place where there must be room for the databases anyway.
            copies = Path(
                opened.enter_context(tempfile.TemporaryDirectory(prefix=".farsteer-backup-", dir=directory))
            )
            for name in copy_databases(self._home, copies, prepare, self._progress):
                with (copies / name).open("rb") as copy:
                    self._add(name, copy, (copies / name).stat().st_size)
                (copies / name).unlink()
        for name in FILES:
            self._add_file(name)
        for path in _walk(self._home / AGENTS):
            self._add_file(path.relative_to(self._home).as_posix())
        if not self.members:
            raise BadRequest(f"{self._home} has nothing to back up: no hub or runner has used it")
        self.left_out += sorted(
            path.name for path in self._home.iterdir()
            if path.name not in {*DATABASES, *FILES, AGENTS, *TEMPORARY}
        )  # fmt: skip
        content = encode(Manifest(FORMAT, version, now_ms(), self.members))
        info = _tar_info(MANIFEST, len(content))
        self._tar.addfile(info, io.BytesIO(content))
        self._tar.close()

    def _add_file(self, name: str) -> None:
        """Add a file of the home as it is now. One that is being written is added as far as it could be read."""
        try:
            file = os.open(self._home / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError:
            self.left_out.append(name)
            return
        with open(file, "rb") as source, tempfile.SpooledTemporaryFile(_SPOOLED) as copy:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                self.left_out.append(name)
                return
            shutil.copyfileobj(source, copy, _CHUNK)
            size = copy.tell()
            copy.seek(0)
            self._add(name, copy, size)

    def _add(self, name: str, content: IO[bytes], size: int) -> None:
        reader = HashingReader(content, lambda done: self._progress(f"writing {name}", done, size))
        self._tar.addfile(_tar_info(name, size), reader)
        self.members.append(Member(name, size, reader.digest))


def _tar_info(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, now_ms() // 1000
    return info


def _walk(directory: Path) -> Iterator[Path]:
    """Yield what is below a directory and no directory. Links are not followed."""
    for parent, names, files in os.walk(directory):
        # A link to a directory is among the names of directories.
        links = [name for name in names if Path(parent, name).is_symlink()]
        yield from (Path(parent, name) for name in sorted(files + links))
        names.sort()


class HashingReader(io.RawIOBase):
    """Reads another file and computes the SHA-256 of what was read."""

    def __init__(self, source: IO[bytes], progress: Callable[[int], None]) -> None:
        super().__init__()
        self._source = source
        self._hash = hashlib.sha256()
        self._progress = progress
        self._done = 0

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def read(self, size: int = -1) -> bytes:
        chunk = self._source.read(size)
        self._hash.update(chunk)
        self._done += len(chunk)
        self._progress(self._done)
        return chunk


# -- databases


def copy_databases(
    home: Path, target: Path, prepare: Mapping[str, Prepare], progress: Progress
) -> Iterator[str]:
    """Copy the databases of a home, and yield the name of each when its copy is complete.

    All snapshots are taken first, so that the databases belong together although copying them takes time.
    """
    with ExitStack() as opened:
        sources: dict[str, sqlite3.Connection] = {}
        for name in DATABASES:
            if (home / name).exists():
                try:
                    sources[name] = opened.enter_context(closing(connect(home / name, query_only=True)))
                    sources[name].execute("BEGIN")
                    sources[name].execute("SELECT count(*) FROM sqlite_master").fetchone()
                except sqlite3.Error as error:
                    raise storage_error(error, home / name) from error
        for name, source in sources.items():
            try:
                _copy_database(source, target / name, prepare.get(name), name, progress)
                source.execute("COMMIT")
                # The snapshot kept the log from being written back. The writer must not have to do that in one go.
                source.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            except sqlite3.Error as error:
                raise storage_error(error, home / name) from error
            yield name


def _copy_database(
    source: sqlite3.Connection, path: Path, prepare: Prepare | None, name: str, progress: Progress
) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    page_size = int(source.execute("PRAGMA page_size").fetchone()[0])

    def report(_: int, remaining: int, total: int) -> None:
        progress(f"copying {name}", (total - remaining) * page_size, total * page_size)

    with closing(sqlite3.connect(path, isolation_level=None)) as copy:
        copy.execute("PRAGMA synchronous = OFF")
        source.backup(copy, pages=_STEP_PAGES, progress=report, sleep=0)
        check_database(copy, name)
        if prepare is not None:
            prepare(copy)
        copy.execute("PRAGMA journal_mode = DELETE")


def check_database(db: sqlite3.Connection, name: str) -> None:
    """Raises Unavailable `database_damaged` if the database is not whole."""
    try:
        found = [row[0] for row in db.execute("PRAGMA quick_check(1)")]
    except sqlite3.DatabaseError as error:
        found = [str(error)]
    if found != ["ok"]:
        raise Unavailable(f"{name} is damaged: {found[0]}", code=ErrorCode.DATABASE_DAMAGED)
