"""The worktrees that this runner made, and the branches that it is about to move: files of the runner's home.

A worktree is written down before git makes it, and a step that changes several things before it begins. Whoever is
killed in between, the next start knows what to finish, and nothing else is ever removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from farsteer.core.session import Worktree
from farsteer.core.wire import WireStruct, decode, encode
from farsteer.storage.home import read_private, write_secret

_FILE = "worktrees.json"


class MadeWorktree(WireStruct):
    """A worktree that was made for a session."""

    worktree: Worktree
    session: str
    discarded: bool = False
    """Somebody has decided that it goes, with everything in it."""


class BranchMove(WireStruct):
    """A branch is moved from one commit to another, with the files of the directory where it is checked out."""

    repository: str
    """The directory of the repository."""
    common: str
    """The directory with its branches, by which it is known."""
    branch: str
    old: str
    new: str


class _Records(WireStruct):
    made: tuple[MadeWorktree, ...] = ()
    moves: tuple[BranchMove, ...] = ()


class WorktreeRecords:
    """Every change is on the disk when its method returns."""

    def __init__(self, home: Path) -> None:
        self._path = home / _FILE
        self._records = self._read()
        self._writing = asyncio.Lock()

    @property
    def made(self) -> tuple[MadeWorktree, ...]:
        return self._records.made

    @property
    def moves(self) -> tuple[BranchMove, ...]:
        return self._records.moves

    def find(self, path: str) -> MadeWorktree | None:
        return next((one for one in self.made if one.worktree.path == path), None)

    async def put(self, made: MadeWorktree) -> None:
        """Add a worktree, or replace what is known of it."""

        def change(records: _Records) -> _Records:
            others = tuple(one for one in records.made if one.worktree.path != made.worktree.path)
            return replace(records, made=(*others, made))

        await self._change(change)

    async def remove(self, path: str) -> None:
        kept = tuple(one for one in self.made if one.worktree.path != path)
        if len(kept) < len(self.made):
            await self._change(
                lambda records: replace(
                    records, made=tuple(one for one in records.made if one.worktree.path != path)
                )
            )

    async def begin(self, move: BranchMove) -> None:
        await self._change(lambda records: replace(records, moves=(*records.moves, move)))

    async def end(self, move: BranchMove) -> None:
        await self._change(
            lambda records: replace(records, moves=tuple(one for one in records.moves if one != move))
        )

    async def _change(self, change: Callable[[_Records], _Records]) -> None:
        async with self._writing:
            records = change(self._records)
            await asyncio.to_thread(write_secret, self._path, encode(records))
            self._records = records

    def _read(self) -> _Records:
        content = read_private(self._path)
        if content is None:
            return _Records()
        try:
            return decode(content, _Records)
        except msgspec.DecodeError:
            # Nothing is removed that is not in it: the worktrees stay, and are for their owner to remove.
            self._path.replace(self._path.with_suffix(".damaged.json"))
            return _Records()
