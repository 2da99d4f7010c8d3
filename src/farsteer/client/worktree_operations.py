"""The operations of a client on the git worktrees of sessions."""

from __future__ import annotations

from collections.abc import Sequence

from farsteer.client.connection import CREATE_SECONDS, RestConnection, api_path
from farsteer.core import worktrees as api


class WorktreeOperations:
    """A base class of `AsyncClient`."""

    _connection: RestConnection

    async def worktree(self, session_id: str, *, timeout: float | None = None) -> api.WorktreeView:
        """Return the worktree of a session: its branch, and what is in no commit or in no other branch.

        Raises:
            Unprocessable: The session has no worktree (`worktree_missing`).
        """
        path = api_path("sessions", session_id, "worktree")
        return await self._connection.call(
            "GET", path, api.WorktreeView, wait=CREATE_SECONDS, timeout=timeout
        )

    async def diff(
        self,
        session_id: str,
        *,
        path: str | None = None,
        offset: int = 0,
        limit: int = 100,
        timeout: float | None = None,
    ) -> api.WorktreeDiff:
        """Return what a worktree changes against its base, also what is in no commit.

        Args:
            session_id: The session.
            path: Only this file, by the name that an earlier answer has.
            offset: How many files to skip. `next_offset` of an answer leads to the next page.
            limit: How many files to return, at most 1000.

        Returns:
            The files with their counts, and the changes as text. If `truncated` is true the text is cut off.
        """
        where = api_path("sessions", session_id, "worktree", "diff")
        query = {"path": path, "offset": offset, "limit": limit}
        return await self._connection.call(
            "GET", where, api.WorktreeDiff, query=query, wait=CREATE_SECONDS, timeout=timeout
        )

    async def merge(
        self, session_id: str, *, into: str | None = None, force: bool = False, timeout: float | None = None
    ) -> api.WorktreeMoved:
        """Merge the branch of a worktree into the branch that it was made from.

        Args:
            session_id: The session.
            into: Another branch to merge into.
            force: Merge what is in commits, although there are changes that are in none.

        Raises:
            Conflict: The same was changed in both (`merge_conflict`, details `files`), changes that are in no commit
                are in the way (`worktree_changes`), or an agent works there (`turn_running`). Nothing has changed.
        """
        path = api_path("sessions", session_id, "worktree", "merge")
        body = api.MergeWorktree(into=into, force=force)
        return await self._connection.call(
            "POST", path, api.WorktreeMoved, body=body, wait=CREATE_SECONDS, timeout=timeout
        )

    async def rebase(
        self, session_id: str, *, onto: str | None = None, timeout: float | None = None
    ) -> api.WorktreeMoved:
        """Rebase the branch of a worktree onto the branch that it was made from, or onto another base.

        Raises:
            Conflict: As for `merge`.
        """
        path = api_path("sessions", session_id, "worktree", "rebase")
        body = api.RebaseWorktree(onto=onto)
        return await self._connection.call(
            "POST", path, api.WorktreeMoved, body=body, wait=CREATE_SECONDS, timeout=timeout
        )

    async def name_branch(
        self, session_id: str, name: str | None = None, *, timeout: float | None = None
    ) -> api.BranchReady:
        """Make the branch of a worktree ready for a pull request, under another name if one is given.

        Nothing is pushed: `push` of the answer is the command that does it.

        Raises:
            BadRequest: This is no name for a branch.
            Conflict: There is such a branch.
        """
        path = api_path("sessions", session_id, "worktree", "branch")
        body = api.NameBranch(name=name)
        return await self._connection.call(
            "POST", path, api.BranchReady, body=body, wait=CREATE_SECONDS, timeout=timeout
        )

    async def discard(
        self, session_id: str, *, force: bool = False, timeout: float | None = None
    ) -> api.WorktreeView:
        """Stop the agent, and remove the worktree of a session and its branch. The session and its log stay.

        Args:
            session_id: The session.
            force: Also what is in no commit or in no other branch.

        Raises:
            Conflict: Something would be lost (`worktree_changes`, details `files` and `commits`).
        """
        path = api_path("sessions", session_id, "worktree")
        query = {"force": "true" if force else "false"}
        return await self._connection.call(
            "DELETE", path, api.WorktreeView, query=query, wait=CREATE_SECONDS, timeout=timeout
        )

    async def worktrees(self, machine_id: str, *, timeout: float | None = None) -> list[api.WorktreeView]:
        """Return the worktrees that were made on a machine. `session_id` is None if the session was deleted."""
        path = api_path("machines", machine_id, "worktrees")
        answer = await self._connection.call(
            "GET", path, api.WorktreesResponse, wait=CREATE_SECONDS, timeout=timeout
        )
        return answer.worktrees

    async def clean_worktrees(
        self,
        machine_id: str,
        *,
        paths: Sequence[str] | None = None,
        force: bool = False,
        timeout: float | None = None,
    ) -> api.WorktreesCleaned:
        """Remove worktrees whose session was deleted, unless something would be lost with them.

        Args:
            machine_id: The machine.
            paths: Only these.
            force: Also what is in no commit or in no other branch. Needs `paths`.

        Returns:
            What was removed, and what was kept with the reason.
        """
        path = api_path("machines", machine_id, "worktrees", "clean")
        body = api.CleanWorktrees(paths=None if paths is None else list(paths), force=force)
        return await self._connection.call(
            "POST", path, api.WorktreesCleaned, body=body, wait=CREATE_SECONDS, timeout=timeout
        )
