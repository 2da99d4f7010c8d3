"""What a hub asks of the worktrees of this machine.

Of each repository one thing is changed at a time. What changes files of an agent is refused while it works, and it
begins no turn meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from farsteer.agents.process.user import AgentUser
from farsteer.core import commands
from farsteer.core.errors import BadRequest, Conflict, ErrorCode, FarsteerError, NotFound, Unprocessable
from farsteer.core.session import Worktree
from farsteer.core.worktrees import (
    BranchReady,
    KeptWorktree,
    WorktreeMoved,
    WorktreesCleaned,
    WorktreesResponse,
    WorktreeView,
)
from farsteer.runner import branches, pull_requests, worktree_views
from farsteer.runner.directories import SessionDirectories
from farsteer.runner.git import GitRepository
from farsteer.runner.paths import are_same, bounded_names, exists, is_directory, real_path, shown_names
from farsteer.runner.session.actor import SessionActor
from farsteer.runner.session.files import HoldFiles, NoteChange, ReleaseFiles
from farsteer.runner.worktree_records import BranchMove, MadeWorktree, WorktreeRecords
from farsteer.runner.worktrees import (
    checked_out_branch,
    common_directory,
    find_base,
    find_branch,
    find_commit,
    open_repository,
    remove_worktree,
)

_logger = logging.getLogger(__name__)


class _Opened(NamedTuple):
    worktree: Worktree
    repository: GitRepository
    common: str
    checkout: GitRepository | None
    """None if the directory of the worktree is gone."""

    def existing(self) -> GitRepository:
        """Raises Unprocessable (`worktree_missing`)."""
        if self.checkout is None:
            raise Unprocessable(
                f"the worktree {self.worktree.path} does not exist any more", code=ErrorCode.WORKTREE_MISSING
            )
        return self.checkout


class WorktreeCommands:
    def __init__(
        self,
        home: Path,
        directories: SessionDirectories,
        user: AgentUser | None,
        actors: Mapping[str, SessionActor],
    ) -> None:
        self.records = WorktreeRecords(home)
        self._directories = directories
        self._user = user
        self._actors = actors
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._changes: set[asyncio.Task[Any]] = set()

    async def recover(self) -> None:
        """Finish what an earlier process of this runner was killed in. What cannot be finished is logged and kept."""
        for move in self.records.moves:
            try:
                await self._finish_move(move)
            except (FarsteerError, OSError) as error:
                _logger.error("branch %s of %s: %s", move.branch, move.repository, error)
        for made in [one for one in self.records.made if one.discarded]:
            try:
                await self._remove(made.worktree)
            except (FarsteerError, OSError) as error:
                _logger.error("worktree %s: %s", made.worktree.path, error)

    async def close(self) -> None:
        """Wait until what is being changed is changed."""
        await asyncio.gather(*self._changes, return_exceptions=True)

    # -- of a session

    async def execute(self, actor: SessionActor, command: commands.WorktreeCommand) -> object:
        """Execute a command about the worktree of a session and return its result. Raises FarsteerError."""
        worktree = self._worktree_of(actor)
        match command:
            case commands.ShowWorktree():
                return await self._show(worktree, actor.spec.id)
            case commands.DiffWorktree():
                opened = await self._open(worktree)
                async with self._locks[opened.common]:
                    return await worktree_views.diff(
                        opened.repository, opened.worktree, opened.existing(), path=command.path,
                        offset=command.offset, limit=command.limit,
                    )  # fmt: skip
            case commands.MergeWorktree():
                return await self._finish(self._merge(actor, worktree, command))
            case commands.RebaseWorktree():
                return await self._finish(self._rebase(actor, worktree, command))
            case commands.NameBranch():
                return await self._finish(self._name_branch(actor, worktree, command))
            case commands.DiscardWorktree():
                return await self._finish(self._discard(actor, worktree, force=command.force))

    def _worktree_of(self, actor: SessionActor) -> Worktree:
        # A fork works in the worktree of its source.
        made = self.records.find(actor.state.directory)
        worktree = actor.state.worktree or (None if made is None else made.worktree)
        if worktree is None:
            raise Unprocessable("this session has no worktree", code=ErrorCode.WORKTREE_MISSING)
        return worktree

    async def _finish(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Finish `work` also if the caller is cancelled, because its link ends."""
        task = asyncio.create_task(work)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    async def _open(self, worktree: Worktree) -> _Opened:
        repository = await open_repository(Path(worktree.base), self._directories, self._user)
        common = real_path(await common_directory(repository))
        checkout = None
        if is_directory(worktree.path):
            checkout = await open_repository(Path(worktree.path), self._directories, self._user)
            if real_path(await common_directory(checkout)) != common or not are_same(
                checkout.top, worktree.path
            ):
                raise Conflict(
                    f"{worktree.path} is no worktree of {worktree.base} any more",
                    code=ErrorCode.WORKTREE_FAILED,
                )
            if await find_commit(repository, f"refs/heads/{worktree.branch}") is None:
                # It was renamed, and somebody was killed before that was noted.
                worktree = replace(worktree, branch=await checked_out_branch(checkout) or worktree.branch)
        return _Opened(worktree, repository, common, checkout)

    async def _show(self, worktree: Worktree, session_id: str | None) -> WorktreeView:
        opened = await self._open(worktree)
        view = await worktree_views.describe(opened.repository, opened.worktree, opened.checkout, session_id)
        unfinished = [move.branch for move in self.records.moves if move.common == opened.common]
        if unfinished:
            text = f"moving branch {unfinished[0]} was interrupted; the next change of this repository finishes it"
            return replace(view, problem=text)
        if opened.checkout is not None and view.checked_out != view.branch:
            return replace(view, problem=f"{view.checked_out or view.head} is checked out, not its branch")
        return view

    @asynccontextmanager
    async def _changing(self, worktree: Worktree) -> AsyncGenerator[_Opened]:
        """Open a worktree to change it or its repository, when nobody else does."""
        opened = await self._open(worktree)
        async with self._locks[opened.common]:
            for move in [one for one in self.records.moves if one.common == opened.common]:
                await self._finish_move(move)
            async with self._hold(Path(worktree.path)):
                yield opened

    @asynccontextmanager
    async def _hold(self, directory: Path) -> AsyncGenerator[None]:
        """Let no agent begin a turn that works in or above `directory`. Raises Conflict (`turn_running`)."""
        real = Path(real_path(directory))
        async with AsyncExitStack() as held:
            for actor in [*self._actors.values()]:
                works_in = Path(actor.state.directory)
                if actor.is_running and (real.is_relative_to(works_in) or works_in.is_relative_to(real)):
                    await actor.execute(HoldFiles())
                    held.push_async_callback(_release, actor)
            yield

    async def _merge(
        self, actor: SessionActor, worktree: Worktree, command: commands.MergeWorktree
    ) -> WorktreeMoved:
        async with self._changing(worktree) as opened:
            repository, worktree = opened.repository, opened.worktree
            into = command.into or worktree.base_branch
            if into is None:
                raise BadRequest("this worktree was not made from a branch: say which one to merge into")
            target, tip = await find_branch(repository, into), await self._own_tip(opened)
            changes = [] if command.force else await branches.local_changes(opened.existing())
            if changes:
                raise _uncommitted(changes, "they would not be merged: commit them, or say `force`")
            message = f"Merge branch '{worktree.branch}' into {into}\n"
            result = await branches.merge(repository, target, tip, message)
            directory = await branches.find_checkout(repository, into)
            moved = WorktreeMoved(
                branch=into, commit=result.commit, previous=target, commits=result.commits,
                directory=None if directory is None else str(directory),
            )  # fmt: skip
            if result.commit == target:
                return moved
            async with AsyncExitStack() as held:
                if directory is not None and not are_same(directory, worktree.path):
                    await held.enter_async_context(self._hold(directory))
                await self._move(opened, into, target, result.commit, directory)
            commits = "1 commit" if result.commits == 1 else f"{result.commits} commits"
            await _note(actor, NoteChange(f"{commits} of {worktree.branch} merged into {into}"))
            return moved

    async def _rebase(
        self, actor: SessionActor, worktree: Worktree, command: commands.RebaseWorktree
    ) -> WorktreeMoved:
        async with self._changing(worktree) as opened:
            repository, worktree, checkout = opened.repository, opened.worktree, opened.existing()
            wanted = command.onto or worktree.base_branch
            if wanted is None:
                raise BadRequest("this worktree was not made from a branch: say what to rebase onto")
            base, tip = await find_base(repository, wanted), await self._own_tip(opened)
            changes = await branches.local_changes(checkout)
            if changes:
                raise _uncommitted(changes, "commit them before a rebase")
            result = await branches.rebase(repository, base.commit, tip)
            if result.commit != tip:
                await self._move(opened, worktree.branch, tip, result.commit, checkout.top)
            known = replace(worktree, base_branch=base.branch, base_commit=base.commit)
            await self._note_worktree(worktree, known)
            text = f"{worktree.branch} rebased onto {wanted}: {result.commits} commits on top of it"
            await _note(actor, NoteChange(text, known))
            return WorktreeMoved(
                branch=worktree.branch, commit=result.commit, previous=tip, commits=result.commits,
                directory=worktree.path,
            )  # fmt: skip

    async def _name_branch(
        self, actor: SessionActor, worktree: Worktree, command: commands.NameBranch
    ) -> BranchReady:
        async with self._changing(worktree) as opened:
            repository, worktree, checkout = opened.repository, opened.worktree, opened.existing()
            tip = await self._own_tip(opened)
            if command.name is not None and command.name != worktree.branch:
                await pull_requests.rename_branch(repository, worktree.branch, command.name)
                known = replace(worktree, branch=command.name)
                await self._note_worktree(worktree, known)
                await _note(actor, NoteChange(f"branch {worktree.branch} is now {command.name}", known))
                worktree = known
            return await pull_requests.describe(repository, worktree, checkout, tip)

    async def _discard(self, actor: SessionActor, worktree: Worktree, *, force: bool) -> WorktreeView:
        async with self._changing(worktree) as opened:
            worktree = opened.worktree
            if not force:
                losses = await worktree_views.find_losses(opened.repository, worktree, opened.checkout)
                losses.check("discarding this worktree")
            made = await self._note_discarded(worktree, actor.spec.id)
            for other in [*self._actors.values()]:
                if other.is_running and Path(other.state.directory).is_relative_to(worktree.path):
                    await other.execute(commands.Stop())
            await self._remove_now(made)
            await _note(
                actor, NoteChange(f"worktree {worktree.path} and branch {worktree.branch} were discarded")
            )
            return WorktreeView(
                path=worktree.path, repository=worktree.base, branch=worktree.branch,
                base_branch=worktree.base_branch, base_commit=worktree.base_commit, exists=False,
                session_id=actor.spec.id,
            )  # fmt: skip

    async def _own_tip(self, opened: _Opened) -> str:
        """Return the last commit of the worktree's branch. Raises Conflict if something else is checked out."""
        present = await checked_out_branch(opened.existing())
        if present != opened.worktree.branch:
            own = opened.worktree
            raise Conflict(f"{own.path} has {present or 'a commit'} checked out, not its branch {own.branch}")
        return await find_branch(opened.repository, opened.worktree.branch)

    async def _note_worktree(self, old: Worktree, new: Worktree) -> None:
        made = self.records.find(old.path)
        if made is not None:
            await self.records.put(replace(made, worktree=new))

    async def _note_discarded(self, worktree: Worktree, session: str) -> MadeWorktree:
        made = self.records.find(worktree.path) or MadeWorktree(worktree, session)
        made = replace(made, worktree=worktree, discarded=True)
        await self.records.put(made)
        return made

    async def _remove_now(self, made: MadeWorktree) -> None:
        try:
            await self._remove(made.worktree)
        except FarsteerError:
            # It is still used: the next start must not remove what is done there from now on.
            await self.records.put(replace(made, discarded=False))
            raise

    async def _remove(self, worktree: Worktree) -> None:
        try:
            await remove_worktree(worktree, self._user)
        except Unprocessable as error:
            # Without the repository nothing of it is left but files, which are for their owner to remove.
            if error.code is not ErrorCode.NOT_A_REPOSITORY or exists(worktree.path):
                raise
        await self.records.remove(worktree.path)

    # -- moving a branch

    async def _move(self, opened: _Opened, branch: str, old: str, new: str, directory: Path | None) -> None:
        move = BranchMove(str(opened.repository.top), opened.common, branch, old, new)
        await self.records.begin(move)
        try:
            await branches.move_branch(opened.repository, branch, old, new, self._directories, directory)
        except FarsteerError as error:
            if not error.details.get("unfinished"):
                await self.records.end(move)
            raise
        await self.records.end(move)

    async def _finish_move(self, move: BranchMove) -> None:
        """Finish a move that was interrupted. Raises Conflict with what to do if that is not possible."""
        try:
            repository = await open_repository(Path(move.repository), self._directories, self._user)
            if await find_commit(repository, f"refs/heads/{move.branch}") in (move.old, move.new):
                directory = await branches.find_checkout(repository, move.branch)
                await branches.move_branch(
                    repository, move.branch, move.old, move.new, self._directories, directory
                )
        except Unprocessable as error:
            if error.code is not ErrorCode.NOT_A_REPOSITORY:
                raise Conflict(
                    f"moving branch {move.branch} to {move.new[:12]} was interrupted and cannot be finished: "
                    f"{error.message}",
                    code=ErrorCode.WORKTREE_FAILED,
                ) from error
        await self.records.end(move)

    # -- of the machine

    async def list(self) -> WorktreesResponse:
        """Return the worktrees that this runner made and nobody removed."""
        found: list[WorktreeView] = []
        for made in self.records.made:
            worktree, session = made.worktree, made.session if made.session in self._actors else None
            try:
                view = await self._show(worktree, session)
            except FarsteerError as error:
                view = WorktreeView(
                    path=worktree.path, repository=worktree.base, branch=worktree.branch,
                    base_branch=worktree.base_branch, base_commit=worktree.base_commit,
                    exists=exists(worktree.path), session_id=session, problem=error.message,
                )  # fmt: skip
            if session is None and not view.exists and view.head is None:
                # Git had not made it yet, or nothing is left of it.
                await self.records.remove(worktree.path)
            else:
                found.append(view)
        return WorktreesResponse(worktrees=found)

    async def clean(self, command: commands.CleanWorktrees) -> WorktreesCleaned:
        """Remove worktrees whose session was deleted: all that lose nothing, or those that are named."""
        if command.force and not command.paths:
            raise BadRequest("force needs the paths of the worktrees to remove")
        return await self._finish(self._clean(command))

    async def _clean(self, command: commands.CleanWorktrees) -> WorktreesCleaned:
        removed: list[str] = []
        kept: list[KeptWorktree] = []
        paths = command.paths
        if paths is None:
            paths = [one.worktree.path for one in self.records.made if one.session not in self._actors]
        for path in paths:
            try:
                await self._clean_one(path, force=command.force)
                removed.append(path)
            except FarsteerError as error:
                lost = error.details
                kept.append(
                    KeptWorktree(
                        path=path, code=error.code.value, reason=error.message, changes=lost.get("files", []),
                        unmerged=lost.get("commits", []),
                    )
                )  # fmt: skip
        return WorktreesCleaned(removed=removed, kept=kept)

    async def _clean_one(self, path: str, *, force: bool) -> None:
        made = self.records.find(path)
        if made is None:
            raise NotFound("this runner made no such worktree")
        if made.session in self._actors:
            raise Conflict(f"session {made.session} works there: discard it there", session=made.session)
        async with self._changing(made.worktree) as opened:
            if not force and not made.discarded:
                losses = await worktree_views.find_losses(opened.repository, opened.worktree, opened.checkout)
                losses.check("removing this worktree")
            await self._remove_now(await self._note_discarded(opened.worktree, made.session))


async def _release(actor: SessionActor) -> None:
    # A session that was deleted meanwhile has nothing to hold.
    with suppress(FarsteerError):
        await actor.execute(ReleaseFiles())


async def _note(actor: SessionActor, change: NoteChange) -> None:
    # What was done is done, whether or not the session still has a log.
    with suppress(FarsteerError):
        await actor.execute(change)


def _uncommitted(changes: list[str], advice: str) -> Conflict:
    files = shown_names(changes)
    return Conflict(
        f"{len(files)} files have changes that are in no commit; {advice}", code=ErrorCode.WORKTREE_CHANGES,
        files=bounded_names(files), files_count=len(files),
    )  # fmt: skip
