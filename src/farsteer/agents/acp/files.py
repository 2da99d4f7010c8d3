"""Files that the agent reads and writes through us, inside the directories of its session.

A path is resolved first and then opened from its directory downwards, part by part, without following a link. So a link
that somebody puts there in between leads nowhere.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from farsteer.agents.workspace import is_inside
from farsteer.jsonrpc.errors import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError

MAX_FILE_BYTES = 16 * 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def check_place(path: str, roots: Iterable[str]) -> None:
    """Raise RpcError for a path that leads out of the directories of the session."""
    if not os.path.isabs(path):
        raise RpcError(INVALID_PARAMS, f"the path must be absolute: {path[:200]!r}")
    if not is_inside(path, roots):
        raise RpcError(INVALID_PARAMS, f"outside of the session's directory: {path[:200]!r}")


def read_text(path: str, roots: tuple[str, ...], line: int | None, limit: int | None) -> str:
    """Return the content of a file, or `limit` lines of it from `line` on, which counts from 1. Raises RpcError."""
    try:
        with os.fdopen(_open(path, roots, os.O_RDONLY), "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise RpcError(RESOURCE_NOT_FOUND, f"no such file: {path[:200]!r}") from None
    except OSError as error:
        raise RpcError(INTERNAL_ERROR, f"cannot read {path[:200]!r}: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise RpcError(INVALID_PARAMS, f"the file has more than {MAX_FILE_BYTES} bytes")
    text = content.decode(errors="replace")
    if line is None and limit is None:
        return text
    first = max((line or 1) - 1, 0)
    end = None if limit is None else first + max(limit, 0)
    return "".join(text.splitlines(keepends=True)[first:end])


def write_text(path: str, roots: tuple[str, ...], content: str) -> None:
    """Write a file, and the directories to it that are missing. Raises RpcError."""
    try:
        with os.fdopen(_open(path, roots, os.O_WRONLY | os.O_CREAT), "wb") as file:
            file.truncate(0)
            file.write(content.encode(errors="replace"))
    except OSError as error:
        raise RpcError(INTERNAL_ERROR, f"cannot write {path[:200]!r}: {error.strerror}") from None


def _open(path: str, roots: tuple[str, ...], flags: int) -> int:
    """Return the descriptor of a regular file. Raises OSError, and RpcError for a path that leads outside."""
    check_place(path, roots)
    real = os.path.realpath(path)
    root = next(root for root in map(os.path.realpath, roots) if os.path.commonpath((real, root)) == root)
    *folders, name = os.path.relpath(real, root).split(os.sep)
    folder = os.open(root, _FOLDER)
    try:
        for part in folders:
            if flags & os.O_CREAT:
                _make_folder(part, folder)
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.open(name, flags | _FILE, 0o666, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise RpcError(INVALID_PARAMS, f"not a regular file: {path[:200]!r}")
    return file


def _make_folder(name: str, parent: int) -> None:
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        return
