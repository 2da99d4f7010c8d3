"""Git worktrees: a session can run on its own branch, in a directory beside the repository."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from farsteer.agents.process.user import AgentUser
from farsteer.core.errors import ErrorCode, Unprocessable
from farsteer.core.session import Worktree
from farsteer.core.wire import is_utf8
from farsteer.runner.directories import SessionDirectories
from farsteer.runner.git import GitRepository
from farsteer.runner.paths import exists

_MAX_ATTEMPTS = 5
_HEADS = "refs/heads/"


class Base(NamedTuple):
    """What a worktree begins with."""

    branch: str | None
    """None if it is a tag or a commit."""
    commit: str


async def open_repository(
    directory: Path, allowed: SessionDirectories, user: AgentUser | None = None
) -> GitRepository:
    """Return the repository that `directory` is in.

    Raises Unprocessable if there is none, or if it is where no session may run.
    """
    repository = await GitRepository.find(directory, user)
    # The repository's own files say where it is. Git writes there, so this may not be just anywhere.
    for place in (repository.top, await common_directory(repository)):
        allowed.check_place(place)
    return repository


async def common_directory(repository: GitRepository) -> Path:
    """Return the directory with the objects and branches, which all worktrees of a repository share."""
    return Path((await repository.run("rev-parse", "--path-format=absolute", "--git-common-dir")).out)


async def create_worktree(
    directory: Path,
    hint: str | None,
    allowed: SessionDirectories,
    user: AgentUser | None = None,
    *,
    base: str | None = None,
    note: Callable[[Worktree], Awaitable[None]] | None = None,
) -> Worktree:
    """Create a worktree on a new branch. If the name is taken, a number is appended.

    Args:
        directory: A directory inside the repository.
        hint: What the name is made from. None gives a random name.
        allowed: Where the repository and the worktree may be.
        user: The user that git runs as, if it is not the runner's own.
        base: The branch, tag or commit to begin with. None is what the repository has checked out.
        note: Called with each place before git makes anything there.

    Raises:
        Unprocessable: The directory is not in a repository, there is no such base, git failed, or the worktree or the
            repository would be where no session may run.
    """
    repository = await open_repository(directory, allowed, user)
    top = repository.top
    if not is_utf8(os.fsencode(top)):
        raise Unprocessable(
            "the path of this repository is not UTF-8: no worktree can be made beside it",
            code=ErrorCode.WORKTREE_FAILED,
        )
    start = await find_base(repository, base)
    wanted = _make_slug(hint) if hint else secrets.token_hex(4)
    reason = ""
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        name = wanted if attempt == 1 else f"{wanted}-{attempt}"
        path = top.parent / f"{top.name}-worktrees" / name
        branch = f"farsteer/{name}"
        allowed.check_place(path)
        if exists(path):
            reason = f"{path} exists"
            continue
        worktree = Worktree(
            base=str(top), path=str(path), branch=branch, name=name, base_branch=start.branch, base_commit=start.commit
        )  # fmt: skip
        if await find_commit(repository, _HEADS + branch) is not None:
            reason = f"branch {branch} already exists"
            continue
        if note is not None:
            await note(worktree)
        added = await repository.run_without_filters(
            "worktree", "add", "--quiet", "-b", branch, "--", str(path), start.commit
        )
        if added.code == 0:
            return worktree
        reason = added.err
        if "already exists" not in added.err:
            break
    raise Unprocessable(f"git could not create a worktree: {reason}", code=ErrorCode.WORKTREE_FAILED)


async def remove_worktree(worktree: Worktree, user: AgentUser | None = None) -> None:
    """Remove a worktree and its branch, whatever is in them. Idempotent, also after a removal that was interrupted.

    Raises Unprocessable if its directory or the branch is still there afterwards.
    """
    repository = await GitRepository.find(Path(worktree.base), user)
    removed = await repository.run("worktree", "remove", "--force", "--", worktree.path)
    if exists(worktree.path):
        raise Unprocessable(
            f"git could not remove {worktree.path}: {removed.err}", code=ErrorCode.WORKTREE_FAILED
        )
    await repository.run("worktree", "prune")
    if await find_commit(repository, _HEADS + worktree.branch) is not None:
        await repository.check("branch", "-D", "--", worktree.branch)


async def find_base(repository: GitRepository, name: str | None) -> Base:
    """Return what a branch, a tag or a commit stands for; None is what is checked out. Raises Unprocessable."""
    if name is None:
        branch, commit = await checked_out_branch(repository), await find_commit(repository, "HEAD")
        if commit is None:
            raise Unprocessable(f"{repository.top} has no commit yet", code=ErrorCode.WORKTREE_FAILED)
        return Base(branch, commit)
    as_branch = await find_commit(repository, _HEADS + name)
    if as_branch is not None:
        return Base(name, as_branch)
    commit = await find_commit(repository, name)
    if commit is None:
        raise Unprocessable(
            f"{repository.top} has no branch, tag or commit {name!r}", code=ErrorCode.BASE_UNKNOWN
        )
    return Base(None, commit)


async def find_branch(repository: GitRepository, name: str) -> str:
    """Return the last commit of a branch. Raises Unprocessable if there is no branch of this name."""
    commit = await find_commit(repository, _HEADS + name)
    if commit is None:
        raise Unprocessable(f"{repository.top} has no branch {name!r}", code=ErrorCode.BASE_UNKNOWN)
    return commit


async def find_commit(repository: GitRepository, name: str) -> str | None:
    """Return the id of a commit, or None if the name stands for none."""
    if "\0" in name:
        return None
    ask = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    found = await repository.run(*ask)
    return found.out if found.code == 0 else None


async def checked_out_branch(repository: GitRepository) -> str | None:
    """Return the branch that is checked out in `top`, None if it is a commit (a detached HEAD)."""
    found = await repository.run("symbolic-ref", "--quiet", "HEAD")
    return found.out.removeprefix(_HEADS) if found.code == 0 else None


def _make_slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50] or secrets.token_hex(4)
