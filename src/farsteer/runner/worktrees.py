"""Git worktrees: a session can run on its own branch, in a directory beside the repository."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from farsteer.agents.process.user import AgentUser
from farsteer.core.errors import ErrorCode, Unprocessable
from farsteer.core.session import Worktree
from farsteer.runner.directories import SessionDirectories
from farsteer.runner.git import GitRepository

_MAX_ATTEMPTS = 5


async def create_worktree(
    directory: Path, hint: str | None, allowed: SessionDirectories, user: AgentUser | None = None
) -> Worktree:
    """Create a worktree on a new branch. If the name is taken, a number is appended.

    Args:
        directory: A directory inside the repository.
        hint: What the name is made from. None gives a random name.
        allowed: Where the repository and the worktree may be.
        user: The user that git runs as, if it is not the runner's own.

    Raises:
        Unprocessable: The directory is not in a repository, git failed, or the worktree or the repository would be
            where no session may run.
    """
    repository = await GitRepository.find(directory, user)
    top = repository.top
    # The repository's own files say where it is. Git writes there, so this may not be just anywhere.
    common = await repository.run("rev-parse", "--path-format=absolute", "--git-common-dir")
    for place in (top, Path(common.out)):
        allowed.check_place(place)
    wanted = _make_slug(hint) if hint else secrets.token_hex(4)
    reason = ""
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        name = wanted if attempt == 1 else f"{wanted}-{attempt}"
        path = top.parent / f"{top.name}-worktrees" / name
        branch = f"farsteer/{name}"
        allowed.check_place(path)
        if path.exists():
            reason = f"{path} exists"
            continue
        added = await repository.run_without_filters(
            "worktree", "add", "--quiet", "-b", branch, "--", str(path)
        )
        if added.code == 0:
            return Worktree(base=str(top), path=str(path), branch=branch, name=name)
        reason = added.err
        if "already exists" not in added.err:
            break
    raise Unprocessable(f"git could not create a worktree: {reason}", code=ErrorCode.WORKTREE_FAILED)


async def remove_worktree(worktree: Worktree, user: AgentUser | None = None) -> None:
    """Undo `create_worktree` for a session that could not be created."""
    repository = await GitRepository.find(Path(worktree.base), user)
    await repository.run("worktree", "remove", "--force", "--", worktree.path)
    await repository.run("branch", "-D", "--", worktree.branch)


def _make_slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50] or secrets.token_hex(4)
