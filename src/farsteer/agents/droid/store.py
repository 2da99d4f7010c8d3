"""Where Droid keeps its conversations: one file of lines each, in a folder per working directory.

Droid writes while we read: a last line may be torn, a file may be gone. What is no line of Droid's is passed over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from farsteer.agents.droid.history import MODEL_ONLY, events, in_order, is_prompt, text_blocks
from farsteer.agents.droid.notes import Message
from farsteer.core.errors import AgentError, BadRequest, ErrorCode
from farsteer.core.events import SessionEvent
from farsteer.core.session import StoredConversation
from farsteer.core.wire import WireStruct

_MESSAGE = b'"type":"message"'
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
"""An id that is the name of a file, and nothing else."""
_FILES = (".jsonl", ".settings.json", ".settings.json.bak")
_HEAD = 256 * 1024
"""Read of each file for a list: Droid's reminders to the model stand before the first message."""
_UNTITLED = "New Session"
_TITLE_CHARS = 60


class _Stored(WireStruct):
    role: str
    content: str | list[dict[str, Any]] = []
    visibility: str | None = None
    model_id: str | None = None


class _Line(WireStruct):
    type: str
    id: str = ""
    title: str | None = None
    cwd: str | None = None
    parent: str | None = None
    message: _Stored | None = None


_line = msgspec.json.Decoder(_Line)


class Transcript(msgspec.Struct):
    """What a file tells, or the beginning of it."""

    directory: str | None = None
    title: str | None = None
    parent: str | None = None
    """The conversation it was copied from."""
    messages: list[Message] = []


def has_messages(home: Path, session_id: str) -> bool:
    """Droid's store holds at least one message under this id, which is a plain name."""
    with suppress(OSError):
        for path in _paths(home, session_id, ".jsonl"):
            with path.open("rb") as lines:
                if any(_MESSAGE in line for line in lines):
                    return True
    return False


def conversations(home: Path, directory: str | None, limit: int) -> list[StoredConversation]:
    """The newest first. One in which nobody has said anything is left out."""
    real = None if directory is None else os.path.realpath(directory)
    found: list[StoredConversation] = []
    for path in _newest_first(home):
        if len(found) >= limit:
            break
        with suppress(OSError):
            conversation = _listed(path)
            if conversation is not None and real in (None, os.path.realpath(conversation.directory)):
                found.append(conversation)
    return found


def history(home: Path, session_id: str) -> tuple[StoredConversation, list[SessionEvent]]:
    """A whole conversation. Raises AgentError `conversation_missing`."""
    with suppress(OSError):
        for path in _paths(home, session_id, ".jsonl"):
            told = _read(path.read_bytes().splitlines())
            described = _described(path, told, whole=True)
            if described is not None:
                return described, [*events(in_order(told.messages))]
    raise AgentError(f"Droid has no conversation {session_id}", code=ErrorCode.CONVERSATION_MISSING)


def parent(home: Path, session_id: str) -> str | None:
    """The conversation that this one was copied from, if it was and Droid says so."""
    with suppress(OSError):
        for path in _paths(home, session_id, ".jsonl"):
            return _head(path).parent
    return None


def discard(home: Path, session_id: str) -> None:
    """Delete the files of this conversation and of no other. Raises BadRequest for what cannot be its name."""
    if not _NAME.fullmatch(session_id):
        raise BadRequest("no conversation of Droid's has such a name", code=ErrorCode.INVALID_ID)
    for kind in _FILES:
        for path in _paths(home, session_id, kind):
            path.unlink(missing_ok=True)


def _paths(home: Path, session_id: str, kind: str) -> list[Path]:
    if not _NAME.fullmatch(session_id):
        return []
    return [*(home / ".factory" / "sessions").glob(f"*/{session_id}{kind}")]


def _newest_first(home: Path) -> list[Path]:
    found: list[tuple[int, Path]] = []
    for path in (home / ".factory" / "sessions").glob("*/*.jsonl"):
        with suppress(OSError):
            if _NAME.fullmatch(path.stem) and not path.is_symlink():
                found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]


def _listed(path: Path) -> StoredConversation | None:
    return _described(path, _head(path), whole=path.stat().st_size <= _HEAD)


def _head(path: Path) -> Transcript:
    with path.open("rb") as file:
        return _read(file.read(_HEAD).splitlines())


def _read(lines: Iterable[bytes]) -> Transcript:
    told = Transcript()
    for line in _lines(lines):
        if line.type == "session_start":
            told.directory, told.title, told.parent = line.cwd, line.title, line.parent
        elif line.message is not None and line.id:
            told.messages.append(_message(line.id, line.message))
    return told


def _lines(lines: Iterable[bytes]) -> Iterator[_Line]:
    for line in lines:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield _line.decode(line)


def _message(message_id: str, stored: _Stored) -> Message:
    content = stored.content
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return Message(
        id=message_id,
        role=stored.role,
        content=blocks,
        visibility=stored.visibility,
        model_id=stored.model_id,
    )


def _described(path: Path, told: Transcript, *, whole: bool) -> StoredConversation | None:
    """None: it is none, or nobody has said anything in it."""
    prompts = [said for message in told.messages if is_prompt(message) and (said := text_blocks(message))]
    if told.directory is None or (whole and not prompts):
        return None
    title = told.title if told.title not in (None, "", _UNTITLED) else None
    if title is None and prompts:
        title = " ".join(prompts[0][-1].split())
    counted = sum(
        is_prompt(message) or message.role == "assistant"
        for message in told.messages
        if message.visibility != MODEL_ONLY
    )
    return StoredConversation(
        native_id=path.stem, agent="droid", directory=told.directory, title=_clipped(title),
        updated_at=path.stat().st_mtime_ns // 1_000_000, messages=counted if whole else None,
    )  # fmt: skip


def _clipped(title: str | None) -> str | None:
    if title is None or len(title) <= _TITLE_CHARS:
        return title or None
    return title[: _TITLE_CHARS - 1] + "…"
