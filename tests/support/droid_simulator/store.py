"""What Droid keeps on disk: conversations, each with its settings, and copies of the files that its tools changed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec

from farsteer.core.clock import now_ms
from farsteer.core.wire import encode
from farsteer.faces.droid.protocol import Message, TokenUsage


class Settings(msgspec.Struct):
    """`level` is off, low, medium or high."""

    model: str = "sim-1"
    effort: str = "none"
    level: str = "off"
    spec: bool = False
    title: str | None = None
    used: TokenUsage = TokenUsage()


class Stored(msgspec.Struct):
    id: str
    directory: str
    settings: Settings
    messages: list[Message]
    parent: str | None = None
    """The conversation it was copied from."""


class _Line(msgspec.Struct):
    type: str
    cwd: str | None = None
    message: Message | None = None


def _factory_folder() -> Path:
    return Path(os.environ.get("HOME") or ".") / ".factory"


# -- conversations


def _path(session: Stored) -> Path:
    return _factory_folder() / "sessions" / session.directory.replace("/", "-") / f"{session.id}.jsonl"


def create(session: Stored) -> None:
    path = _path(session)
    path.parent.mkdir(parents=True, exist_ok=True)
    head: dict[str, Any] = {
        "type": "session_start", "id": session.id, "title": session.settings.title or "New Session", "version": 2,
        "cwd": session.directory,
    }  # fmt: skip
    if session.parent is not None:
        head["parent"] = session.parent
    lines = [encode(head), *(_message_line(message) for message in session.messages)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    save(session)


def add(session: Stored, message: Message) -> None:
    session.messages.append(message)
    with _path(session).open("ab") as file:
        file.write(_message_line(message) + b"\n")


def save(session: Stored) -> None:
    """Write the session's settings."""
    path = _path(session).with_suffix(".settings.json")
    draft = path.with_suffix(".new")
    draft.write_bytes(encode(session.settings))
    draft.replace(path)


def load(session_id: str) -> Stored | None:
    """Return None if there is no such session or the id cannot be a file name."""
    if not session_id or "/" in session_id or session_id.startswith("."):
        return None
    for path in (_factory_folder() / "sessions").glob(f"*/{session_id}.jsonl"):
        lines = [msgspec.json.decode(line, type=_Line) for line in path.read_bytes().splitlines()]
        return Stored(
            id=session_id,
            directory=lines[0].cwd or "",
            settings=msgspec.json.decode(path.with_suffix(".settings.json").read_bytes(), type=Settings),
            messages=[line.message for line in lines if line.message is not None],
        )
    return None


def _message_line(message: Message) -> bytes:
    line: dict[str, Any] = {"type": "message", "id": message.id, "message": message}
    return encode(line)


# -- copies of files, in a manifest for each session, under the message they were changed for


def copy_file(session_id: str, message_id: str, path: str) -> None:
    """Keep a copy of a file that a tool is about to change."""
    manifest = _read_manifest(session_id)
    boundary: dict[str, Any] = {"messageId": message_id, "timestamp": now_ms()}
    if os.path.exists(path):
        content = Path(path).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        copy = _copy_path(digest)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
        boundary["files"] = [{"filePath": path, "contentHash": digest, "size": len(content)}]
    else:
        boundary["creations"] = [{"filePath": path}]
    manifest["boundaries"].append(boundary)
    file = _manifest_path(session_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(encode(manifest))


def rewind_info(session_id: str, message_id: str) -> dict[str, Any]:
    """Return what a rewind would restore: nothing, if this very message changed nothing."""
    boundaries = _read_manifest(session_id)["boundaries"]
    positions = [index for index, one in enumerate(boundaries) if one["messageId"] == message_id]
    found: dict[str, dict[str, Any]] = {"files": {}, "creations": {}}
    for boundary in boundaries[positions[0] :] if positions else []:
        for kind, kept in found.items():
            for file in boundary.get(kind, []):
                if not any(file["filePath"] in known for known in found.values()):
                    kept[file["filePath"]] = file
    evicted = [file for file in found["files"].values() if not _copy_path(file["contentHash"]).exists()]
    return {
        "availableFiles": [file for file in found["files"].values() if file not in evicted],
        "createdFiles": [*found["creations"].values()],
        "evictedFiles": [{"filePath": file["filePath"], "reason": "evicted"} for file in evicted],
    }


def restore_files(changed: list[dict[str, Any]], created: list[dict[str, Any]]) -> dict[str, int]:
    """Restore files from their copies, whichever session made them, and delete created ones."""
    counts = {"restoredCount": 0, "deletedCount": 0, "failedRestoreCount": 0, "failedDeleteCount": 0}
    for file in changed:
        copy = _copy_path(str(file.get("contentHash")))
        if copy.exists():
            Path(file["filePath"]).write_bytes(copy.read_bytes())
        counts["restoredCount" if copy.exists() else "failedRestoreCount"] += 1
    for file in created:
        if os.path.exists(file["filePath"]):
            os.unlink(file["filePath"])
            counts["deletedCount"] += 1
    return counts


def _copy_path(digest: str) -> Path:
    return _factory_folder() / "snapshots" / "content" / digest[:2] / digest[2:]


def _manifest_path(session_id: str) -> Path:
    return _factory_folder() / "snapshots" / "manifests" / f"{session_id}.snapshots.json"


def _read_manifest(session_id: str) -> dict[str, Any]:
    file = _manifest_path(session_id)
    if not file.exists():
        return {"sessionId": session_id, "version": 1, "boundaries": [], "oldestAvailableBoundaryIndex": 0}
    return msgspec.json.decode(file.read_bytes())
