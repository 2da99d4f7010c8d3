"""Bodies about the files of a session's directory, what git says has changed there, and directories of a machine.

Names are shown as text: bytes that are not UTF-8 appear as `\\xNN`, and such a file cannot be asked for.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from farsteer.core.api.base import ResponseBody

MAX_ENTRIES = 1000
"""How many entries of a directory are returned at a time."""
MAX_SCANNED = 10_000
"""How many entries of a directory are looked at."""
MAX_READ = 1024 * 1024
"""How many bytes of a file are returned at most."""
DEFAULT_READ = 256 * 1024
MAX_PATCH = 256 * 1024
"""How many bytes of a patch are returned."""
MAX_CHANGES = 2000
"""How many changed files are listed."""
_MAX_NAME = 4096
_MAX_ASKED = 2048
"""Two of these fit into the head of a request, whatever characters they have."""

FilePath = Annotated[str, Meta(max_length=_MAX_ASKED)]
"""A path below the session's directory, with `/` between its parts. Empty is the directory itself."""
ShownPath = Annotated[str, Meta(max_length=4 * _MAX_NAME)]
FileKind = Literal["directory", "file", "link", "other"]
FileStatus = Literal[
    "added", "modified", "deleted", "renamed", "copied", "type_changed", "conflicted", "untracked"
]
_Count = Annotated[int, Meta(ge=0, le=2**53)]


class DirectoryEntry(ResponseBody):
    name: ShownPath
    kind: FileKind
    size: _Count | None
    """In bytes; null for what is not a file."""
    modified_at: int
    target: FileKind | None
    """Of a link: what it leads to; null if that is missing or outside of the session's directory."""


class DirectoryListing(ResponseBody):
    path: ShownPath
    """The real path, below the session's directory."""
    entries: Annotated[list[DirectoryEntry], Meta(max_length=MAX_ENTRIES)]
    """Directories first, then by name."""
    next_offset: _Count | None
    """The `offset` of the next entries; null if these are the last."""
    truncated: bool
    """The directory has more than 10000 entries, and the others are not shown."""


class FileContent(ResponseBody):
    """A part of a file."""

    path: ShownPath
    """The real path, below the session's directory."""
    size: _Count
    """Of the whole file."""
    modified_at: int
    offset: _Count
    length: _Count
    """How many bytes these are."""
    next_offset: _Count | None
    """Where the next bytes begin; null if these are the last."""
    encoding: Literal["utf-8", "base64"]
    """`base64` if these bytes are not text."""
    content: Annotated[str, Meta(max_length=2 * MAX_READ)]


class ChangedFile(ResponseBody):
    path: ShownPath
    old_path: ShownPath | None
    """The name before a rename or a copy."""
    status: FileStatus
    additions: _Count | None
    """Lines; null if it is not text, or not tracked."""
    deletions: _Count | None


class ChangesResponse(ResponseBody):
    """What differs in the session's directory from the last commit, whether it is staged or not."""

    branch: Annotated[str, Meta(max_length=_MAX_NAME)] | None
    """Null if a commit is checked out."""
    head: Annotated[str, Meta(max_length=64)] | None
    """The last commit; null if there is none yet."""
    files: Annotated[list[ChangedFile], Meta(max_length=MAX_CHANGES)]
    truncated: bool
    """There are more."""


class FileDiff(ResponseBody):
    path: ShownPath
    old_path: ShownPath | None
    patch: Annotated[str, Meta(max_length=2 * MAX_PATCH)]
    """Against the last commit, as git writes it. Empty if nothing has changed."""
    binary: bool
    truncated: bool
    """The patch is longer and ends with its last whole line."""


class BrowsedDirectory(ResponseBody):
    name: ShownPath
    path: ShownPath
    allowed: bool
    """Whether a session may run in it."""
    repository: bool
    """Whether it is the top of a git repository."""


class DirectoriesResponse(ResponseBody):
    path: ShownPath | None
    """The real path of this directory; null for the list of the machine's roots."""
    parent: ShownPath | None
    """The directory above, if it may be shown."""
    allowed: bool
    """Whether a session may run in this directory."""
    directories: Annotated[list[BrowsedDirectory], Meta(max_length=MAX_ENTRIES)]
    truncated: bool
    """There are more."""
