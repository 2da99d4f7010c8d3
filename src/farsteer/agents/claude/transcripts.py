"""Claude Code's stored conversations: `<config>/projects/<directory>/<id>.jsonl`.

A transcript may have hundreds of megabytes. It is read by bytes: a list reads the beginning and the end of each file,
and a conversation is read from its end, a block at a time. Its records form a tree, of which a rewind begins a new
branch; the last record is the end of the branch that counts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from farsteer.agents.claude.protocol import ModelUsage
from farsteer.agents.claude.records import (
    Record,
    RecordTranslator,
    decode_record,
    is_prompt,
    prompt_text,
    queued_message,
)
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import SessionEvent
from farsteer.core.ids import is_uuid
from farsteer.core.session import StoredConversation
from farsteer.core.text import clean_line

_BLOCK = 256 * 1024
_HEAD_BYTES = 512 * 1024
"""How much of a file is read for a list, and then to the end of a record: a message may have an image in it."""
_TAIL_BYTES = 64 * 1024
_USAGE_BYTES = 64 * 1024 * 1024
"""How far from its end a transcript is searched for the stored usage."""
LINE_BYTES = 64 * 1024 * 1024
"""A longer record is skipped."""
_TITLE_CHARS = 60
_USAGE_MARK = b'"type":"cost-state"'
_CHAIN_MARK = b'"parentUuid":'
"""Every record of the conversation names its parent."""


def find(config: Path, native_id: str) -> Path | None:
    """Return the file of a conversation. The id comes from outside."""
    if not is_uuid(native_id):
        return None
    with suppress(OSError):
        for path in (config / "projects").glob(f"*/{native_id}.jsonl"):
            if not path.is_symlink():
                return path
    return None


def has_messages(config: Path, native_id: str) -> bool:
    """Whether at least one message is stored. Claude Code does not resume a conversation without one."""
    path = find(config, native_id)
    if path is None:
        return False
    with suppress(OSError), path.open("rb") as file:
        for line in lines_forwards(file):
            if (
                _CHAIN_MARK in line
                and (record := decode_record(line)) is not None
                and record.message is not None
            ):
                return True
    return False


def stored_usage(config: Path, native_id: str) -> dict[str, ModelUsage]:
    """Return the totals by model that Claude Code goes on from when it resumes this conversation."""
    path = find(config, native_id)
    if path is None:
        return {}
    with suppress(OSError), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for offset, line in lines_backwards(file):
            if _USAGE_MARK in line[:200] and (record := decode_record(line)) is not None:
                return record.model_usage or {}
            if size - offset > _USAGE_BYTES:
                break
    return {}


def list_conversations(
    config: Path, directory: str | None, limit: int, agent: str
) -> list[StoredConversation]:
    """Return the stored conversations, newest first, without those that have no prompt in their beginning."""
    wanted = None if directory is None else os.path.realpath(directory)
    found: list[StoredConversation] = []
    for path in _newest_first(config):
        if len(found) >= limit:
            break
        with suppress(OSError):
            conversation = _describe(path, agent)
            if conversation is not None and wanted in (None, os.path.realpath(conversation.directory)):
                found.append(conversation)
    return found


def read_conversation(
    config: Path, native_id: str, agent: str
) -> tuple[StoredConversation, list[SessionEvent]]:
    """Return a whole conversation. Raises AgentError `conversation_missing`."""
    path = find(config, native_id)
    with suppress(OSError):
        conversation = None if path is None else _describe(path, agent)
        if path is not None and conversation is not None:
            translator = RecordTranslator(conversation.directory)
            events: list[SessionEvent] = []
            for record in conversation_records(path):
                events += translator.translate(record)
            return conversation, [*events, *translator.finish()]
    raise AgentError(f"Claude Code has no conversation {native_id}", code=ErrorCode.CONVERSATION_MISSING)


def delete_conversation(config: Path, native_id: str) -> None:
    """Delete the files of one conversation: the transcript, sub-agents, to-do list and the copies of edited files."""
    path = find(config, native_id)
    if path is None:
        return
    shutil.rmtree(path.with_suffix(""), ignore_errors=True)
    for folder in ("file-history", "session-env", "tasks"):
        shutil.rmtree(config / folder / native_id, ignore_errors=True)
    path.unlink(missing_ok=True)


# -- the branch of a conversation


def conversation_records(path: Path) -> Iterator[Record]:
    """Yield the records of the conversation in their order. Keeps the position of each, but one record at a time."""
    with path.open("rb") as file:
        for offset in reversed(_branch(file)):
            file.seek(offset)
            record = decode_record(file.readline(LINE_BYTES))
            if record is not None:
                yield record


def _branch(file: BinaryIO) -> list[int]:
    """Return the positions of the records of the last branch, from its end to its beginning.

    A record is always written after its parent, so that one pass from the end finds them. Of tool calls that ran at the
    same time only the last result is the parent of what follows: the other results are found by their own parent.
    """
    offsets: list[int] = []
    results: dict[str, list[int]] = {}
    wanted: str | None = None
    started = False
    for offset, line in lines_backwards(file):
        if _CHAIN_MARK not in line:
            continue
        record = decode_record(line)
        if record is None or record.is_sidechain or not record.uuid:
            continue
        if not started:
            if record.type not in ("user", "assistant"):
                continue
            started, wanted = True, record.uuid
        if record.uuid == wanted:
            offsets += results.pop(record.uuid, [])
            if record.type in ("user", "assistant", "system") or queued_message(record) is not None:
                offsets.append(offset)
            wanted = record.parent_uuid or record.logical_parent_uuid
            if wanted is None:
                break
        elif record.type == "user" and record.parent_uuid is not None and record.tool_use_result is not None:
            results.setdefault(record.parent_uuid, []).append(offset)
    return offsets


def lines_forwards(file: BinaryIO, enough: int | None = None) -> Iterator[bytes]:
    """Yield each line from the beginning. A line over the limit is skipped.

    Args:
        file: A file at its beginning.
        enough: Stop with the line that reaches this position.
    """
    parts: list[bytes] = []
    size = position = 0
    while block := file.read(_BLOCK):
        begin = 0
        while (newline := block.find(b"\n", begin)) >= 0:
            size += newline - begin
            if 0 < size < LINE_BYTES:
                yield b"".join([*parts, block[begin:newline]])
            position += size + 1
            if enough is not None and position >= enough:
                return
            parts, size, begin = [], 0, newline + 1
        size += len(block) - begin
        if size < LINE_BYTES:
            parts.append(block[begin:])
        elif enough is not None:
            return
        else:
            parts = []
    if 0 < size < LINE_BYTES:
        yield b"".join(parts)


def lines_backwards(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield each line with its position, from the end of the file. A line over the limit is skipped."""
    position = file.seek(0, os.SEEK_END)
    parts: list[bytes] = []
    size = 0
    while position > 0:
        start = max(position - _BLOCK, 0)
        file.seek(start)
        block = file.read(position - start)
        end = len(block)
        while (newline := block.rfind(b"\n", 0, end)) >= 0:
            line = b"".join([block[newline + 1 : end], *reversed(parts)])
            if line and size < LINE_BYTES:
                yield start + newline + 1, line
            parts, size, end = [], 0, newline
        size += end
        if size < LINE_BYTES:
            parts.append(block[:end])
        else:
            parts = []
        position = start
    line = b"".join(reversed(parts))
    if line and size < LINE_BYTES:
        yield 0, line


# -- lists


def _newest_first(config: Path) -> list[Path]:
    found: list[tuple[int, Path]] = []
    for path in (config / "projects").glob("*/*.jsonl"):
        with suppress(OSError):
            if is_uuid(path.stem) and not path.is_symlink():
                found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]


def _describe(path: Path, agent: str) -> StoredConversation | None:
    """Return None if the file is not a conversation or contains no prompt."""
    title: str | None = None
    directory: str | None = None
    is_conversation = False
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        for line in lines_forwards(file, _HEAD_BYTES):
            record = decode_record(line)
            if record is None:
                continue
            directory = directory or record.cwd
            if is_prompt(record):
                title, is_conversation = title or prompt_text(record), True
            if is_conversation and directory is not None:
                break
        if not is_conversation or directory is None:
            return None
        title = _given_title(file, status.st_size) or title
    return StoredConversation(
        native_id=path.stem, agent=agent, directory=directory, updated_at=status.st_mtime_ns // 1_000_000,
        title=None if title is None else clean_line(title, _TITLE_CHARS) or None,
    )  # fmt: skip


def _given_title(file: BinaryIO, size: int) -> str | None:
    """Return the title that a person or Claude Code gave, if it stands near the end."""
    file.seek(max(size - _TAIL_BYTES, 0))
    title: str | None = None
    for line in file.read(_TAIL_BYTES).splitlines():
        if b'itle":' in line and (record := decode_record(line)) is not None:
            title = record.custom_title or record.ai_title or title
    return title
