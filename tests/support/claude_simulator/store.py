"""The simulator's conversations, in the files and the format of Claude Code.

`~/.claude/projects/<directory>/<id>.jsonl` has a record for each message, which names its parent: a rewind begins a new
branch. `~/.claude/file-history/<id>` has copies of the files that were edited.
"""

from __future__ import annotations

import json
import os
import re
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from farsteer.core.ids import new_id
from farsteer.jsonrpc.stdio import StdoutWriter

Json = dict[str, Any]
Snapshot = dict[str, Json]
"""For each file that was edited, the copy of it: `backupFileName` is None if there was no file."""


class StartFailed(Exception):
    """The conversation cannot be opened as it was asked for."""

    def __init__(self, message: str, result: Json | None = None) -> None:
        super().__init__(message)
        self._result = result

    async def report(self, writer: StdoutWriter) -> None:
        print(self, file=sys.stderr, flush=True)
        if self._result is not None:
            await writer.write(json.dumps(self._result).encode() + b"\n")
            await writer.flush(5.0)


def config_dir() -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path(os.environ["HOME"]) / ".claude")


def _folder() -> Path:
    return config_dir() / "projects" / re.sub(r"[^A-Za-z0-9]", "-", os.getcwd())


class Conversation:
    """The records of the branch that counts, to which new ones are appended."""

    def __init__(self, native_id: str, records: list[Json] | None = None, totals: Json | None = None) -> None:
        self.id = native_id
        self.records: list[Json] = records or []
        self.totals: Json = totals or {}
        self.snapshots: dict[str, Snapshot] = {}
        self._unsaved: list[Json] = []
        """Of a fork: the records that its file will begin with."""
        self._path = _folder() / f"{native_id}.jsonl"

    def fork(self, native_id: str) -> Conversation:
        forked = Conversation(native_id, [*self.records], self.totals)
        forked.snapshots = self.snapshots
        copies = config_dir() / "file-history"
        for snapshot in self.snapshots.values():
            for backup in snapshot.values():
                if (name := backup["backupFileName"]) is not None:
                    (copies / native_id).mkdir(parents=True, exist_ok=True)
                    (copies / native_id / name).write_bytes((copies / self.id / name).read_bytes())
        forked._unsaved = [
            *({"type": "file-history-snapshot", "messageId": message_id,
               "snapshot": {"messageId": message_id, "trackedFileBackups": snapshot}}
              for message_id, snapshot in self.snapshots.items()),
            *({**record, "sessionId": native_id} for record in self.records),
        ]  # fmt: skip
        return forked

    def add(self, kind: str, message: Json, uuid: str | None = None, **more: Any) -> str:
        """Append a message. Returns its uuid."""
        uuid = uuid or new_id()
        record = {
            "parentUuid": self.records[-1]["uuid"] if self.records else None, "isSidechain": False, "type": kind,
            "message": message, "uuid": uuid, "cwd": os.getcwd(), "sessionId": self.id, **more,
        }  # fmt: skip
        self.records.append(record)
        self._append(*self._unsaved, record)
        self._unsaved = []
        return uuid

    def note(self, kind: str, **fields: Any) -> None:
        """Append a record that is not part of the conversation."""
        self._append({"type": kind, "sessionId": self.id, **fields})

    def _append(self, *records: Json) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records))

    # -- copies of files

    def begin_snapshot(self, message_id: str) -> None:
        """Copy the files that were edited before, as they are when a message arrives."""
        known = {path for snapshot in self.snapshots.values() for path in snapshot}
        snapshot = {path: self._copy(path) for path in known}
        self.snapshots[message_id] = snapshot
        stored = {"messageId": message_id, "trackedFileBackups": snapshot}
        self._append({"type": "file-history-snapshot", "messageId": message_id, "snapshot": stored})

    def track(self, path: str) -> None:
        """Copy a file before its first change since the last message."""
        message_id, snapshot = next(reversed(self.snapshots.items()))
        if path not in snapshot:
            snapshot[path] = self._copy(path)
            self._append(
                {"type": "file-history-delta", "snapshotMessageId": message_id, "trackingPath": path,
                 "backup": snapshot[path]}
            )  # fmt: skip

    def _copy(self, path: str) -> Json:
        try:
            content = Path(path).read_bytes()
        except FileNotFoundError:
            return {"backupFileName": None}
        name = f"{sha256(path.encode() + content).hexdigest()[:16]}@v1"
        folder = config_dir() / "file-history" / self.id
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        return {"backupFileName": name}

    def rewind_files(self, message_id: str, *, dry_run: bool) -> Json:
        """Restore every edited file to what it was when the message arrived."""
        if message_id not in self.snapshots:
            return {"canRewind": False, "error": "No file checkpoint found for this message."}
        later = [*self.snapshots][[*self.snapshots].index(message_id) :]
        target: Snapshot = {}
        for one in later:
            target = {**self.snapshots[one], **target}
        changed = [path for path, backup in target.items() if self._copy(path) != backup]
        if dry_run:
            return {"canRewind": True, "filesChanged": changed, "insertions": 0, "deletions": 0}
        for path in changed:
            name = target[path]["backupFileName"]
            if name is None:
                Path(path).unlink(missing_ok=True)
            else:
                Path(path).write_bytes((config_dir() / "file-history" / self.id / name).read_bytes())
        return {"canRewind": True}


def open_conversation(
    session_id: str | None, resume: str | None, anchor: str | None, *, fork: bool
) -> Conversation:
    """Create or resume a conversation, as the arguments say. Raises StartFailed."""
    if resume is None:
        native_id = session_id or new_id()
        if (_folder() / f"{native_id}.jsonl").exists():
            raise StartFailed(f"Error: Session ID {native_id} is already in use.")
        return Conversation(native_id)
    found = _load(resume)
    if found is None:
        raise _failed(resume, f"No conversation found with session ID: {resume}")
    if anchor is not None:
        positions = [index for index, record in enumerate(found.records) if record["uuid"] == anchor]
        if not positions:
            raise _failed(resume, f"No message found with message.uuid of: {anchor}")
        del found.records[positions[0] + 1 :]
    return found.fork(session_id or new_id()) if fork else found


def _failed(native_id: str, message: str) -> StartFailed:
    result = {
        "type": "result", "subtype": "error_during_execution", "is_error": True, "num_turns": 0,
        "session_id": native_id, "errors": [message], "modelUsage": {},
    }  # fmt: skip
    return StartFailed(message, result)


def _load(native_id: str) -> Conversation | None:
    try:
        lines = (_folder() / f"{native_id}.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return None
    conversation = Conversation(native_id)
    known: dict[str, Json] = {}
    last: str | None = None
    for record in map(json.loads, lines):
        match record["type"]:
            case "user" | "assistant":
                known[record["uuid"]] = record
                last = record["uuid"]
            case "file-history-snapshot":
                conversation.snapshots[record["messageId"]] = record["snapshot"]["trackedFileBackups"]
            case "file-history-delta":
                changed = conversation.snapshots[record["snapshotMessageId"]]
                changed[record["trackingPath"]] = record["backup"]
            case "cost-state":
                conversation.totals = record["modelUsage"]
            case _:
                pass
    while last is not None:
        conversation.records.insert(0, known[last])
        last = known[last]["parentUuid"]
    return conversation if conversation.records else None
