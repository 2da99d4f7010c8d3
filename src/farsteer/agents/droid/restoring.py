"""Files as they were when a message was sent.

Droid copies a file before one of its tools changes it, under the message it was changed for. Asked about a message that
changed nothing it knows of no copies, so the first later one that did is asked. A fork or a rewound conversation has
the messages of its source and not its copies: for these we read what Droid has noted of the source. What commands
change is not copied at all.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from farsteer.agents.droid import store
from farsteer.agents.droid.commands import Commands, RewindFile, RewindInfo
from farsteer.agents.droid.history import first_prompt, in_order, is_prompt
from farsteer.agents.droid.notes import Message
from farsteer.core.events import FileRestore, FilesRestored
from farsteer.core.wire import WireStruct

_GENERATIONS = 100
_COMMAND = "Execute"


class _Boundary(WireStruct):
    """What was copied for one message."""

    message_id: str
    files: list[RewindFile] = []
    creations: list[RewindFile] = []


class _Manifest(WireStruct):
    boundaries: list[_Boundary] = []
    oldest_available_boundary_index: int = 0


class Copies:
    """What can be done about each file; the first that is said of one counts, for it is the oldest."""

    def __init__(self) -> None:
        self.restore: dict[str, RewindFile] = {}
        self.delete: dict[str, RewindFile] = {}
        self.gone: dict[str, RewindFile] = {}

    def add(self, info: RewindInfo) -> None:
        known = {*self.restore, *self.delete, *self.gone}
        for files, kept in (
            (info.available_files, self.restore),
            (info.created_files, self.delete),
            (info.evicted_files, self.gone),
        ):
            for file in files:
                if file.file_path not in known:
                    kept.setdefault(file.file_path, file)


async def restore(
    commands: Commands, home: Path, native_id: str, message_id: str, after: str | None
) -> FilesRestored:
    """Bring them back; the conversation stays as it is. Raises FarsteerError if nothing could be done."""
    messages = in_order(await commands.messages())
    target = next((one for one in messages if one.id == message_id), None) or first_prompt(messages, after)
    if target is None:
        return FilesRestored(status=FileRestore.FULL)
    removed = messages[messages.index(target) :]
    prompts = [message.id for message in removed if is_prompt(message)]
    copies = Copies()
    for info in await asyncio.to_thread(_inherited, home, native_id, prompts):
        copies.add(info)
    for prompt in prompts:
        info = await commands.rewind_info(prompt)
        copies.add(info)
        if info != RewindInfo():
            break
    if copies.restore or copies.delete:
        copy = await commands.restore(target.id, [*copies.restore.values()], [*copies.delete.values()])
        await asyncio.to_thread(store.discard, home, copy.new_session_id)
    return await asyncio.to_thread(_told, copies, ran_commands=_ran_commands(removed))


def _inherited(home: Path, native_id: str, prompts: Sequence[str]) -> list[RewindInfo]:
    """What the conversations that this one was copied from have copies of, the oldest first."""
    found: list[RewindInfo] = []
    seen = {native_id}
    source = store.parent(home, native_id)
    while source is not None and source not in seen and len(seen) < _GENERATIONS:
        seen.add(source)
        found[:0] = _noted(home, source, {*prompts})
        source = store.parent(home, source)
    return found


def _noted(home: Path, session_id: str, prompts: set[str]) -> list[RewindInfo]:
    path = home / ".factory" / "snapshots" / "manifests" / f"{session_id}.snapshots.json"
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except (OSError, msgspec.DecodeError):
        return []
    oldest = manifest.oldest_available_boundary_index
    return [
        RewindInfo(
            available_files=boundary.files if index >= oldest else [],
            created_files=boundary.creations,
            evicted_files=boundary.files if index < oldest else [],
        )
        for index, boundary in enumerate(manifest.boundaries)
        if boundary.message_id in prompts
    ]


def _ran_commands(messages: Iterable[Message]) -> bool:
    return any(block.get("name") == _COMMAND for message in messages for block in message.content)


def _told(copies: Copies, *, ran_commands: bool) -> FilesRestored:
    """As the files are, not as Droid counts them."""
    back = [path for path, copy in copies.restore.items() if _is(path, copy.content_hash)]
    back += [path for path in copies.delete if not Path(path).exists()]
    wanted = (*copies.restore, *copies.delete, *copies.gone)
    left = [path for path in wanted if path not in back]
    why: list[str] = []
    if any(path in copies.gone for path in left):
        why.append("Droid no longer has a copy of every file")
    if any(path not in copies.gone for path in left):
        why.append("Droid could not bring every file back")
    if ran_commands:
        why.append("Droid keeps no copies of what commands change")
    status = FileRestore.FULL if not left else FileRestore.PARTIAL if back else FileRestore.FAILED
    return FilesRestored(
        status=status,
        restored=tuple(sorted(back)),
        skipped=tuple(sorted(left)),
        reason="; ".join(why) or None,
    )


def _is(path: str, content_hash: str | None) -> bool:
    try:
        content = Path(path).read_bytes()
    except OSError:
        return False
    return content_hash is None or hashlib.sha256(content).hexdigest() == content_hash
