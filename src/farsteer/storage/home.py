"""The home directory of a hub or a runner: private to its owner and locked by one process at a time."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path

from farsteer.core.errors import Conflict

_MAX_SECRET = 4096


def prepare_home(home: Path) -> Path:
    """Create the directory if it does not exist and set its mode to 0700. Returns `home`."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)
    return home


class HomeLock:
    """A lock on a home, held from construction until `release` or the end of the process.

    Raises Conflict if another process holds it.
    """

    def __init__(self, home: Path, name: str) -> None:
        path = home / f"{name}.lock"
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._file, 200).decode(errors="replace").strip() or "another process"
            os.close(self._file)
            raise Conflict(f"{home} is in use: {holder} runs a {name} on it", home=str(home)) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"process {os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock. Idempotent. The file stays, because removing it would let two processes hold the lock."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def read_secret(path: Path) -> bytes | None:
    """Return the content of a secret file, or None if it does not exist. Loose permissions are set to 0600."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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
    directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
