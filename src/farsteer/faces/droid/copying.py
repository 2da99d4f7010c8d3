"""Forks and rewinds as Droid has them: each makes a session of its own and leaves the one it was made from.

A session of ours is forked in the hub. Files go back only with a rewind, so where a client wants them the whole session
is forked and the fork is rewound. Which files that would be is read from the log: the hub does not know what copies an
agent has.
"""

from __future__ import annotations

import hashlib

import msgspec

from farsteer.core import events as ev
from farsteer.core.errors import Conflict, NotFound
from farsteer.core.events import DiffBlock, FilesRestored
from farsteer.faces.droid.conversation import Conversation
from farsteer.faces.droid.lobby import Lobby
from farsteer.faces.droid.params import Rewind, RewindFile, RewindInfo, Rewound

_NO_COPIES = "the agent keeps no copies of files"


class _Place(msgspec.Struct):
    """A message of a person, and what was changed since."""

    seq: int
    changed: dict[str, RewindFile]
    """Each file as it was before; one without a hash was not there."""


class Copying:
    def __init__(self, lobby: Lobby) -> None:
        self._lobby = lobby

    async def fork(self, here: Conversation, title: str | None) -> str:
        return await self._lobby.fork(here.id, title=title)

    async def info(self, here: Conversation, message_id: str) -> RewindInfo:
        """What would become of files; nothing, where there is no such message, as Droid has it."""
        place = await self._find(here.id, message_id)
        if place is None:
            return RewindInfo()
        files = [*place.changed.values()]
        if not await self._lobby.brings_files_back(here.agent):
            return RewindInfo(
                evicted_files=[RewindFile(file_path=file.file_path, reason=_NO_COPIES) for file in files]
            )
        return RewindInfo(
            available_files=[file for file in files if file.content_hash is not None],
            created_files=[file for file in files if file.content_hash is None],
        )

    async def rewind(self, here: Conversation, wanted: Rewind) -> Rewound:
        """Raises NotFound where there is no such message."""
        place = await self._find(here.id, wanted.message_id)
        if place is None:
            raise NotFound("Target message not found in source session")
        files = {file.file_path for file in (*wanted.files_to_restore, *wanted.files_to_delete)}
        if not files:
            fork = await self._lobby.fork(here.id, seq=place.seq, title=wanted.fork_title)
            return Rewound(new_session_id=fork)
        if files != {*place.changed}:
            raise Conflict("either all files that were changed since go back, or none")
        fork = await self._lobby.fork(here.id, title=wanted.fork_title)
        there = await self._find(fork, wanted.message_id)
        if there is None:
            raise Conflict("the message was removed meanwhile")
        done = await self._lobby.hub.rewind(fork, there.seq, restore_files=True)
        return _counted(fork, wanted, done.files)

    async def _find(self, session_id: str, message_id: str) -> _Place | None:
        """The message that the client calls so."""
        place: _Place | None = None
        proposed: dict[str, list[DiffBlock]] = {}
        async for entry in self._lobby.hub.messages(session_id):
            event = entry.content
            if isinstance(event, ev.UserMessage) and message_id in (entry.local_id, event.item_id):
                place = place or _Place(entry.seq, {})
            elif place is not None and isinstance(event, ev.ToolCall | ev.ToolCallUpdate):
                for block in _done(event, proposed):
                    place.changed.setdefault(block.path, _before(block))
        return place


def _done(event: ev.ToolCall | ev.ToolCallUpdate, proposed: dict[str, list[DiffBlock]]) -> list[DiffBlock]:
    """What a tool has changed, by its agent's word: shown when it is proposed, when it is done, or both times."""
    diffs = [block for block in event.content if isinstance(block, DiffBlock)]
    if event.status is None or not event.status.final:
        if diffs:
            proposed[event.tool_call_id] = diffs
        return []
    before = proposed.pop(event.tool_call_id, [])
    return (diffs or before) if event.status is ev.ToolStatus.COMPLETED else []


def _before(block: DiffBlock) -> RewindFile:
    if block.old_text is None:
        return RewindFile(file_path=block.path)
    data = block.old_text.encode()
    return RewindFile(file_path=block.path, content_hash=hashlib.sha256(data).hexdigest(), size=len(data))


def _counted(fork: str, wanted: Rewind, files: FilesRestored) -> Rewound:
    back = {*files.restored}
    restored = sum(file.file_path in back for file in wanted.files_to_restore)
    deleted = sum(file.file_path in back for file in wanted.files_to_delete)
    return Rewound(
        new_session_id=fork, restored_count=restored, deleted_count=deleted,
        failed_restore_count=len(wanted.files_to_restore) - restored,
        failed_delete_count=len(wanted.files_to_delete) - deleted,
    )  # fmt: skip
