"""Restores files to what they were when a message was sent.

Before one of its tools changes a file, Droid keeps a copy under the message that the change is for. For a message that
changed nothing Droid reports no copies, so the first later message that did is asked for. A forked or rewound
conversation has the messages of its source but not its copies; these are read from the source's manifest on disk.
Droid keeps no copies of what commands change.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from farsteer.agents.droid import transcripts
from farsteer.agents.droid.protocol import Message
from farsteer.agents.droid.rpc import RpcClient, T, decode_result
from farsteer.agents.droid.session_start import OpenedSession
from farsteer.agents.droid.transcripts import first_prompt, in_order, is_prompt
from farsteer.core.droid import DroidRewindResult, Method, RewindFile, RewindInfo, ToolName
from farsteer.core.events import FileRestore, FilesRestored
from farsteer.core.wire import WireStruct

_TIMEOUT = 30.0
_MAX_ANCESTORS = 100


class FileRestorer:
    """Restores files in the session that is open in Droid's process. The conversation itself stays as it is."""

    def __init__(self, rpc: RpcClient, home: Path, native_id: str) -> None:
        self._rpc = rpc
        self._home = home
        self._native_id = native_id

    async def restore(self, message_id: str, after: str | None) -> FilesRestored:
        """Restore files to before this message, or before the first prompt after the anchor `after`.

        Raises:
            FarsteerError: Droid could not restore anything.
        """
        session = await self._call(Method.LOAD_SESSION, {"sessionId": self._native_id}, OpenedSession)
        messages = in_order(session.session.messages)
        target = next((one for one in messages if one.id == message_id), None) or first_prompt(
            messages, after
        )
        if target is None:
            return FilesRestored(status=FileRestore.FULL)
        later = messages[messages.index(target) :]
        files = await self._find_files([message.id for message in later if is_prompt(message)])
        if files.restore or files.delete:
            await self._execute(target.id, files)
        return await asyncio.to_thread(_report, files, ran_commands=_ran_commands(later))

    async def _find_files(self, prompts: Sequence[str]) -> _Files:
        files = _Files()
        for info in await asyncio.to_thread(_inherited_copies, self._home, self._native_id, prompts):
            files.add(info)
        for prompt in prompts:
            params = {"sessionId": self._native_id, "messageId": prompt}
            info = await self._call(Method.GET_REWIND_INFO, params, RewindInfo)
            files.add(info)
            if info != RewindInfo():
                break
        return files

    async def _execute(self, message_id: str, files: _Files) -> None:
        """Restore and delete the files. Droid does so only with a rewound copy, which is deleted again."""
        params = {
            "sessionId": self._native_id, "messageId": message_id, "forkTitle": "Rewound",
            "filesToRestore": [*files.restore.values()], "filesToDelete": [*files.delete.values()],
        }  # fmt: skip
        copy = await self._call(Method.EXECUTE_REWIND, params, DroidRewindResult)
        await asyncio.to_thread(transcripts.delete_conversation, self._home, copy.new_session_id)

    async def _call(self, method: Method, params: dict[str, Any], kind: type[T]) -> T:
        return decode_result(await self._rpc.call(method, params, _TIMEOUT, optional=True), kind)


class _Files:
    """What can be done with each file. The first information about a file counts, because it is the oldest."""

    def __init__(self) -> None:
        self.restore: dict[str, RewindFile] = {}
        self.delete: dict[str, RewindFile] = {}
        self.evicted: dict[str, RewindFile] = {}

    def add(self, info: RewindInfo) -> None:
        known = {*self.restore, *self.delete, *self.evicted}
        for files, target in (
            (info.available_files, self.restore),
            (info.created_files, self.delete),
            (info.evicted_files, self.evicted),
        ):
            for file in files:
                if file.file_path not in known:
                    target.setdefault(file.file_path, file)


# -- copies of the conversations that this one was copied from


class _Boundary(WireStruct):
    """The copies that were made for one message."""

    message_id: str
    files: list[RewindFile] = []
    creations: list[RewindFile] = []


class _Manifest(WireStruct):
    boundaries: list[_Boundary] = []
    oldest_available_boundary_index: int = 0


def _inherited_copies(home: Path, native_id: str, prompts: Sequence[str]) -> list[RewindInfo]:
    """Return the copies for these prompts that ancestors of the conversation have, oldest first."""
    found: list[RewindInfo] = []
    seen = {native_id}
    ancestor = transcripts.parent_id(home, native_id)
    while ancestor is not None and ancestor not in seen and len(seen) < _MAX_ANCESTORS:
        seen.add(ancestor)
        found[:0] = _read_manifest(home, ancestor, {*prompts})
        ancestor = transcripts.parent_id(home, ancestor)
    return found


def _read_manifest(home: Path, session_id: str, prompts: set[str]) -> list[RewindInfo]:
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


# -- the report


def _ran_commands(messages: Iterable[Message]) -> bool:
    return any(block.get("name") == ToolName.EXECUTE for message in messages for block in message.content)


def _report(files: _Files, *, ran_commands: bool) -> FilesRestored:
    """Report what the files are now, which is more reliable than Droid's counts."""
    restored = [path for path, copy in files.restore.items() if _has_content(path, copy.content_hash)]
    restored += [path for path in files.delete if not Path(path).exists()]
    skipped = [path for path in (*files.restore, *files.delete, *files.evicted) if path not in restored]
    reasons: list[str] = []
    if any(path in files.evicted for path in skipped):
        reasons.append("Droid no longer has a copy of every file")
    if any(path not in files.evicted for path in skipped):
        reasons.append("Droid could not bring every file back")
    if ran_commands:
        reasons.append("Droid keeps no copies of what commands change")
    status = FileRestore.FULL if not skipped else FileRestore.PARTIAL if restored else FileRestore.FAILED
    return FilesRestored(
        status=status,
        restored=tuple(sorted(restored)),
        skipped=tuple(sorted(skipped)),
        reason="; ".join(reasons) or None,
    )


def _has_content(path: str, content_hash: str | None) -> bool:
    try:
        content = Path(path).read_bytes()
    except OSError:
        return False
    return content_hash is None or hashlib.sha256(content).hexdigest() == content_hash
