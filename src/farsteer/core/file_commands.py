"""Commands that read files of a machine and change nothing. They wait for no session: its actor does not get them."""

from __future__ import annotations

from farsteer.core.api.files import DEFAULT_READ
from farsteer.core.wire import WireStruct


class ListDirectory(WireStruct, tag_field="do", tag="list_directory"):
    """List a directory below that of the session, as a `DirectoryListing`."""

    path: str = ""
    offset: int = 0


class ReadFile(WireStruct, tag_field="do", tag="read_file"):
    """Read a part of a file below the session's directory, as a `FileContent`."""

    path: str
    offset: int = 0
    length: int = DEFAULT_READ


class ListChanges(WireStruct, tag_field="do", tag="list_changes"):
    """List what differs in the session's directory from the last commit, as a `ChangesResponse`."""


class ReadDiff(WireStruct, tag_field="do", tag="read_diff"):
    """Compare one file of the session's directory with the last commit, as a `FileDiff`."""

    path: str
    old_path: str | None = None


class BrowseDirectories(WireStruct, tag_field="do", tag="browse_directories"):
    """List the directories in one, as a `DirectoriesResponse`. Sent to the machine, not to a session."""

    path: str | None = None
    """None is where a person begins: the machine's roots, or the home directory of its user."""


FileCommand = ListDirectory | ReadFile | ListChanges | ReadDiff | BrowseDirectories
