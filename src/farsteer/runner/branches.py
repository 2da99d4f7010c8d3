"""Merging and rebasing in the repository's objects alone, and moving a branch to the result.

No file is touched before the result is known, so a conflict leaves nothing behind. A branch that is checked out takes
its files along: git refuses that as a whole if it would overwrite a change. Only then does the branch move.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from farsteer.core.errors import Conflict, ErrorCode, Unprocessable
from farsteer.core.text import clip
from farsteer.core.worktrees import LISTED
from farsteer.runner.directories import SessionDirectories
from farsteer.runner.git import GitRepository
from farsteer.runner.paths import bounded_names, is_directory, shown_names
from farsteer.runner.worktrees import find_commit

_MAX_COMMITS = 1000
_MAX_SUBJECT = 200
_NEEDED = "git 2.38 or later is needed for this"


class Result(NamedTuple):
    commit: str
    commits: int
    """How many commits are new to the branch that was merged into, or are on top of the new base."""


async def merge(repository: GitRepository, into: str, commit: str, message: str) -> Result:
    """Return the commit in which `commit` is merged into the commit `into`. Nothing points to it yet.

    Raises Conflict (`merge_conflict`, details `files`).
    """
    count = await count_commits(repository, into, commit)
    if count == 0:
        return Result(into, 0)
    if await count_commits(repository, commit, into) == 0:
        return Result(commit, count)
    tree = await _merge_trees(repository, into, commit)
    made = await _commit(repository, tree, (into, commit), message)
    return Result(made, count)


async def rebase(repository: GitRepository, onto: str, commit: str) -> Result:
    """Return the last of the commits that `commit` has and `onto` has not, copied on top of `onto`.

    Commits that merge others are left out, and so are those whose change is there already, as git itself does.
    Raises Conflict (`merge_conflict`, details `files` and `commit`).
    """
    if await count_commits(repository, commit, onto) == 0:
        return Result(commit, await count_commits(repository, onto, commit))
    listed = await repository.check(
        "rev-list", "--right-only", "--cherry-pick", "--no-merges", "--topo-order", "--reverse", f"{onto}...{commit}"
    )  # fmt: skip
    originals = listed.split()
    if len(originals) > _MAX_COMMITS:
        raise Unprocessable(
            f"{len(originals)} commits are too many to rebase here (at most {_MAX_COMMITS})",
            code=ErrorCode.WORKTREE_FAILED,
        )
    committer = await repository.check("var", "GIT_COMMITTER_IDENT", variables=await _identity(repository))
    tip, count = onto, 0
    for original in originals:
        copied = await _copy_commit(repository, original, tip, committer)
        if copied is not None:
            tip, count = copied, count + 1
    return Result(tip, count)


async def _copy_commit(repository: GitRepository, original: str, onto: str, committer: str) -> str | None:
    """Return a copy of a commit on top of `onto`, None if that has its change already."""
    content = await repository.check("cat-file", "commit", original)
    head, _, message = content.partition("\n\n")
    headers = [line.split(" ", 1) for line in head.split("\n") if not line.startswith(" ")]
    parents = [value for name, value in headers if name == "parent"]
    before = f"{parents[0]}^{{tree}}" if parents else await repository.check("mktree", stdin=b"")
    # Three commits without any history of their own: git merges exactly what this commit changes.
    common = await _commit(repository, before, (), "before")
    ours = await _commit(repository, f"{onto}^{{tree}}", (common,), "onto")
    theirs = await _commit(repository, f"{original}^{{tree}}", (common,), "change")
    tree = await _merge_trees(repository, ours, theirs, commit=original)
    if tree == await repository.check("rev-parse", f"{onto}^{{tree}}"):
        return None
    kept = [f"{name} {value}" for name, value in headers if name in ("author", "encoding")]
    lines = [f"tree {tree}", f"parent {onto}", *kept[:1], f"committer {committer}", *kept[1:]]
    raw = os.fsencode("\n".join(lines) + f"\n\n{message}\n")
    return await repository.check("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw)


async def _merge_trees(repository: GitRepository, ours: str, theirs: str, **details: str) -> str:
    done = await repository.run_without_filters(
        "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs
    )
    if done.code == 0:
        return done.out.split("\0")[0]
    if done.code == 1:
        files = shown_names([name for name in dict.fromkeys(done.out.split("\0")[1:]) if name])
        raise Conflict(
            f"{len(files)} files conflict: {', '.join(files[:5])}{', …' if len(files) > 5 else ''}",
            code=ErrorCode.MERGE_CONFLICT, files=bounded_names(files), count=len(files), **details,
        )  # fmt: skip
    reason = _NEEDED if "usage:" in done.err or "unknown option" in done.err else done.err
    raise Unprocessable(f"git could not merge: {reason}", code=ErrorCode.WORKTREE_FAILED)


async def _commit(repository: GitRepository, tree: str, parents: tuple[str, ...], message: str) -> str:
    tree = await repository.check("rev-parse", "--verify", tree)
    arguments = [argument for parent in parents for argument in ("-p", parent)]
    return await repository.check(
        "commit-tree", tree, *arguments, stdin=message.encode(), variables=await _identity(repository)
    )


async def _identity(repository: GitRepository) -> dict[str, str]:
    """Return who merges: the person that git knows here, else Farsteer."""
    name = await repository.person("name") or "Farsteer"
    email = await repository.person("email") or "farsteer@localhost"
    return {f"GIT_{role}_{field}": value for role in ("AUTHOR", "COMMITTER") for field, value in (
        ("NAME", name), ("EMAIL", email),
    )}  # fmt: skip


async def count_commits(repository: GitRepository, without: str, commit: str) -> int:
    """Return how many commits `commit` has that `without` has not."""
    return int(await repository.check("rev-list", "--count", commit, f"^{without}"))


# -- moving a branch


async def find_checkout(repository: GitRepository, branch: str) -> Path | None:
    """Return the directory in which a branch is checked out, if there is one."""
    listed = await repository.run("worktree", "list", "--porcelain", "-z")
    if listed.code != 0:
        raise Unprocessable(f"git could not list the worktrees: {_NEEDED}", code=ErrorCode.WORKTREE_FAILED)
    directory: Path | None = None
    for line in listed.out.split("\0"):
        if line.startswith("worktree "):
            directory = Path(line.removeprefix("worktree "))
        elif line == "bare":
            directory = None
        elif line == f"branch refs/heads/{branch}" and directory is not None and is_directory(directory):
            return directory
    return None


async def move_branch(
    repository: GitRepository,
    branch: str,
    old: str,
    new: str,
    allowed: SessionDirectories,
    checkout: Path | None,
) -> None:
    """Move a branch from one commit to another, with the files of the directory where it is checked out.

    May be repeated after it was interrupted. Raises Conflict if a change there would be overwritten
    (`worktree_changes`, details `files`) or if the branch is at neither commit; then nothing has changed.
    """
    present = await find_commit(repository, f"refs/heads/{branch}")
    if present == new != old:
        return
    if present != old:
        raise Conflict(f"somebody else has changed branch {branch} meanwhile: try again")
    if checkout is not None:
        allowed.check_place(checkout)
        await _take_files(await GitRepository.find(checkout, repository.user), old, new)
    moved = await repository.run(
        "update-ref", "-m", f"farsteer: from {old[:12]}", f"refs/heads/{branch}", new, old
    )
    if moved.code == 0:
        return
    if checkout is not None:
        await _take_files(await GitRepository.find(checkout, repository.user), new, old)
    raise Conflict(f"somebody else has changed branch {branch} meanwhile: try again ({moved.err})")


async def _take_files(checkout: GitRepository, old: str, new: str) -> None:
    await checkout.run_without_filters("update-index", "-q", "--refresh")
    taken = await checkout.run_without_filters("read-tree", "-m", "-u", "--no-recurse-submodules", old, new)
    if taken.code == 0:
        return
    differing = await checkout.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new)
    files = shown_names(sorted({*differing.out.split("\0")} & {*await local_changes(checkout)} - {""}))
    if not files:
        raise Unprocessable(
            f"git could not change {checkout.top}: {taken.err}", code=ErrorCode.WORKTREE_FAILED
        )
    raise Conflict(
        f"{checkout.top} has changes that are in no commit and would be overwritten: {', '.join(files[:5])}",
        code=ErrorCode.WORKTREE_CHANGES, files=bounded_names(files), count=len(files), directory=str(checkout.top),
    )  # fmt: skip


async def local_changes(checkout: GitRepository, limit: int | None = None) -> list[str]:
    """Return the files with changes that are in no commit, also new ones that are not ignored, as git names them."""
    ask = (
        "status",
        "--porcelain",
        "-z",
        "--no-renames",
        "--untracked-files=all",
        "--ignore-submodules=dirty",
    )
    found = await checkout.run_without_filters(*ask, limit=limit)
    if found.code != 0 and not found.truncated:
        raise Unprocessable(f"git status failed: {found.err}", code=ErrorCode.WORKTREE_FAILED)
    return [line[3:] for line in found.out.split("\0") if len(line) > 3]


async def own_commits(repository: GitRepository, branch: str, *commits: str) -> tuple[list[str], int]:
    """Return the commits that are in no other branch, no tag and no branch of a remote: the first 100, and how many."""
    others = ("--not", f"--exclude={branch}", "--branches", "--tags", "--remotes")
    count = int(await repository.check("rev-list", "--count", *commits, *others))
    if count == 0:
        return [], 0
    listed = await repository.check(
        "log", "--no-show-signature", "--no-decorate", "-z", f"--max-count={LISTED}", "--format=%h %s", *commits,
        *others,
    )  # fmt: skip
    return [clip(line, _MAX_SUBJECT) for line in shown_names(listed.split("\0")) if line], count
