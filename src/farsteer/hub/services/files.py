"""Files of sessions' directories, and directories of machines. Machines read them; the hub keeps nothing."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from farsteer.core.api.files import (
    ChangesResponse,
    DirectoriesResponse,
    DirectoryListing,
    FileContent,
    FileDiff,
)
from farsteer.core.errors import MachineOffline, NotCapable
from farsteer.core.file_commands import (
    BrowseDirectories,
    FileCommand,
    ListChanges,
    ListDirectory,
    ReadDiff,
    ReadFile,
)
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.rules.bounds import invalid_answer
from farsteer.hub.store.base import Store
from farsteer.link.messages import FILES_PROTOCOL

T = TypeVar("T")

_NO_SESSION = ""
"""The session id of a command that goes to the machine itself."""


class Files:
    """Every method needs the scope `files`, because this shows what was never given to the hub.

    All raise NotFound, MachineOffline, NotCapable if the runner is too old, and Unprocessable for what the machine does
    not show.
    """

    def __init__(self, store: Store, links: MachineLinks) -> None:
        self._store = store
        self._links = links

    async def list(
        self, caller: Caller, session_id: str, path: str = "", offset: int = 0
    ) -> DirectoryListing:
        """Return what is in a directory below that of a session."""
        return await self._ask_session(
            caller, session_id, ListDirectory(path=path, offset=offset), DirectoryListing
        )

    async def read(
        self, caller: Caller, session_id: str, path: str, *, offset: int, length: int
    ) -> FileContent:
        """Return a part of a file below a session's directory."""
        command = ReadFile(path=path, offset=offset, length=length)
        return await self._ask_session(caller, session_id, command, FileContent)

    async def changes(self, caller: Caller, session_id: str) -> ChangesResponse:
        """Return what differs in a session's directory from the last commit."""
        return await self._ask_session(caller, session_id, ListChanges(), ChangesResponse)

    async def diff(
        self, caller: Caller, session_id: str, path: str, *, old_path: str | None = None
    ) -> FileDiff:
        """Return how one file of a session's directory differs from the last commit."""
        return await self._ask_session(caller, session_id, ReadDiff(path=path, old_path=old_path), FileDiff)

    async def browse(self, caller: Caller, machine_id: str, path: str | None = None) -> DirectoriesResponse:
        """Return the directories in a directory of a machine, for a new session."""
        caller.require(Scope.FILES)
        await self._store.get_machine(caller.namespace, machine_id)
        command = BrowseDirectories(path=path)
        return await self._ask(caller.namespace, machine_id, _NO_SESSION, command, DirectoriesResponse)

    async def _ask_session(self, caller: Caller, session_id: str, command: FileCommand, kind: type[T]) -> T:
        caller.require(Scope.FILES)
        row = await self._store.get_session(caller.namespace, session_id)
        return await self._ask(caller.namespace, row.machine_id, session_id, command, kind)

    async def _ask(
        self, namespace: str, machine_id: str, session_id: str, command: FileCommand, kind: type[T]
    ) -> T:
        if self._links.current_link_id(namespace, machine_id) is None:
            raise MachineOffline
        if not self._links.speaks(namespace, machine_id, FILES_PROTOCOL):
            raise NotCapable("the runner of this machine is too old for this: update farsteer there")
        reply = await self._links.call(namespace, machine_id, session_id, command)
        try:
            return msgspec.convert(reply.result, kind)
        except msgspec.ValidationError as error:
            raise invalid_answer(str(error)) from None
