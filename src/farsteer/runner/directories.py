"""The directories in which sessions of this machine may run.

A session can read and change everything below its directory. Therefore no session runs where it would find a
credential of Farsteer's: not in the home of a hub or a runner, not below one, and not above one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from farsteer.core.errors import ErrorCode, Unprocessable

_DEFAULT_HOME = ".farsteer"
_HOME_FILES = (
    ("hub.lock", "hub.db"),
    ("runner.lock", "runner.db"),
    ("token", "jwt.key"),
    ("machine-id", "machine.key"),
)
"""A directory that has both files of a pair is somebody's home, whatever its name."""


class SessionDirectories:
    """Decides by real paths, so that neither `..` nor a link leads out.

    Args:
        home: The runner's own home, which a hub may share.
        roots: Sessions may run in these directories and below; empty means anywhere. They are resolved once: who
            replaces one by a link later gains nothing.
    """

    def __init__(self, home: Path | None = None, roots: Iterable[str] = ()) -> None:
        self._home = home
        self._roots = tuple(Path(os.path.realpath(os.path.expanduser(root))) for root in roots)

    @property
    def roots(self) -> tuple[Path, ...]:
        """The directories below which sessions may run. Empty means anywhere."""
        return self._roots

    def check(self, asked: str) -> Path:
        """Return the real path of `asked`.

        Raises Unprocessable if it is not an absolute path of a readable directory in which a session may run.
        """
        if "\0" in asked:
            raise _not_allowed("directory contains a NUL character")
        path = Path(os.path.expanduser(asked))
        if not path.is_absolute():
            raise _not_allowed(f"directory must be an absolute path, not {asked!r}")
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise Unprocessable(
                f"directory {asked} does not exist", code=ErrorCode.DIRECTORY_MISSING
            ) from error
        if not real.is_dir():
            raise Unprocessable(f"{asked} is not a directory", code=ErrorCode.DIRECTORY_MISSING)
        if not os.access(real, os.R_OK | os.X_OK):
            raise _not_allowed(f"directory {asked} cannot be read")
        self.check_place(real)
        return real

    def check_again(self, directory: str) -> None:
        """Check the directory of an existing session before each start of its agent.

        Raises Unprocessable if a session may no longer run there, or if a link has taken its place.
        """
        real = self.check(directory)
        if real != Path(directory):
            raise _not_allowed(
                f"directory {directory} has become a link to {real} since this session was created; "
                "create a session there instead"
            )

    def check_place(self, path: Path) -> None:
        """Raise Unprocessable if no session may run in `path`, which need not exist."""
        reason = self._refusal(Path(os.path.realpath(path)))
        if reason is not None:
            raise _not_allowed(reason)

    def allows(self, directory: str) -> bool:
        """Return whether sessions may run in `directory`, which need not exist."""
        return bool(directory) and self._refusal(Path(os.path.realpath(directory))) is None

    def may_show(self, directory: Path) -> bool:
        """Return whether the names in `directory` may be shown to who looks for a place for a session.

        They may above a home, but not in one.
        """
        real = Path(os.path.realpath(directory))
        return self._home_around(real) is None and self._is_in_roots(real)

    def _home_around(self, real: Path) -> Path | None:
        """Return the home that `real` is, or is in."""
        line = (real, *real.parents)
        home = next((place for place in line if _is_home(place)), None)
        identities = {_identity(place) for place in line} - {None}
        return next((known for known in self._known_homes(real) if _identity(known) in identities), home)

    def _is_in_roots(self, real: Path) -> bool:
        return not self._roots or any(real.is_relative_to(root) for root in self._roots)

    def _refusal(self, real: Path) -> str | None:
        """Return why no session may run in `real`, None if one may."""
        home = self._home_around(real)
        for known in self._known_homes(real):
            if any(_identity(above) == _identity(real) for above in known.parents):
                return (
                    f"directory {real} contains Farsteer's home {known}, in which its credentials are; choose a "
                    "project's directory, or move the home elsewhere with FARSTEER_HOME"
                )
        if home is not None:
            return f"directory {real} is in Farsteer's home {home}, in which its credentials are; choose another one"
        if not self._is_in_roots(real):
            return f"directory {real} is outside this machine's roots (runner.toml)"
        return None

    def _known_homes(self, real: Path) -> Iterable[Path]:
        """Return the homes that exist: the runner's, those of this user's commands, and one at its usual place below
        `real`, of another user for example.
        """
        candidates = [self._home, os.environ.get("FARSTEER_HOME"), Path.home() / _DEFAULT_HOME]
        homes = {Path(os.path.realpath(place)) for place in candidates if place}
        if _is_home(real / _DEFAULT_HOME):
            homes.add(Path(os.path.realpath(real / _DEFAULT_HOME)))
        return [home for home in homes if _identity(home) is not None]


def _is_home(path: Path) -> bool:
    return any(all((path / name).exists() for name in names) for names in _HOME_FILES)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode: a path may be spelled in several ways on a file system that ignores case."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _not_allowed(message: str) -> Unprocessable:
    return Unprocessable(message, code=ErrorCode.DIRECTORY_NOT_ALLOWED)
