"""The stored conversations of aider's worker, as Farsteer lists and reads them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress

from farsteer.agents.aider.conversation import Json, read_records
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import AgentMessage, SessionEvent, UserMessage
from farsteer.core.ids import is_uuid
from farsteer.core.session import StoredConversation
from farsteer.core.text import clean_line

_TITLE_CHARS = 60


def exists(folder: str, native_id: str) -> bool:
    """Return whether a conversation with a message is stored. An empty one is never written."""
    return os.path.isfile(_path(folder, native_id))


def list_stored(folder: str, directory: str | None, limit: int) -> list[StoredConversation]:
    """Return stored conversations, newest first. A damaged one is left out."""
    wanted = None if directory is None else os.path.realpath(directory)
    found: list[StoredConversation] = []
    for native_id in _stored_ids(folder):
        if len(found) >= limit:
            break
        with suppress(AgentError):
            one = _describe(folder, native_id, _records(folder, native_id))
            if wanted is None or os.path.realpath(one.directory) == wanted:
                found.append(one)
    return found


def read(folder: str, native_id: str) -> tuple[StoredConversation, list[SessionEvent]]:
    """Return a conversation as events. Raises AgentError `conversation_missing`."""
    records = _records(folder, native_id)
    return _describe(folder, native_id, records), [*_events(records)]


def delete(folder: str, native_id: str) -> None:
    """Delete a conversation with its attachments. Idempotent."""
    for name in (_path(folder, native_id), f"{_path(folder, native_id)}.new"):
        with suppress(FileNotFoundError):
            os.unlink(name)
    shutil.rmtree(os.path.join(folder, "attachments", native_id), ignore_errors=True)


def _path(folder: str, native_id: str) -> str:
    return os.path.join(folder, f"{native_id}.jsonl")


def _records(folder: str, native_id: str) -> list[Json]:
    try:
        records = read_records(_path(folder, native_id))
    except (OSError, ValueError) as error:
        raise _missing(native_id) from error
    if not any(record.get("type") == "prompt" for record in records):
        raise _missing(native_id)
    return records


def _missing(native_id: str) -> AgentError:
    return AgentError(f"no conversation {native_id}", code=ErrorCode.CONVERSATION_MISSING)


def _stored_ids(folder: str) -> list[str]:
    found: list[tuple[int, str]] = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            name, dot, suffix = entry.name.partition(".")
            if (dot, suffix) == (".", "jsonl") and is_uuid(name) and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):
                    found.append((entry.stat().st_mtime_ns, name))
    return [name for _, name in sorted(found, reverse=True)]


def _describe(folder: str, native_id: str, records: list[Json]) -> StoredConversation:
    asked = [record["text"] for record in records if record["type"] == "prompt"]
    said = sum(len(record["said"]) for record in records if record["type"] == "turn")
    changed = os.stat(_path(folder, native_id)).st_mtime_ns // 1_000_000
    return StoredConversation(
        native_id=native_id, agent="aider", directory=records[0].get("directory", ""), updated_at=changed,
        title=clean_line(asked[0], _TITLE_CHARS) or None, messages=len(asked) + said,
    )  # fmt: skip


def _events(records: list[Json]) -> Iterator[SessionEvent]:
    for record in records:
        anchor = record.get("anchor")
        if record["type"] == "prompt":
            yield UserMessage(item_id=record["anchor"], text=record["text"], anchor=anchor)
        elif record["type"] == "turn":
            for said in record["said"]:
                yield AgentMessage(message_id=said["message"], text=said["text"], anchor=anchor)
