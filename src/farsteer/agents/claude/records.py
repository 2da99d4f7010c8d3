"""One record of Claude Code's transcript as events.

A transcript is a file of JSON lines to which Claude Code appends while it works. Of its records, those of messages
matter; most of the bytes are requests, prompts and file copies that only Claude Code itself reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from farsteer.agents.claude import tools
from farsteer.agents.claude.protocol import SYNTHETIC, Block, Message, ModelUsage
from farsteer.agents.claude.todos import TodoList
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Compacted,
    Notice,
    SessionEvent,
    ToolCallUpdate,
    ToolStatus,
    UserMessage,
)

_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)\s*", re.DOTALL)
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
_COMMAND_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_LOCAL_OUTPUT = re.compile(r"<local-command-std(?:out|err)>(.*?)</local-command-std(?:out|err)>", re.DOTALL)
_SHELL_INPUT = re.compile(r"<bash-input>(.*?)</bash-input>", re.DOTALL)
_SHELL_OUTPUT = ("<bash-stdout>", "<bash-stderr>")
_INTERRUPTED = "[Request interrupted by user"
_FILLER = "No response requested."
"""Claude Code's own answer to a message that got none, such as an interrupted one."""
_ATTACHMENTS = frozenset({"image", "document"})


class CompactMetadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    trigger: str = ""
    pre_tokens: int | None = None
    post_tokens: int | None = None


class Attachment(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Of type `queued_command` it is what a person has typed during a turn, and the model got in it."""

    type: str = ""
    prompt: Any = None
    command_mode: str = ""


class Record(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of a record that we use. Every kind of record has its own selection."""

    type: str
    subtype: str | None = None
    uuid: str = ""
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    is_visible_in_transcript_only: bool = False
    is_api_error_message: bool = False
    cwd: str | None = None
    message: Message | None = None
    attachment: Attachment | None = None
    tool_use_result: Any = None
    compact_metadata: CompactMetadata | None = None
    content: Any = None
    custom_title: str | None = None
    ai_title: str | None = None
    summary: str | None = None
    model_usage: dict[str, ModelUsage] | None = None


_decoder = msgspec.json.Decoder(Record)


def decode_record(line: bytes) -> Record | None:
    """Return None for a line that is no record, such as one that is not written to its end yet."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_interrupt(record: Record) -> bool:
    """Whether it says that the person interrupted the turn."""
    if record.type != "user" or record.message is None:
        return False
    return any(
        block.type == "text" and block.text.startswith(_INTERRUPTED) for block in record.message.blocks
    )


def is_prompt(record: Record) -> bool:
    """Whether a person wrote it."""
    return (
        record.type == "user"
        and record.message is not None
        and not (record.is_sidechain or record.is_meta or record.is_compact_summary)
        and not record.is_visible_in_transcript_only
        and bool(prompt_text(record))
    )


def prompt_text(record: Record) -> str:
    """Return the text of a person's message, without what Claude Code adds to it. Attachments are named by kind."""
    if record.message is None:
        return ""
    blocks = record.message.blocks
    texts = [_visible(block.text) for block in blocks if block.type == "text"]
    texts += [f"[{block.type}]" for block in blocks if block.type in _ATTACHMENTS]
    return "\n".join(text for text in texts if text)


def queued_message(record: Record) -> UserMessage | None:
    """Return what a person has typed during a turn, if the record is that."""
    given = record.attachment
    if given is None or given.type != "queued_command" or given.command_mode != "prompt":
        return None
    text = given.prompt if isinstance(given.prompt, str) else ""
    for block in cast("list[Any]", given.prompt) if isinstance(given.prompt, list) else ():
        if isinstance(block, dict):
            known = cast("dict[str, Any]", block)
            text += str(known.get("text") or f"[{known.get('type')}]")
    return UserMessage(item_id=record.uuid, text=text) if text else None


class RecordTranslator:
    """Translates the records of one conversation in their order.

    `translate` may be called with records as they are written, so that a transcript can be followed.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._todos = TodoList()
        self._open: dict[str, Block] = {}
        """Tool calls without a result."""

    def translate(self, record: Record) -> Iterator[SessionEvent]:
        """Yield the events of a record. Records of sub-agents, which have files of their own, yield none."""
        if record.is_sidechain:
            return
        match record.type:
            case "user" if record.message is not None:
                yield from self._user(record, record.message)
            case "assistant" if record.message is not None:
                yield from self._assistant(record, record.message)
            case "system":
                yield from _system(record)
            case "attachment":
                message = queued_message(record)
                if message is not None:
                    yield message
            case _:
                pass

    def finish(self) -> Iterator[SessionEvent]:
        """Yield the ends of tool calls that have no result."""
        for call_id in self._open:
            yield ToolCallUpdate(tool_call_id=call_id, status=ToolStatus.FAILED)
        self._open.clear()

    def _user(self, record: Record, message: Message) -> Iterator[SessionEvent]:
        for block in message.blocks:
            if block.type == "tool_result":
                use = self._open.pop(block.tool_use_id, None)
                if use is None:
                    continue
                plan = None if block.is_error else self._todos.handle_result(use, record.tool_use_result)
                if plan is not None:
                    yield plan
                yield tools.tool_result(block, record.tool_use_result, self._directory)
        if is_prompt(record):
            yield from self.finish()
            yield UserMessage(item_id=record.uuid, text=prompt_text(record), anchor=record.uuid)

    def _assistant(self, record: Record, message: Message) -> Iterator[SessionEvent]:
        if record.is_api_error_message:
            yield Notice(text=tools.result_text([{"type": "text", "text": b.text} for b in message.blocks]),
                         level="error", code="agent_error")  # fmt: skip
            return
        for index, block in enumerate(message.blocks):
            message_id = f"{record.uuid}:{index}"
            if message.model == SYNTHETIC and block.text == _FILLER:
                continue
            if block.type == "text" and block.text:
                yield AgentMessage(message_id=message_id, text=block.text, anchor=record.uuid)
            elif block.type == "thinking" and block.thinking:
                yield AgentThought(message_id=message_id, text=block.thinking)
            elif block.type == "tool_use" and block.id:
                self._open[block.id] = block
                yield tools.tool_call(block, None, self._directory)


def _system(record: Record) -> Iterator[SessionEvent]:
    if record.subtype == "compact_boundary":
        found = record.compact_metadata or CompactMetadata()
        yield Compacted(
            automatic=found.trigger != "manual",
            tokens_before=found.pre_tokens,
            tokens_after=found.post_tokens,
        )


def _visible(text: str) -> str:
    """Return what a person wrote: a command as it was typed, and nothing of what Claude Code wrote itself."""
    if text.startswith(_INTERRUPTED):
        return ""
    if text.startswith(_SHELL_OUTPUT):
        return ""
    shell = _SHELL_INPUT.match(text)
    if shell is not None:
        return f"!{shell[1]}"
    command = _COMMAND.search(text)
    if command is not None:
        given = _COMMAND_ARGUMENTS.search(text)
        return f"{command[1]} {given[1] if given else ''}".strip()
    if "<local-command-" in text:
        text = _LOCAL_OUTPUT.sub("", text)
        text = re.sub(r"<local-command-caveat>.*?</local-command-caveat>", "", text, flags=re.DOTALL)
    return (_REMINDER.sub("", text) if "<system-reminder>" in text else text).strip()
