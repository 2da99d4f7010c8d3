"""The home directory of a hub or a runner: private to its owner and locked by one process at a time.

Its files are opened only if they are regular files of this user or of root. A symbolic link is never followed. So a
file that somebody else managed to put there is not trusted and not written through.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from codecs import BOM_UTF8
from pathlib import Path
from typing import TypeVar

import msgspec

from farsteer.core.errors import BadRequest, Conflict
from farsteer.storage.place import place_of

T = TypeVar("T")

_MAX_SECRET = 4096

UNFINISHED_RESTORE = (".restore-moving", ".restore-placing")
"""The directory of a restore that has begun to change the home, in its two phases (see `restore`)."""


def prepare_home(home: Path) -> Path:
    """Create the directory if it does not exist and set its mode to 0700. Returns `home`.

    Raises BadRequest if it belongs to another user.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_owner(home, home.stat())
    home.chmod(0o700)
    return home


def open_private(path: Path, flags: int) -> int:
    """Open a file of the home and return its descriptor. A file that `flags` create has mode 0600.

    Raises FileNotFoundError, and BadRequest if it is not a regular file of this user or of root.
    """
    try:
        # Opening a named pipe would wait for a writer without O_NONBLOCK, which does nothing to a regular file.
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        if path.is_symlink():
            raise _symbolic_link(path) from error
        raise BadRequest(f"{path} cannot be opened: {error.strerror}") from error
    try:
        _check_file(path, os.fstat(file))
    except BaseException:
        os.close(file)
        raise
    return file


def check_private(path: Path) -> None:
    """Check a file of the home without opening it. Raises as `open_private`."""
    if path.is_symlink():
        raise _symbolic_link(path)
    _check_file(path, os.stat(path, follow_symlinks=False))


def _check_file(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise BadRequest(f"{path} is not a regular file; remove it")
    _check_owner(path, found)


def _symbolic_link(path: Path) -> BadRequest:
    return BadRequest(f"{path} is a symbolic link, which is not followed: put the file itself there")


class OpenedFile:
    """A file of the home that this process has open. Somebody may remove its name, or put another file there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._identity = self._read()

    @property
    def is_there(self) -> bool:
        return self._read() == self._identity

    def _read(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return None
        return found.st_dev, found.st_ino


def read_private(path: Path) -> bytes | None:
    """Return the content of a file of the home, or None if it does not exist. Raises BadRequest as `open_private`."""
    try:
        file = open_private(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with open(file, "rb") as stream:
        return stream.read()


def read_settings(path: Path, kind: type[T]) -> T:
    """Return the settings in a TOML file of the home. A missing file gives the defaults.

    Raises BadRequest for an invalid file, and as `open_private`.
    """
    try:
        # Some editors write a byte order mark.
        return msgspec.toml.decode((read_private(path) or b"").removeprefix(BOM_UTF8), type=kind)
    except msgspec.DecodeError as error:
        raise BadRequest(f"{path}: {error}") from error


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise BadRequest(
            f"{path} belongs to another user (uid {found.st_uid}), this process is run by uid {os.geteuid()}:"
            " run it as that user, choose another --home, or change the owner with chown"
        )


class HomeLock:
    """A lock on a home, held from construction until `release` or the end of the process.

    Raises Conflict if another process holds it, and while a restore is unfinished, unless it is to be finished now.
    """

    def __init__(self, home: Path, name: str, *, restores: bool = False) -> None:
        path = home / f"{name}.lock"
        self._file = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._file, 200).decode(errors="replace").strip() or "another process"
            os.close(self._file)
            raise Conflict(f"{home} is in use: {holder} runs a {name} on it", home=str(home)) from error
        if not restores and any((home / directory).exists() for directory in UNFINISHED_RESTORE):
            os.close(self._file)
            raise Conflict(
                f"the restore of {home} was interrupted: run `farsteer restore` again to finish it"
            )
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"process {os.getpid()}\n".encode(), 0)

    @property
    def place(self) -> str:
        """The name of the file that is locked. Whoever gets a lock of this place proves that nobody else has it."""
        return place_of(self._file)

    def release(self) -> None:
        """Release the lock. Idempotent. The file stays, because removing it would let two processes hold the lock."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def read_secret(path: Path) -> bytes | None:
    """Return the content of a secret file, or None if it does not exist. Loose permissions are set to 0600."""
    try:
        file = open_private(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        if os.fstat(file).st_mode & 0o077:
            os.fchmod(file, 0o600)
        return os.read(file, _MAX_SECRET)
    finally:
        os.close(file)


def write_secret(path: Path, content: bytes) -> None:
    """Write a secret file atomically and durably. The file has mode 0600 from the start."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.write(file, content)
            os.fsync(file)
        finally:
            os.close(file)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names of the files in a directory durable."""
    directory = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
