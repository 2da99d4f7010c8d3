"""Where a session may run."""

from __future__ import annotations

import os
from pathlib import Path

from farsteer.core.errors import ErrorCode, Unprocessable


def check_directory(asked: str, roots: tuple[str, ...]) -> Path:
    """The real path of `asked`, if it is a directory that the machine's owner allows."""
    if "\0" in asked:
        raise Unprocessable("the directory's name has a NUL in it", code=ErrorCode.DIRECTORY_NOT_ALLOWED)
    path = Path(os.path.expanduser(asked))
    if not path.is_absolute():
        raise Unprocessable(
            f"directory must be an absolute path, not {asked!r}", code=ErrorCode.DIRECTORY_NOT_ALLOWED
        )
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise Unprocessable(f"directory {asked} does not exist", code=ErrorCode.DIRECTORY_MISSING) from error
    if not real.is_dir():
        raise Unprocessable(f"{asked} is not a directory", code=ErrorCode.DIRECTORY_MISSING)
    if not os.access(real, os.R_OK | os.X_OK):
        raise Unprocessable(f"directory {asked} cannot be read", code=ErrorCode.DIRECTORY_NOT_ALLOWED)
    if not is_inside(str(real), roots):
        raise Unprocessable(
            f"directory {asked} is outside this machine's roots (runner.toml)",
            code=ErrorCode.DIRECTORY_NOT_ALLOWED,
        )
    return real


def is_inside(directory: str, roots: tuple[str, ...]) -> bool:
    """It is where sessions may run, whether or not it is still there."""
    if not roots:
        return True
    real = Path(os.path.realpath(directory))
    return bool(directory) and any(
        real.is_relative_to(os.path.realpath(os.path.expanduser(root))) for root in roots
    )
