"""Copies of files, as Droid keeps them: under the message they were changed for, in a list of each session."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import msgspec

from farsteer.core.wire import encode


def note(session_id: str, message_id: str, path: str) -> None:
    """A tool is about to change this file."""
    noted = _noted(session_id)
    boundary: dict[str, Any] = {"messageId": message_id, "timestamp": time.time_ns() // 1_000_000}
    if os.path.exists(path):
        content = Path(path).read_bytes()
        known = hashlib.sha256(content).hexdigest()
        copy = _folder() / "content" / known[:2] / known[2:]
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
        boundary["files"] = [{"filePath": path, "contentHash": known, "size": len(content)}]
    else:
        boundary["creations"] = [{"filePath": path}]
    noted["boundaries"].append(boundary)
    file = _manifest(session_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(encode(noted))


def info(session_id: str, message_id: str) -> dict[str, Any]:
    """What a rewind would do: nothing, if this very message changed nothing."""
    boundaries = _noted(session_id)["boundaries"]
    places = [index for index, one in enumerate(boundaries) if one["messageId"] == message_id]
    found: dict[str, dict[str, Any]] = {"files": {}, "creations": {}}
    for boundary in boundaries[places[0] :] if places else []:
        for kind, kept in found.items():
            for file in boundary.get(kind, []):
                if not any(file["filePath"] in known for known in found.values()):
                    kept[file["filePath"]] = file
    gone = [file for file in found["files"].values() if not _copy(file["contentHash"]).exists()]
    return {
        "availableFiles": [file for file in found["files"].values() if file not in gone],
        "createdFiles": [*found["creations"].values()],
        "evictedFiles": [{"filePath": file["filePath"], "reason": "evicted"} for file in gone],
    }


def restore(changed: list[dict[str, Any]], created: list[dict[str, Any]]) -> dict[str, int]:
    """Whichever session the copies are of."""
    done = {"restoredCount": 0, "deletedCount": 0, "failedRestoreCount": 0, "failedDeleteCount": 0}
    for file in changed:
        copy = _copy(str(file.get("contentHash")))
        if copy.exists():
            Path(file["filePath"]).write_bytes(copy.read_bytes())
        done["restoredCount" if copy.exists() else "failedRestoreCount"] += 1
    for file in created:
        if os.path.exists(file["filePath"]):
            os.unlink(file["filePath"])
            done["deletedCount"] += 1
    return done


def _folder() -> Path:
    return Path(os.environ.get("HOME") or ".") / ".factory" / "snapshots"


def _copy(known: str) -> Path:
    return _folder() / "content" / known[:2] / known[2:]


def _manifest(session_id: str) -> Path:
    return _folder() / "manifests" / f"{session_id}.snapshots.json"


def _noted(session_id: str) -> dict[str, Any]:
    file = _manifest(session_id)
    if not file.exists():
        return {"sessionId": session_id, "version": 1, "boundaries": [], "oldestAvailableBoundaryIndex": 0}
    return msgspec.json.decode(file.read_bytes())
