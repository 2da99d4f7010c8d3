"""The operations of a client on files: those of a session's directory, and the directories of a machine. Read only."""

from __future__ import annotations

from farsteer.client.connection import RestConnection, api_path
from farsteer.core.api import files


class FileOperations:
    """A base class of `AsyncClient`. All need the scope `files`."""

    _connection: RestConnection

    async def list_files(
        self, session_id: str, path: str = "", *, offset: int = 0, timeout: float | None = None
    ) -> files.DirectoryListing:
        """Return what is in a directory below that of a session.

        Args:
            session_id: The session.
            path: The directory, relative to that of the session.
            offset: Where to begin: the `next_offset` of the listing before.

        Raises:
            MachineOffline: The machine is not connected.
            Unprocessable: There is no such directory, or it may not be shown.
        """
        return await self._connection.call(
            "GET",
            api_path("sessions", session_id, "files"),
            files.DirectoryListing,
            query={"path": path, "offset": offset},
            timeout=timeout,
        )

    async def read_file(
        self,
        session_id: str,
        path: str,
        *,
        offset: int = 0,
        length: int = files.DEFAULT_READ,
        timeout: float | None = None,
    ) -> files.FileContent:
        """Return a part of a file below a session's directory, as text or in base64 (`encoding`).

        Args:
            session_id: The session.
            path: The file, relative to the session's directory.
            offset: The first byte.
            length: How many bytes, at most 1 MiB.

        Raises:
            MachineOffline: The machine is not connected.
            Unprocessable: There is no such file, it cannot be read, or it may not be shown.
        """
        return await self._connection.call(
            "GET",
            api_path("sessions", session_id, "file"),
            files.FileContent,
            query={"path": path, "offset": offset, "length": length},
            timeout=timeout,
        )

    async def changes(self, session_id: str, *, timeout: float | None = None) -> files.ChangesResponse:
        """Return what differs in a session's directory from the last commit of its git repository.

        Raises:
            MachineOffline: The machine is not connected.
            Unprocessable: The directory is in no repository (`not_a_repository`).
        """
        path = api_path("sessions", session_id, "changes")
        return await self._connection.call("GET", path, files.ChangesResponse, timeout=timeout)

    async def file_diff(
        self, session_id: str, path: str, *, old_path: str | None = None, timeout: float | None = None
    ) -> files.FileDiff:
        """Return how one file of a session's directory differs from the last commit.

        Args:
            session_id: The session.
            path: The file, relative to the session's directory.
            old_path: Its name before, if it was renamed.
        """
        return await self._connection.call(
            "GET",
            api_path("sessions", session_id, "diff"),
            files.FileDiff,
            query={"path": path, "oldPath": old_path},
            timeout=timeout,
        )

    async def directories(
        self, machine_id: str, path: str | None = None, *, timeout: float | None = None
    ) -> files.DirectoriesResponse:
        """Return the directories in a directory of a machine, to choose one for a session.

        Args:
            machine_id: The machine.
            path: An absolute path. None is where a person begins: the machine's roots, or its user's home directory.

        Raises:
            MachineOffline: The machine is not connected.
            Unprocessable: There is no such directory, or it may not be shown.
        """
        return await self._connection.call(
            "GET",
            api_path("machines", machine_id, "directories"),
            files.DirectoriesResponse,
            query={"path": path},
            timeout=timeout,
        )
