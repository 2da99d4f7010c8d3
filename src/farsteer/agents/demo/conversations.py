"""What the demo agent has stored, in our words."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress

from farsteer.agents.demo import copies
from farsteer.agents.demo.history import HistoryError, Record, load, path_of, read
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import AgentMessage, AgentThought, SessionEvent, UserMessage
from farsteer.core.ids import check_id, is_uuid
from farsteer.core.session import StoredConversation

_TITLE_CHARS = 60
_HEAD = 1024 * 1024
"""Read of each file for a list; of a longer one it is not known how many messages it has."""


def stored(folder: str, directory: str | None, limit: int) -> list[StoredConversation]:
    """The newest first. A file that is no conversation is left out."""
    real = None if directory is None else os.path.realpath(directory)
    found: list[StoredConversation] = []
    for name in _newest_first(folder):
        if len(found) >= limit:
            break
        with suppress(HistoryError, OSError):
            conversation = _head(folder, name)
            if real is None or (conversation.directory and os.path.realpath(conversation.directory) == real):
                found.append(conversation)
    return found


def whole(folder: str, native_id: str) -> tuple[StoredConversation, list[SessionEvent]]:
    check_id(native_id, "conversation")
    try:
        directory, records = read(folder, native_id)
        return _described(folder, native_id, directory, records), [*_events(records)]
    except (HistoryError, OSError) as error:
        raise AgentError(str(error), code=ErrorCode.CONVERSATION_MISSING) from None


def discard(folder: str, native_id: str) -> None:
    check_id(native_id, "conversation")
    path = path_of(folder, native_id)
    for name in (path, f"{path}.new"):
        with suppress(FileNotFoundError):
            os.unlink(name)
    with suppress(FileNotFoundError):
        shutil.rmtree(copies.folder_of(folder, native_id))


def _newest_first(folder: str) -> list[str]:
    """The ids that the folder has a file for; what has another name is not ours."""
    found: list[tuple[int, str]] = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            name, dot, kind = entry.name.partition(".")
            if (dot, kind) == (".", "jsonl") and is_uuid(name) and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):
                    found.append((entry.stat().st_mtime_ns, name))
    return [name for _, name in sorted(found, reverse=True)]


def _head(folder: str, native_id: str) -> StoredConversation:
    directory, records = load(path_of(folder, native_id), _HEAD)
    return _described(folder, native_id, directory, records, _HEAD)


def _described(
    folder: str, native_id: str, directory: str, records: list[Record], limit: int | None = None
) -> StoredConversation:
    about = os.stat(path_of(folder, native_id))
    sent = [record["text"] for record in records if record["role"] == "user"]
    if not sent:
        raise HistoryError("not_found", f"no conversation {native_id}")
    messages = sum(record["role"] in ("user", "agent") for record in records)
    return StoredConversation(
        native_id=native_id, agent="demo", directory=directory, updated_at=about.st_mtime_ns // 1_000_000,
        title=_title(sent[0]), messages=messages if limit is None or about.st_size <= limit else None,
    )  # fmt: skip


def _title(text: str) -> str | None:
    line = " ".join(text.strip().split("\n", 1)[0].split())
    return (line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1] + "…") or None


def _events(records: list[Record]) -> Iterator[SessionEvent]:
    for record in records:
        role, partial = record["role"], record.get("partial") is True
        if role == "user":
            yield UserMessage(item_id=record["anchor"], text=record["text"], anchor=record["anchor"])
        elif role in ("agent", "thought"):
            kind = AgentMessage if role == "agent" else AgentThought
            anchor = record["anchor"]
            yield kind(message_id=anchor, text=record["text"], anchor=anchor, partial=partial)
