"""Git worktrees of sessions, as machines describe them and clients see them.

Names of files are shown as text: bytes that are not UTF-8 appear as `\\xNN`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from farsteer.core.api.base import Name, Path, RequestBody, ResponseBody

LISTED = 100
"""How many files and commits a view or an error lists. The counts are of all."""
MAX_PATCH = 256 * 1024
"""How many bytes of a patch are returned."""
MAX_FILES = 1000
"""How many files a page of a diff has at most."""
SETUP_SECONDS = 300.0
"""How long the setup of a new worktree may take at most."""

Ref = Annotated[str, Meta(min_length=1, max_length=250)]
"""A branch, a tag or a commit."""


class WorktreeView(ResponseBody):
    """The worktree of a session as it is now."""

    path: str
    repository: str
    """The directory of the repository that it was made beside."""
    branch: str
    base_branch: str | None
    """The branch that it is compared with and merged into; null if it was made from a tag or a commit."""
    base_commit: str | None
    """The commit that it was made from."""
    exists: bool
    """False if its directory is gone. The branch may still be there."""
    session_id: str | None
    """Its session; null if that was deleted."""
    head: str | None = None
    """The commit that is checked out."""
    checked_out: str | None = None
    """The branch that is checked out; null if it is a commit. It should be `branch`."""
    ahead: int = 0
    """How many commits it has that the base has not."""
    behind: int = 0
    """How many commits the base has that it has not."""
    changes: list[str] = []
    """Files with changes that are in no commit, the first 100."""
    changes_count: int = 0
    unmerged: list[str] = []
    """Commits that are in no other branch, no tag and nothing that was pushed, the first 100."""
    unmerged_count: int = 0
    problem: str | None = None
    """What is wrong with it or its repository, in words for people."""


class FileChange(ResponseBody):
    path: str
    status: str
    """`added`, `modified`, `deleted`, `renamed`, `copied`, `type_changed` or `unmerged`."""
    old_path: str | None = None
    """The name before a rename or a copy."""
    additions: int | None = None
    """Null for a file that is not text."""
    deletions: int | None = None


class WorktreeDiff(ResponseBody):
    """What a worktree changes since it left its base, also what is in no commit."""

    base: str
    """The branch or the commit that it is compared with."""
    base_commit: str
    """The last commit that both have."""
    head: str
    files: list[FileChange]
    """A page of the changed files."""
    files_count: int
    """The number of all changed files."""
    additions: int
    deletions: int
    next_offset: int | None
    """The `offset` of the next page."""
    patch: str
    """The changes as text, of the files of this page."""
    truncated: bool
    """The patch is longer: ask for one file at a time with `path`. A single file that is longer stays cut off."""


class MergeWorktree(RequestBody):
    into: Ref | None = None
    """The branch to merge into. Without it, the one that the worktree was made from."""
    force: bool = False
    """Merge what is in commits, although the worktree has changes that are in none."""


class RebaseWorktree(RequestBody):
    onto: Ref | None = None
    """A branch, a tag or a commit. Without it, the branch that the worktree was made from."""


class WorktreeMoved(ResponseBody):
    """A branch has a new last commit."""

    branch: str
    commit: str
    previous: str
    """Its last commit before."""
    commits: int
    """How many commits were merged, or are on top of the new base."""
    directory: str | None = None
    """Where the branch is checked out; the files there follow it."""


class NameBranch(RequestBody):
    name: Ref | None = None
    """The new name of the branch. Without it, the branch keeps its name."""


class BranchReady(ResponseBody):
    """A branch from which a pull request can be opened. Nothing was pushed."""

    branch: str
    base_branch: str | None
    commits: int
    """How many commits it has that the base has not."""
    changes: list[str]
    """Files with changes that are in no commit: they would not be pushed. The first 100."""
    changes_count: int
    remote: str | None
    """Where to push to; null if the repository has no remote."""
    push: list[str]
    """The command that pushes the branch, as a list of arguments."""
    compare: str | None
    """The page on which to open the pull request after that, if the remote is known to have one."""


class WorktreesResponse(ResponseBody):
    worktrees: list[WorktreeView]


class CleanWorktrees(RequestBody):
    paths: Annotated[list[Path], Meta(max_length=100)] | None = None
    """Which ones; without it, all whose session was deleted."""
    force: bool = False
    """Remove also what is in no commit or in no other branch. Needs `paths`."""


class KeptWorktree(ResponseBody):
    path: str
    code: Name
    reason: str
    changes: list[str] = []
    unmerged: list[str] = []


class WorktreesCleaned(ResponseBody):
    """What was removed of the worktrees that were left over, and what was not."""

    removed: list[str]
    kept: list[KeptWorktree]
