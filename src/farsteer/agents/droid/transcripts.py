"""Droid's stored conversations: messages as a person may see them, and the files they are in.

Droid puts reminders to the model into the history. Newer CLIs keep them in messages that only the model sees, older
ones put them into the user's message; both are left out.

Droid keeps one file of JSON lines for each conversation, in a folder for each working directory. It may write while we
read: the last line may be incomplete, a file may disappear. Lines that cannot be decoded are skipped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from farsteer.agents.droid.protocol import Message, ToolUse
from farsteer.agents.droid.tool_calls import result_content, tool_call_event
from farsteer.core.droid import MODEL_ONLY
from farsteer.core.errors import AgentError, BadRequest, ErrorCode
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Notice,
    SessionEvent,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    UserMessage,
)
from farsteer.core.session import StoredConversation
from farsteer.core.wire import WireStruct

_CONTEXT_PREFIX = "context-"
_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)\s*", re.DOTALL)

# -- messages


def strip_reminders(text: str) -> str:
    return _REMINDER.sub("", text) if "<system-reminder>" in text else text


def visible_texts(message: Message) -> list[str]:
    """Return each text block of a message that is meant for people."""
    if message.visibility == MODEL_ONLY:
        return []
    texts = (block["text"] for block in message.content if isinstance(block.get("text"), str))
    return [visible for text in texts if (visible := strip_reminders(text)).strip()]


def tool_use_in(block: dict[str, Any]) -> ToolUse | None:
    use_id, name, given = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(use_id, str) or not isinstance(name, str):
        return None
    return ToolUse(id=use_id, name=name, input=given if isinstance(given, dict) else {})


def text_id(message_id: str, block: int) -> str:
    """Return our id of a text block: one message of Droid's may hold several of ours."""
    return f"{message_id}:{block}"


def thought_id(message_id: str, block: int) -> str:
    return f"{message_id}:t{block}"


def in_order(messages: Sequence[Message]) -> list[Message]:
    """Return the messages in the order in which they were sent.

    With a fast model the first answer may be stored before its prompt. The reminders are stored before both, and their
    id names the prompt they belong to.
    """
    positions = {message.id: index for index, message in enumerate(messages)}
    moved: set[str] = set()
    ordered: list[Message] = []
    for message in messages:
        if message.id in moved:
            continue
        ordered.append(message)
        prompt_id = message.id.removeprefix(_CONTEXT_PREFIX)
        if prompt_id != message.id and prompt_id in positions:
            moved.add(prompt_id)
            ordered.append(messages[positions[prompt_id]])
    return ordered


def is_prompt(message: Message) -> bool:
    """Whether a person wrote the message. Older CLIs keep tool results in messages of the same role."""
    return (
        message.role == "user"
        and any(block.get("type") != "tool_result" for block in message.content)
        and (message.visibility != MODEL_ONLY)
    )


def first_prompt(messages: Sequence[Message], after: str | None) -> Message | None:
    """Return the first prompt after the message with this id, or of all. Raises AgentError `anchor_unknown`."""
    start = 0
    if after is not None:
        start = next((index for index, message in enumerate(messages, 1) if message.id == after), -1)
        if start < 0:
            raise AgentError(f"this conversation has no message {after}", code=ErrorCode.ANCHOR_UNKNOWN)
    return next((message for message in messages[start:] if is_prompt(message)), None)


def to_events(messages: Iterable[Message]) -> Iterator[SessionEvent]:
    """Yield the conversation as our events. A tool call without a result is emitted as failed."""
    uses: dict[str, ToolUse] = {}
    running: dict[str, None] = {}
    for message in messages:
        if message.visibility == MODEL_ONLY:
            continue
        if message.role == "user":
            text = "\n".join(visible_texts(message))
            if text:
                yield from _fail_tools(running)
                yield UserMessage(item_id=message.id, text=text, anchor=message.id)
        elif message.role == "system":
            for text in visible_texts(message):
                yield Notice(text=text)
        for index, block in enumerate(message.content):
            for event in _block_events(message, index, block, uses):
                if isinstance(event, ToolCall):
                    running[event.tool_call_id] = None
                elif isinstance(event, ToolCallUpdate):
                    running.pop(event.tool_call_id, None)
                yield event
    yield from _fail_tools(running)


def _fail_tools(running: dict[str, None]) -> Iterator[SessionEvent]:
    for call_id in running:
        yield ToolCallUpdate(tool_call_id=call_id, status=ToolStatus.FAILED)
    running.clear()


def _block_events(
    message: Message, index: int, block: dict[str, Any], uses: dict[str, ToolUse]
) -> Iterator[SessionEvent]:
    match block.get("type"):
        case "text" if message.role == "assistant":
            text = str(block.get("text") or "")
            yield AgentMessage(message_id=text_id(message.id, index), text=text, anchor=message.id)
        case "thinking":
            text = str(block.get("thinking") or "")
            yield AgentThought(message_id=thought_id(message.id, index), text=text, anchor=message.id)
        case "tool_use":
            use = tool_use_in(block)
            if use is not None:
                uses[use.id] = use
                yield tool_call_event(use)
        case "tool_result":
            call_id = str(block.get("toolUseId") or block.get("tool_use_id"))
            failed = bool(block.get("isError") or block.get("is_error"))
            yield ToolCallUpdate(
                tool_call_id=call_id, status=ToolStatus.FAILED if failed else ToolStatus.COMPLETED,
                content=result_content(uses.get(call_id), block.get("content"), failed=failed),
            )  # fmt: skip
        case _:
            pass


# -- files

_MESSAGE_MARK = b'"type":"message"'
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
"""An id that is safe as a file name and in a glob pattern."""
_SUFFIXES = (".jsonl", ".settings.json", ".settings.json.bak")
_HEAD_BYTES = 256 * 1024
"""How much of each file is read for a list. Reminders to the model come before the first prompt."""
_UNTITLED = "New Session"
_TITLE_CHARS = 60


class _StoredMessage(WireStruct):
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
    message: _StoredMessage | None = None


_line_decoder = msgspec.json.Decoder(_Line)


class _Transcript(msgspec.Struct):
    """The content of a file, or of its beginning."""

    directory: str | None = None
    title: str | None = None
    parent: str | None = None
    messages: list[Message] = []


def has_messages(home: Path, session_id: str) -> bool:
    """Whether Droid has stored at least one message of this conversation."""
    with suppress(OSError):
        for path in _paths(home, session_id, ".jsonl"):
            with path.open("rb") as lines:
                if any(_MESSAGE_MARK in line for line in lines):
                    return True
    return False


def list_conversations(home: Path, directory: str | None, limit: int) -> list[StoredConversation]:
    """Return the stored conversations, newest first, without those that contain no prompt."""
    wanted = None if directory is None else os.path.realpath(directory)
    found: list[StoredConversation] = []
    for path in _newest_first(home):
        if len(found) >= limit:
            break
        with suppress(OSError):
            is_whole = path.stat().st_size <= _HEAD_BYTES
            conversation = _describe(path, _read_head(path), is_whole=is_whole)
            if conversation is not None and wanted in (None, os.path.realpath(conversation.directory)):
                found.append(conversation)
    return found


def read_conversation(home: Path, session_id: str) -> tuple[StoredConversation, list[SessionEvent]]:
    """Return a whole conversation. Raises AgentError `conversation_missing`."""
    with suppress(OSError):
        for path in _paths(home, session_id, ".jsonl"):
            transcript = _decode(path.read_bytes().splitlines())
            conversation = _describe(path, transcript, is_whole=True)
            if conversation is not None:
                return conversation, [*to_events(in_order(transcript.messages))]
    raise AgentError(f"Droid has no conversation {session_id}", code=ErrorCode.CONVERSATION_MISSING)


def parent_id(home: Path, session_id: str) -> str | None:
    """Return the conversation that this one was copied from, None if Droid names none."""
    with suppress(OSError):
        for path in _paths(home, session_id, ".jsonl"):
            return _read_head(path).parent
    return None


def delete_conversation(home: Path, session_id: str) -> None:
    """Delete the files of one conversation. Raises BadRequest if the id is invalid."""
    if not _SESSION_ID.fullmatch(session_id):
        raise BadRequest("invalid id of a Droid conversation", code=ErrorCode.INVALID_ID)
    for suffix in _SUFFIXES:
        for path in _paths(home, session_id, suffix):
            path.unlink(missing_ok=True)


def _paths(home: Path, session_id: str, suffix: str) -> list[Path]:
    if not _SESSION_ID.fullmatch(session_id):
        return []
    return [*(home / ".factory" / "sessions").glob(f"*/{session_id}{suffix}")]


def _newest_first(home: Path) -> list[Path]:
    found: list[tuple[int, Path]] = []
    for path in (home / ".factory" / "sessions").glob("*/*.jsonl"):
        with suppress(OSError):
            if _SESSION_ID.fullmatch(path.stem) and not path.is_symlink():
                found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]


def _read_head(path: Path) -> _Transcript:
    with path.open("rb") as file:
        return _decode(file.read(_HEAD_BYTES).splitlines())


def _decode(lines: Iterable[bytes]) -> _Transcript:
    transcript = _Transcript()
    for raw in lines:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            line = _line_decoder.decode(raw)
            if line.type == "session_start":
                transcript.directory, transcript.title, transcript.parent = line.cwd, line.title, line.parent
            elif line.message is not None and line.id:
                transcript.messages.append(_to_message(line.id, line.message))
    return transcript


def _to_message(message_id: str, stored: _StoredMessage) -> Message:
    content = stored.content
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return Message(
        id=message_id, role=stored.role, content=blocks, visibility=stored.visibility, model_id=stored.model_id
    )  # fmt: skip


def _describe(path: Path, transcript: _Transcript, *, is_whole: bool) -> StoredConversation | None:
    """Return None if the file is not a conversation or contains no prompt."""
    messages = transcript.messages
    prompts = [texts for message in messages if is_prompt(message) and (texts := visible_texts(message))]
    if transcript.directory is None or (is_whole and not prompts):
        return None
    title = transcript.title if transcript.title not in (None, "", _UNTITLED) else None
    if title is None and prompts:
        title = " ".join(prompts[0][-1].split())
    count = sum(
        is_prompt(message) or message.role == "assistant"
        for message in messages
        if message.visibility != MODEL_ONLY
    )
    return StoredConversation(
        native_id=path.stem, agent="droid", directory=transcript.directory, title=_clipped(title),
        updated_at=path.stat().st_mtime_ns // 1_000_000, messages=count if is_whole else None,
    )  # fmt: skip


def _clipped(title: str | None) -> str | None:
    if title is None or len(title) <= _TITLE_CHARS:
        return title or None
    return title[: _TITLE_CHARS - 1] + "…"
