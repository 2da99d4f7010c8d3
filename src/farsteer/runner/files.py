"""What clients may see of the files of this machine: those of a session's directory, and where sessions may run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farsteer.agents.process.user import AgentUser
from farsteer.core.errors import ErrorCode, NotCapable, Unprocessable
from farsteer.core.file_commands import (
    BrowseDirectories,
    FileCommand,
    ListChanges,
    ListDirectory,
    ReadDiff,
    ReadFile,
)
from farsteer.core.wire import to_builtins
from farsteer.runner.blocking import BlockingWork
from farsteer.runner.browsing import browse
from farsteer.runner.changes import DirectoryChanges, new_file
from farsteer.runner.directories import SessionDirectories
from farsteer.runner.file_access import FileAccess

if TYPE_CHECKING:
    from farsteer.core.session import SessionState

_GIT_AT_A_TIME = 4


class MachineFiles:
    """Answers file commands. Nothing here waits for a session's actor, or blocks the event loop.

    Args:
        home: The runner's home.
        directories: Where sessions may run.
        user: The user that agents run as, if it is not the runner's own.
    """

    def __init__(self, home: Path, directories: SessionDirectories, user: AgentUser | None) -> None:
        self._home = home
        self._directories = directories
        self._user = user
        self._blocking = BlockingWork()
        self._git = asyncio.Semaphore(_GIT_AT_A_TIME)

    async def answer(self, command: FileCommand, session: SessionState | None) -> Any:
        """Return the result of a command as JSON values. `session` is the one it is for, if there is one.

        Raises Unprocessable, NotCapable, or TimedOut if the files do not answer.
        """
        if isinstance(command, BrowseDirectories):
            self._check_user()
            return to_builtins(await self._blocking.run(lambda: browse(self._directories, command.path)))
        assert session is not None
        directory = await self._blocking.run(lambda: self._check(session.directory))
        match command:
            case ListDirectory(path=path, offset=offset):
                files = self._access(directory)
                return to_builtins(await self._blocking.run(lambda: files.list(path, offset)))
            case ReadFile(path=path, offset=offset, length=length):
                files = self._access(directory)
                return to_builtins(await self._blocking.run(lambda: files.read(path, offset, length)))
            case ListChanges():
                async with self._git:
                    changes = await DirectoryChanges.find(directory, self._user)
                    return to_builtins(await changes.list())
            case ReadDiff():
                async with self._git:
                    return to_builtins(await self._diff(directory, command))

    async def _diff(self, directory: Path, command: ReadDiff) -> Any:
        changes = await DirectoryChanges.find(directory, self._user)
        diff = await changes.diff(command.path, command.old_path)
        if diff.patch or not await changes.is_new(command.path):
            return diff
        files = self._access(directory)
        return await self._blocking.run(lambda: new_file(command.path, files))

    def _check(self, directory: str) -> Path:
        if not directory:
            raise Unprocessable("the session has no directory", code=ErrorCode.DIRECTORY_MISSING)
        self._directories.check_again(directory)
        return Path(directory)

    def _access(self, directory: Path) -> FileAccess:
        self._check_user()
        return FileAccess(directory, self._home, self._directories.check_place)

    def _check_user(self) -> None:
        """Raise NotCapable if agents run as another user: this process may read what that user may not."""
        if self._user is not None:
            raise NotCapable(
                f"the agents of this machine run as {self._user.name} (run_as); its files cannot be shown"
            )
