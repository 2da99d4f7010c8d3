"""Endpoints for the worktrees of sessions, and for those that are left over on a machine."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from farsteer.core.api import Path, RequestBody
from farsteer.core.worktrees import (
    MAX_FILES,
    BranchReady,
    CleanWorktrees,
    MergeWorktree,
    NameBranch,
    RebaseWorktree,
    WorktreeDiff,
    WorktreeMoved,
    WorktreesCleaned,
    WorktreesResponse,
    WorktreeView,
)
from farsteer.faces.rest.endpoint import AnyEndpoint, Endpoint, EndpointCall
from farsteer.faces.rest.sessions import MACHINE_ERRORS
from farsteer.hub import Scope


class DiffQuery(RequestBody):
    path: Path | None = None
    """Only this file, by the name that an earlier answer showed."""
    offset: Annotated[int, Meta(ge=0, le=2**31)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_FILES)] = 100


class DiscardQuery(RequestBody):
    force: bool = False
    """Also what is in no commit or in no other branch."""


async def show_worktree(call: EndpointCall[None, None]) -> WorktreeView:
    return await call.hub.worktrees.show(call.caller, call.id("sessionId"))


async def diff_worktree(call: EndpointCall[None, DiffQuery]) -> WorktreeDiff:
    query = call.query
    return await call.hub.worktrees.diff(
        call.caller, call.id("sessionId"), path=query.path, offset=query.offset, limit=query.limit
    )


async def merge_worktree(call: EndpointCall[MergeWorktree, None]) -> WorktreeMoved:
    return await call.hub.worktrees.merge(call.caller, call.id("sessionId"), call.body)


async def rebase_worktree(call: EndpointCall[RebaseWorktree, None]) -> WorktreeMoved:
    return await call.hub.worktrees.rebase(call.caller, call.id("sessionId"), call.body)


async def name_branch(call: EndpointCall[NameBranch, None]) -> BranchReady:
    return await call.hub.worktrees.name_branch(call.caller, call.id("sessionId"), call.body)


async def discard_worktree(call: EndpointCall[None, DiscardQuery]) -> WorktreeView:
    return await call.hub.worktrees.discard(call.caller, call.id("sessionId"), force=call.query.force)


async def list_worktrees(call: EndpointCall[None, None]) -> WorktreesResponse:
    return await call.hub.worktrees.list(call.caller, call.id("machineId"))


async def clean_worktrees(call: EndpointCall[CleanWorktrees, None]) -> WorktreesCleaned:
    return await call.hub.worktrees.clean(call.caller, call.id("machineId"), call.body)


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/sessions/{sessionId}/worktree", handler=show_worktree, scope=Scope.WRITE,
        response=WorktreeView, errors=MACHINE_ERRORS,
        tag="Worktrees", summary="Get the worktree of a session",
        description="Its branch, how far that and its base are apart, the files with changes that are in no commit, "
        "and the commits that are in no other branch. 422 `worktree_missing` if the session has none.",
    ),
    Endpoint(
        method="GET", path="/api/sessions/{sessionId}/worktree/diff", handler=diff_worktree, scope=Scope.WRITE,
        query=DiffQuery, response=WorktreeDiff, errors=MACHINE_ERRORS,
        tag="Worktrees", summary="Get what a worktree changes",
        description="Against the last commit that it shares with its base, also what is in no commit. Send "
        "`nextOffset` as `offset` to get the next files. `patch` has at most 256 KiB; if `truncated` is true, ask for "
        "one file at a time with `path`.",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/worktree/merge", handler=merge_worktree, scope=Scope.WRITE,
        body=MergeWorktree, body_optional=True, response=WorktreeMoved, errors=MACHINE_ERRORS,
        tag="Worktrees", summary="Merge the branch of a worktree into its base",
        description="The files of a directory in which the base is checked out follow it. 409 `merge_conflict` with "
        "`details.files` if both have changed the same, 409 `worktree_changes` if changes that are in no commit would "
        "be left out or overwritten, 409 `turn_running` while the agent, or one in that directory, works. Nothing "
        "has changed then.",
        example={"into": "main"},
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/worktree/rebase", handler=rebase_worktree, scope=Scope.WRITE,
        body=RebaseWorktree, body_optional=True, response=WorktreeMoved, errors=MACHINE_ERRORS,
        tag="Worktrees", summary="Rebase the branch of a worktree onto its base",
        description="Refused as a merge is. `onto` becomes the base.",
        example={"onto": "main"},
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/worktree/branch", handler=name_branch, scope=Scope.WRITE,
        body=NameBranch, body_optional=True, response=BranchReady, errors=MACHINE_ERRORS,
        tag="Worktrees", summary="Make the branch of a worktree ready for a pull request",
        description="Gives it another name if one is sent, and says how to push it and where to open the pull "
        "request. Nothing is pushed.",
        example={"name": "fix-the-login"},
    ),
    Endpoint(
        method="DELETE", path="/api/sessions/{sessionId}/worktree", handler=discard_worktree, scope=Scope.WRITE,
        query=DiscardQuery, response=WorktreeView, errors=MACHINE_ERRORS,
        tag="Worktrees", summary="Discard the worktree of a session and its branch",
        description="Stops the agent. The session with its log stays. 409 `worktree_changes` if something would be "
        "lost that is in no commit or in no other branch: `details` has `files` and `commits`. `force=true` removes "
        "it nevertheless.",
    ),
    Endpoint(
        method="GET", path="/api/machines/{machineId}/worktrees", handler=list_worktrees, scope=Scope.WRITE,
        response=WorktreesResponse, errors=MACHINE_ERRORS,
        tag="Worktrees", summary="List the worktrees that were made on a machine",
        description="`sessionId` is null if the session was deleted: such a worktree is left over.",
    ),
    Endpoint(
        method="POST", path="/api/machines/{machineId}/worktrees/clean", handler=clean_worktrees, scope=Scope.WRITE,
        body=CleanWorktrees, body_optional=True, response=WorktreesCleaned, errors=MACHINE_ERRORS,
        tag="Worktrees", summary="Remove worktrees that are left over",
        description="Those whose session was deleted, or those of them that `paths` names. What would lose something "
        "is kept and listed with the reason, unless `force` is true, which needs `paths`.",
        example={"paths": ["/home/me/project-worktrees/fix"]},
    ),
)  # fmt: skip
