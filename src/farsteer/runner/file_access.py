"""Reading files and directories below a directory, and nothing else.

An agent may change links and directories at any moment. So a path is resolved first, which tells what to say about it,
and then opened part by part without following any link: what was exchanged in between is refused.
"""

from __future__ import annotations

import base64
import errno
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from farsteer.core.api.files import (
    MAX_ENTRIES,
    MAX_READ,
    MAX_SCANNED,
    DirectoryEntry,
    DirectoryListing,
    FileContent,
    FileKind,
)
from farsteer.core.errors import ErrorCode, Unprocessable

_SYSTEM = ("/proc", "/sys", "/dev")
"""File systems of the kernel. Reading them as the runner would tell about the runner itself."""
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_BEGIN = 4
"""The most bytes that a character has in UTF-8."""


class FileAccess:
    """The files below `root`, which is a real path.

    Args:
        root: The directory.
        home: The runner's home. Its files are refused under any name.
        check_place: Raises Unprocessable for a directory in which nothing may be shown.
    """

    def __init__(self, root: Path, home: Path, check_place: Callable[[Path], None]) -> None:
        self._root = root
        self._home = home
        self._check_place = check_place

    def list(self, asked: str, offset: int) -> DirectoryListing:
        """Raises Unprocessable if there is no such directory, or it may not be shown."""
        real = self._resolve(asked)
        self._check_place(real)
        with self._open(real, os.O_DIRECTORY) as directory, _translated(asked):
            found, truncated = _scan(directory)
        page = found[offset : offset + MAX_ENTRIES]
        for index, entry in enumerate(page):
            if entry.kind == "link":
                page[index] = self._with_target(real, entry)
        end = offset + len(page)
        return DirectoryListing(
            path=self._shown(real),
            entries=page,
            next_offset=end if page and end < len(found) else None,
            truncated=truncated,
        )

    def read(self, asked: str, offset: int, length: int) -> FileContent:
        """Raises Unprocessable if there is no such file, it cannot be read, or it may not be shown."""
        real = self._resolve(asked)
        if real == self._root:
            raise not_allowed("that is the session's directory, not a file in it")
        self._check_place(real.parent)
        with self._open(real, os.O_NONBLOCK | os.O_NOCTTY) as file, _translated(asked):
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode):
                what = "a directory" if stat.S_ISDIR(about.st_mode) else "not a file"
                raise not_allowed(f"{asked!r} is {what}")
            if self._is_secret(about):
                raise not_allowed(f"{asked!r} is a file of Farsteer's home, in which its credentials are")
            data = os.pread(file, min(length, MAX_READ), offset)
        more = offset + len(data) < about.st_size and bool(data)
        text = _text(data, more=more)
        if text is not None:
            data = text.encode()
        return FileContent(
            path=self._shown(real),
            size=about.st_size,
            modified_at=about.st_mtime_ns // 1_000_000,
            offset=offset,
            length=len(data),
            next_offset=offset + len(data) if more else None,
            encoding="base64" if text is None else "utf-8",
            content=base64.b64encode(data).decode() if text is None else text,
        )

    def _resolve(self, asked: str) -> Path:
        if "\0" in asked or os.path.isabs(asked):
            raise not_allowed(f"{asked!r} is not a path below the session's directory")
        # First without looking whether it exists, which must not be told of what is elsewhere.
        for strict in (False, True):
            with _translated(asked):
                real = Path(os.path.realpath(self._root / asked, strict=strict))
            if not real.is_relative_to(self._root):
                raise not_allowed(f"{asked!r} leads out of the session's directory")
        if is_of_system(real):
            raise not_allowed(f"{asked!r} is no file of a disk")
        return real

    @contextmanager
    def _open(self, real: Path, flags: int) -> Generator[int]:
        """Open a real path below the root, if no part of it is a link by now."""
        opened: list[int] = []
        try:
            with _translated(self._shown(real)):
                parts = real.relative_to(self._root).parts
                opened.append(os.open(self._root, _OPEN | (os.O_DIRECTORY if parts else flags)))
                for index, part in enumerate(parts, 1):
                    kind = flags if index == len(parts) else os.O_DIRECTORY
                    opened.append(os.open(part, _OPEN | kind, dir_fd=opened[-1]))
            with suppress(OSError):
                if os.fstat(opened[-1]).st_dev == os.stat(_SYSTEM[0]).st_dev != os.stat("/").st_dev:
                    raise not_allowed(f"{self._shown(real)!r} is no file of a disk")
            yield opened[-1]
        finally:
            for file in opened:
                os.close(file)

    def _is_secret(self, about: os.stat_result) -> bool:
        """Whether it is a file of the runner's home under another name."""
        with suppress(OSError), os.scandir(self._home) as entries:
            return any(os.path.samestat(about, entry.stat(follow_symlinks=False)) for entry in entries)
        return False

    def _with_target(self, directory: Path, entry: DirectoryEntry) -> DirectoryEntry:
        target: FileKind | None = None
        with suppress(OSError):
            real = Path(os.path.realpath(directory / entry.name, strict=True))
            if real.is_relative_to(self._root) and not is_of_system(real):
                target = _kind(real.lstat().st_mode)
        return DirectoryEntry(
            name=entry.name, kind=entry.kind, size=None, modified_at=entry.modified_at, target=target
        )

    def _shown(self, real: Path) -> str:
        relative = real.relative_to(self._root)
        return shown(relative.as_posix()) if relative.parts else ""


def _scan(directory: int) -> tuple[list[DirectoryEntry], bool]:
    found: list[DirectoryEntry] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if len(found) == MAX_SCANNED:
                return _sorted(found), True
            with suppress(FileNotFoundError):
                about = entry.stat(follow_symlinks=False)
                kind = _kind(about.st_mode)
                found.append(
                    DirectoryEntry(
                        name=shown(entry.name),
                        kind=kind,
                        size=about.st_size if kind == "file" else None,
                        modified_at=about.st_mtime_ns // 1_000_000,
                        target=None,
                    )
                )
    return _sorted(found), False


def _sorted(entries: list[DirectoryEntry]) -> list[DirectoryEntry]:
    return sorted(entries, key=lambda entry: (entry.kind != "directory", entry.name))


def _kind(mode: int) -> FileKind:
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISREG(mode):
        return "file"
    return "link" if stat.S_ISLNK(mode) else "other"


def _text(data: bytes, *, more: bool) -> str | None:
    """Return the bytes as text, without the begin of a character at their end if more bytes follow. None: no text."""
    if b"\0" in data:
        return None
    for cut in range(_BEGIN if more else 1):
        with suppress(UnicodeDecodeError):
            text = data[: len(data) - cut].decode()
            return text if text or not data else None
    return None


def shown(name: str) -> str:
    """Return a name as clients see it."""
    return os.fsencode(name).decode(errors="backslashreplace")


def is_of_system(real: Path) -> bool:
    return any(real.is_relative_to(place) for place in _SYSTEM)


def not_allowed(message: str) -> Unprocessable:
    return Unprocessable(message, code=ErrorCode.FILE_NOT_ALLOWED)


@contextmanager
def _translated(asked: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise Unprocessable(f"there is no {asked!r} here", code=ErrorCode.FILE_MISSING) from error
        if error.errno in (errno.EACCES, errno.EPERM):
            message = f"the user of the runner may not read {asked!r}"
            raise Unprocessable(message, code=ErrorCode.FILE_UNREADABLE) from error
        if error.errno == errno.ELOOP:
            raise not_allowed(f"{asked!r} is a link that leads nowhere, or has just become one") from error
        raise Unprocessable(
            f"{asked!r} cannot be read: {os.strerror(error.errno or 0)}", code=ErrorCode.FILE_UNREADABLE
        ) from error
