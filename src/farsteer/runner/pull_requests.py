"""Making a branch ready for a pull request. Nothing is pushed: that needs a credential, which is the person's."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

from farsteer.core.errors import BadRequest, Conflict
from farsteer.core.session import Worktree
from farsteer.core.worktrees import LISTED, BranchReady
from farsteer.runner.branches import count_commits, local_changes
from farsteer.runner.git import GitRepository
from farsteer.runner.paths import shown_names
from farsteer.runner.worktree_views import find_reference
from farsteer.runner.worktrees import find_commit

_SSH_ADDRESS = re.compile(r"(?:[\w.-]+@)?([\w.-]+):(?!//)(.+)")
"""The short form, such as git@github.com:owner/name.git."""


async def rename_branch(repository: GitRepository, old: str, new: str) -> None:
    """Raises BadRequest if `new` is no name of a branch, and Conflict if there is such a branch."""
    valid = await repository.run("check-ref-format", f"refs/heads/{new}")
    if valid.code != 0 or new.startswith("-") or new == "HEAD":
        raise BadRequest(f"{new!r} is no name for a branch")
    if await find_commit(repository, f"refs/heads/{new}") is not None:
        raise Conflict(f"there is a branch {new} already")
    await repository.check("branch", "-m", "--", old, new)


async def describe(
    repository: GitRepository, worktree: Worktree, checkout: GitRepository, tip: str
) -> BranchReady:
    _, base = await find_reference(repository, worktree)
    changes = shown_names(await local_changes(checkout))
    remotes = (await repository.check("remote")).split("\n")
    remote = "origin" if "origin" in remotes else remotes[0] or None
    address = (
        None if remote is None else (await repository.run("config", "--get", f"remote.{remote}.url")).out
    )
    return BranchReady(
        branch=worktree.branch, base_branch=worktree.base_branch, commits=await count_commits(repository, base, tip),
        changes=changes[:LISTED], changes_count=len(changes), remote=remote,
        push=["git", "-C", worktree.path, "push", "--set-upstream", remote or "REMOTE", worktree.branch],
        compare=compare_page(address or "", worktree.base_branch, worktree.branch),
    )  # fmt: skip


def compare_page(address: str, base: str | None, branch: str) -> str | None:
    """Return the page on which a pull request is opened, for a remote at GitHub or GitLab; else None.

    It has no user and no password, which the address of a remote may have.
    """
    if short := _SSH_ADDRESS.fullmatch(address):
        host, path = short[1], short[2]
    else:
        try:
            parts = urlsplit(address)
            host, path = parts.hostname or "", parts.path
        except ValueError:
            return None
    project = path.strip("/").removesuffix(".git")
    if not project:
        return None
    page, name = f"https://{host}/{quote(project)}", quote(branch)
    if "github" in host:
        return (
            f"{page}/compare/{quote(base)}...{name}?expand=1" if base else f"{page}/compare/{name}?expand=1"
        )
    if "gitlab" in host:
        return f"{page}/-/merge_requests/new?merge_request%5Bsource_branch%5D={quote(branch, safe='')}"
    return None
