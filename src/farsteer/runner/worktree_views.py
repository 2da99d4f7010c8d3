"""What a worktree is like now: its branch, its changes against its base, and what would be lost with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from farsteer.core.errors import BadRequest, Conflict, ErrorCode, NotFound, Unprocessable
from farsteer.core.session import Worktree
from farsteer.core.worktrees import LISTED, MAX_FILES, MAX_PATCH, FileChange, WorktreeDiff, WorktreeView
from farsteer.runner.branches import count_commits, local_changes, own_commits
from farsteer.runner.git import GitRepository
from farsteer.runner.paths import bounded_names, exists, shown, shown_names
from farsteer.runner.worktrees import checked_out_branch, find_commit

_MAX_LISTING = 16 * 1024 * 1024
_STATUSES = {
    "A": "added", "M": "modified", "D": "deleted", "R": "renamed", "C": "copied", "T": "type_changed", "U": "unmerged",
}  # fmt: skip
_DIFF = (
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--find-renames",
    "--no-color",
    "--ignore-submodules=dirty",
)


class Losses(NamedTuple):
    """What would be gone with a worktree and its branch."""

    changes: list[str]
    """Files with changes that are in no commit."""
    commits: list[str]
    commits_count: int

    def check(self, what: str) -> None:
        """Raise Conflict (`worktree_changes`, details `files` and `commits`) if there is anything."""
        if not self.changes and not self.commits_count:
            return
        parts = [f"{len(self.changes)} files with changes that are in no commit"] if self.changes else []
        parts += [f"{self.commits_count} commits that are in no other branch"] if self.commits_count else []
        raise Conflict(
            f"{what} would lose {' and '.join(parts)}; merge or commit them, or say `force`",
            code=ErrorCode.WORKTREE_CHANGES, files=bounded_names(self.changes), files_count=len(self.changes),
            commits=bounded_names(self.commits), commits_count=self.commits_count,
        )  # fmt: skip


async def find_losses(
    repository: GitRepository, worktree: Worktree, checkout: GitRepository | None
) -> Losses:
    """Return what would be lost. `checkout` is the worktree, None if its directory is gone."""
    tips = [await find_commit(repository, f"refs/heads/{worktree.branch}")]
    changes: list[str] = []
    if checkout is not None:
        tips.append(await find_commit(checkout, "HEAD"))
        changes = shown_names(await local_changes(checkout)) + await _filled_submodules(checkout)
    found = [tip for tip in dict.fromkeys(tips) if tip is not None]
    commits, count = await own_commits(repository, worktree.branch, *found) if found else ([], 0)
    return Losses(changes, commits, count)


async def _filled_submodules(checkout: GitRepository) -> list[str]:
    """Return the submodules with files: what is in them is not looked at, so it counts as changed."""
    listed = await checkout.run("ls-files", "--stage", "-z")
    names = [line.partition("\t")[2] for line in listed.out.split("\0") if line.startswith("160000 ")]
    return shown_names(f"{name}/" for name in names if exists(checkout.top / name / ".git"))


async def find_reference(repository: GitRepository, worktree: Worktree) -> tuple[str, str]:
    """Return the name and the commit of what a worktree is compared with.

    That is its base branch. If it has none, or that was deleted, it is the commit that it was made from.
    """
    if worktree.base_branch is not None:
        commit = await find_commit(repository, f"refs/heads/{worktree.base_branch}")
        if commit is not None:
            return worktree.base_branch, commit
    # Sessions of earlier versions have no base: what the repository has checked out is the best guess.
    named = worktree.base_commit or "HEAD"
    commit = await find_commit(repository, named)
    if commit is None:
        raise Unprocessable(f"the base of this worktree ({named}) is gone", code=ErrorCode.BASE_UNKNOWN)
    return named, commit


async def describe(
    repository: GitRepository, worktree: Worktree, checkout: GitRepository | None, session_id: str | None
) -> WorktreeView:
    _, base = await find_reference(repository, worktree)
    losses = await find_losses(repository, worktree, checkout)
    head = await find_commit(checkout or repository, "HEAD" if checkout else f"refs/heads/{worktree.branch}")
    return WorktreeView(
        path=worktree.path, repository=worktree.base, branch=worktree.branch, base_branch=worktree.base_branch,
        base_commit=worktree.base_commit, exists=checkout is not None, session_id=session_id, head=head,
        checked_out=None if checkout is None else await checked_out_branch(checkout),
        ahead=0 if head is None else await count_commits(repository, base, head),
        behind=0 if head is None else await count_commits(repository, head, base),
        changes=losses.changes[:LISTED], changes_count=len(losses.changes), unmerged=losses.commits,
        unmerged_count=losses.commits_count,
    )  # fmt: skip


async def diff(
    repository: GitRepository,
    worktree: Worktree,
    checkout: GitRepository,
    *,
    path: str | None,
    offset: int,
    limit: int,
) -> WorktreeDiff:
    """Return what the worktree changes against the last commit that it shares with its base.

    Args:
        repository: The repository that the worktree belongs to.
        worktree: What is known of it.
        checkout: Its directory.
        path: Only this file, by a name that an earlier answer showed.
        offset: How many files to skip.
        limit: How many files to return.

    Raises:
        NotFound: No changed file has this name.
    """
    if not 1 <= limit <= MAX_FILES or offset < 0:
        raise BadRequest(f"limit must be between 1 and {MAX_FILES}, and offset not negative")
    name, base = await find_reference(repository, worktree)
    head = await find_commit(checkout, "HEAD")
    common = await repository.run("merge-base", base, head or base)
    # Without a common commit everything differs.
    start = common.out.split("\n")[0] if common.code == 0 else await repository.check("mktree", stdin=b"")
    index = await _index_with_new_files(checkout)
    variables = {"GIT_INDEX_FILE": index}
    try:
        listed = await checkout.run_without_filters(
            *_DIFF, "--raw", "--numstat", "-z", start, variables=variables, limit=_MAX_LISTING
        )
        if listed.code != 0 and not listed.truncated:
            raise Unprocessable(f"git diff failed: {listed.err}", code=ErrorCode.WORKTREE_FAILED)
        if listed.truncated:
            raise Unprocessable("too many files differ to list them", code=ErrorCode.WORKTREE_FAILED)
        files = [*_parse(listed.out)]
        chosen = [file for file in files if path is None or shown(file.name) == path]
        if path is not None and not chosen:
            raise NotFound(f"{path} is not changed in this worktree")
        page = chosen[offset : offset + limit]
        names = [name for file in page for name in (file.old_name, file.name) if name is not None]
        patch = (
            await checkout.run_without_filters(
                *_DIFF, start, "--", *names, variables=variables, limit=MAX_PATCH
            )
            if names
            else None
        )
    finally:
        await checkout.run_program("rm", "-f", "--", index)
    shown_files = [file.change for file in files]
    return WorktreeDiff(
        base=name, base_commit=start, head=head or "", files=[file.change for file in page],
        files_count=len(chosen), additions=sum(file.additions or 0 for file in shown_files),
        deletions=sum(file.deletions or 0 for file in shown_files),
        next_offset=offset + limit if offset + limit < len(chosen) else None,
        patch="" if patch is None else os.fsencode(patch.out).decode(errors="replace"),
        truncated=patch is not None and patch.truncated,
    )  # fmt: skip


async def _index_with_new_files(checkout: GitRepository) -> str:
    """Return a copy of the index that also names the new files. The agent's own index stays as it is."""
    own = Path(await checkout.check("rev-parse", "--path-format=absolute", "--git-path", "index"))
    copy = str(own.with_name("farsteer-diff-index"))
    copied = await checkout.run_program("cp", "-f", "--", str(own), copy)
    if copied.code != 0:
        raise Unprocessable(
            f"the index of {checkout.top} cannot be read: {copied.err}", code=ErrorCode.WORKTREE_FAILED
        )
    added = await checkout.run_without_filters(
        "add", "--intent-to-add", "--ignore-errors", "--", ".", variables={"GIT_INDEX_FILE": copy}
    )
    if added.code not in (0, 1):
        raise Unprocessable(f"git add failed: {added.err}", code=ErrorCode.WORKTREE_FAILED)
    return copy


class _File(NamedTuple):
    name: str
    """As git gave it."""
    old_name: str | None
    change: FileChange


def _parse(listed: str) -> Iterator[_File]:
    """Read the output of `git diff --raw --numstat -z`: first a record for each file, then its counts."""
    fields = iter(listed.split("\0"))
    found: dict[str, tuple[str, str | None]] = {}
    counts: dict[str, tuple[int | None, int | None]] = {}
    for field in fields:
        if field.startswith(":"):
            status, name, old = field.rsplit(" ", 1)[1][:1], next(fields), None
            if status in "RC":
                old, name = name, next(fields)
            found[name] = (_STATUSES.get(status, "modified"), old)
        elif field:
            added, deleted, name = field.split("\t", 2)
            if not name:
                next(fields)
                name = next(fields)
            counts[name] = (_number(added), _number(deleted))
    for name, (status, old) in found.items():
        additions, deletions = counts.get(name, (None, None))
        change = FileChange(
            path=shown(name), status=status, old_path=None if old is None else shown(old), additions=additions,
            deletions=deletions,
        )  # fmt: skip
        yield _File(name, old, change)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
