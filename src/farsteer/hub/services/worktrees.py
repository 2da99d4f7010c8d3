"""Worktrees of sessions, and those that are left over. Git runs on their machine."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from farsteer.core import commands
from farsteer.core.errors import MachineOffline, NotCapable
from farsteer.core.wire import encode
from farsteer.core.worktrees import (
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
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.rules.bounds import invalid_answer
from farsteer.hub.store.base import Store
from farsteer.link.messages import WORKTREE_PROTOCOL

_NO_SESSION = ""
"""The session id of a command that goes to the machine itself."""

_MAX_ANSWER = 16 * 1024 * 1024

T = TypeVar("T")


class Worktrees:
    """Every request needs the scope `write`: it shows files of the machine that were never given to the hub."""

    def __init__(self, store: Store, links: MachineLinks) -> None:
        self._store = store
        self._links = links

    async def show(self, caller: Caller, session_id: str) -> WorktreeView:
        return await self._ask(caller, session_id, commands.ShowWorktree(), WorktreeView)

    async def diff(
        self, caller: Caller, session_id: str, *, path: str | None, offset: int, limit: int
    ) -> WorktreeDiff:
        command = commands.DiffWorktree(path=path, offset=offset, limit=limit)
        return await self._ask(caller, session_id, command, WorktreeDiff)

    async def merge(self, caller: Caller, session_id: str, request: MergeWorktree) -> WorktreeMoved:
        command = commands.MergeWorktree(into=request.into, force=request.force)
        return await self._ask(caller, session_id, command, WorktreeMoved)

    async def rebase(self, caller: Caller, session_id: str, request: RebaseWorktree) -> WorktreeMoved:
        return await self._ask(caller, session_id, commands.RebaseWorktree(onto=request.onto), WorktreeMoved)

    async def name_branch(self, caller: Caller, session_id: str, request: NameBranch) -> BranchReady:
        return await self._ask(caller, session_id, commands.NameBranch(name=request.name), BranchReady)

    async def discard(self, caller: Caller, session_id: str, *, force: bool) -> WorktreeView:
        return await self._ask(caller, session_id, commands.DiscardWorktree(force=force), WorktreeView)

    async def list(self, caller: Caller, machine_id: str) -> WorktreesResponse:
        """Return the worktrees that the machine's runner made."""
        return await self._ask_machine(caller, machine_id, commands.ListWorktrees(), WorktreesResponse)

    async def clean(self, caller: Caller, machine_id: str, request: CleanWorktrees) -> WorktreesCleaned:
        """Remove worktrees whose session was deleted, if nothing is lost with them."""
        command = commands.CleanWorktrees(paths=request.paths, force=request.force)
        return await self._ask_machine(caller, machine_id, command, WorktreesCleaned)

    async def _ask(
        self, caller: Caller, session_id: str, command: commands.WorktreeCommand, kind: type[T]
    ) -> T:
        caller.require(Scope.WRITE)
        row = await self._store.get_session(caller.namespace, session_id)
        return await self._call(caller.namespace, row.machine_id, session_id, command, kind)

    async def _ask_machine(
        self, caller: Caller, machine_id: str, command: commands.Command, kind: type[T]
    ) -> T:
        caller.require(Scope.WRITE)
        await self._store.get_machine(caller.namespace, machine_id)
        return await self._call(caller.namespace, machine_id, _NO_SESSION, command, kind)

    async def _call(
        self, namespace: str, machine_id: str, session_id: str, command: commands.Command, kind: type[T]
    ) -> T:
        if self._links.current_link_id(namespace, machine_id) is None:
            raise MachineOffline
        if not self._links.speaks(namespace, machine_id, WORKTREE_PROTOCOL):
            raise NotCapable("the runner of this machine is too old for this: update farsteer there")
        reply = await self._links.call(namespace, machine_id, session_id, command)
        if len(encode(reply.result)) > _MAX_ANSWER:
            raise invalid_answer("it is too large")
        try:
            return msgspec.convert(reply.result, kind)
        except msgspec.ValidationError as error:
            raise invalid_answer(str(error)) from None
