"""Git worktrees: a session can run on its own branch, in a directory beside the repository."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from pathlib import Path
from typing import NamedTuple

from farsteer.agents.process.environment import scrub_environment
from farsteer.core.errors import ErrorCode, Unprocessable
from farsteer.core.session import Worktree

_GIT_SECONDS = 60.0
_MAX_ATTEMPTS = 5


async def create_worktree(directory: Path, hint: str | None) -> Worktree:
    """Create a worktree on a new branch. If the name is taken, a number is appended.

    Args:
        directory: A directory inside the repository.
        hint: What the name is made from. None gives a random name.

    Raises:
        Unprocessable: The directory is not in a repository, or git failed.
    """
    top = await _run_git(directory, "rev-parse", "--show-toplevel")
    if top.code != 0:
        raise Unprocessable(f"{directory} is not in a git repository", code=ErrorCode.NOT_A_REPOSITORY)
    base = Path(top.out)
    wanted = _make_slug(hint) if hint else secrets.token_hex(4)
    reason = ""
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        name = wanted if attempt == 1 else f"{wanted}-{attempt}"
        path = base.parent / f"{base.name}-worktrees" / name
        branch = f"farsteer/{name}"
        if path.exists():
            reason = f"{path} exists"
            continue
        added = await _run_git(base, "worktree", "add", "--quiet", "-b", branch, "--", str(path))
        if added.code == 0:
            return Worktree(base=str(base), path=str(path), branch=branch, name=name)
        reason = added.err
        if "already exists" not in added.err:
            break
    raise Unprocessable(f"git could not create a worktree: {reason}", code=ErrorCode.WORKTREE_FAILED)


async def remove_worktree(worktree: Worktree) -> None:
    """Undo `create_worktree` for a session that could not be created."""
    base = Path(worktree.base)
    await _run_git(base, "worktree", "remove", "--force", "--", worktree.path)
    await _run_git(base, "branch", "-D", "--", worktree.branch)


def _make_slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50] or secrets.token_hex(4)


class _GitResult(NamedTuple):
    code: int
    out: str
    err: str


async def _run_git(directory: Path, *args: str) -> _GitResult:
    process = await asyncio.create_subprocess_exec(
        "git", "-C", str(directory), *args,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=scrub_environment(os.environ, extra={"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}), start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_GIT_SECONDS):
            out, err = await process.communicate()
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise Unprocessable(
            f"git did not finish within {_GIT_SECONDS:g} s", code=ErrorCode.WORKTREE_FAILED
        ) from error
    return _GitResult(
        process.returncode or 0, out.decode(errors="replace").strip(), err.decode(errors="replace").strip()
    )
