"""Follows the transcript of a conversation while Claude Code's own interface writes it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from farsteer.agents.base import Followed, Registered, TurnBegun
from farsteer.agents.claude import transcripts
from farsteer.agents.claude.protocol import TokenCounts
from farsteer.agents.claude.records import (
    Record,
    RecordTranslator,
    decode_record,
    is_interrupt,
    is_prompt,
    queued_message,
)
from farsteer.agents.turns import TurnOutput
from farsteer.core.events import (
    Notice,
    SessionEvent,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
    UsageUpdate,
    UserMessage,
)
from farsteer.core.ids import new_id

SENT_FROM = "terminal"
_BLOCK = 4 * 1024 * 1024
_TURN_END = frozenset({"stop_hook_summary", "turn_duration"})
"""Kinds of system records that Claude Code writes when it has ended a turn."""
_STOP_FEEDBACK = "Stop hook feedback:"
"""Begins a record with what a hook of the owner says to the model, which then goes on."""
_FINAL = frozenset({ToolStatus.COMPLETED, ToolStatus.FAILED})


class TranscriptFile:
    """Reads the records that are added to a transcript."""

    def __init__(self, config: Path, native_id: str) -> None:
        self._config = config
        self.native_id = native_id
        self._offset = 0

    def skip(self) -> str:
        """Begin after what is there now. Returns the last record of it, "" if there is none."""
        path = transcripts.find(self._config, self.native_id)
        if path is None:
            self._offset = 0
            return ""
        with path.open("rb") as file:
            self._offset = file.seek(0, os.SEEK_END)
            for _, line in transcripts.lines_backwards(file):
                if (record := decode_record(line)) is not None and record.uuid:
                    return record.uuid
        return ""

    def read(self) -> list[Record]:
        """Return the next records, [] at the end of the file. A line that is not complete yet is left for later."""
        path = transcripts.find(self._config, self.native_id)
        if path is None or path.stat().st_size <= self._offset:
            return []
        with path.open("rb") as file:
            file.seek(self._offset)
            block = file.read(_BLOCK)
            if b"\n" not in block:
                block += file.readline(transcripts.LINE_BYTES)
        end = block.rfind(b"\n") + 1
        self._offset += end
        return [record for line in block[:end].splitlines() if (record := decode_record(line)) is not None]


def records_after(config: Path, native_id: str, record: str) -> Iterator[Record]:
    """Yield the records that follow a record, in the order in which they were written. "" stands for the beginning."""
    path = transcripts.find(config, native_id)
    if path is None:
        return
    with path.open("rb") as file:
        begin = _end_of(file, record)
        if begin is None:
            return
        file.seek(begin)
        while line := file.readline(transcripts.LINE_BYTES):
            if (known := decode_record(line)) is not None:
                yield known


def _end_of(file: BinaryIO, record: str) -> int | None:
    """Return the position behind a record, None if it is not in the file."""
    if not record:
        return 0
    mark = record.encode()
    for offset, line in transcripts.lines_backwards(file):
        if mark in line and (known := decode_record(line)) is not None and known.uuid == record:
            return offset + len(line) + 1
    return None


def events_after(config: Path, native_id: str, record: str, directory: str) -> list[SessionEvent]:
    """Return what was added after a record as events."""
    translator = RecordTranslator(directory)
    for before in _records_of_turn(config, native_id, record):
        # The log has these. The translator must know the tool calls that have got no result yet.
        for _ in translator.translate(before):
            pass
    events: list[SessionEvent] = []
    for one in records_after(config, native_id, record):
        events += (_as_typed(event) for event in translator.translate(one))
    return [*events, *translator.finish()]


def _records_of_turn(config: Path, native_id: str, record: str) -> list[Record]:
    """Return the records from the last prompt to this record."""
    path = transcripts.find(config, native_id)
    found: list[Record] = []
    if path is None or not record:
        return found
    with path.open("rb") as file:
        for _, line in transcripts.lines_backwards(file):
            one = decode_record(line)
            if one is not None and (found or one.uuid == record):
                found.append(one)
                if is_prompt(one):
                    break
    return found[::-1]


def _as_typed(event: SessionEvent) -> SessionEvent:
    return _typed(event) if isinstance(event, UserMessage) else event


def _typed(message: UserMessage) -> UserMessage:
    return msgspec.structs.replace(message, sent_from=SENT_FROM)


class Follower:
    """Translates the records of a transcript into outputs, with the turns that they show."""

    def __init__(self, output: TurnOutput, config: Path, native_id: str, directory: str) -> None:
        self._output = output
        self._config = config
        self._directory = directory
        self._file = TranscriptFile(config, native_id)
        self._translator = RecordTranslator(directory)
        self._command: UserMessage | None = None
        """A slash command, or one of the shell. It begins a turn only if the model answers it."""
        self._usage: dict[str, tuple[str, TokenCounts]] = {}
        """Model and tokens by the id of the model's message, of which there may be several records."""
        self._error: str | None = None
        self._last = ""
        self._reading = asyncio.Lock()
        self.is_registered = False
        self.goes_on = False
        """A hook of the owner has not let Claude Code stop."""
        self._calls: dict[str, dict[str, Any]] = {}
        """The tool calls of the running turn with their input."""
        self.finished_tools: list[str] = []
        """Tool calls that have got a result since this was emptied."""

    @property
    def native_id(self) -> str:
        return self._file.native_id

    async def skip(self) -> None:
        """Begin after what is in the transcript now."""
        self._output.add(Followed(record=await asyncio.to_thread(self._file.skip)))

    def has_call(self, call: str | None) -> bool:
        """Whether the log has this tool call of the running turn, or the turn if the call is not known."""
        return self._output.turn_id is not None and (call is None or call in self._calls)

    @property
    def has_failed(self) -> bool:
        """Whether the last that was read of the running turn is an error of the model."""
        return self._error is not None

    def find_input(self, call: str) -> dict[str, Any]:
        """Return the input of a tool call of the running turn as the model wrote it."""
        return self._calls.get(call, {})

    async def switch(self, native_id: str) -> None:
        """Go on with another conversation: the person has cleared this one, or has gone to an earlier one."""
        while await self.read():
            pass
        async with self._reading:
            if native_id != self.native_id:
                await self._switch(native_id)

    async def _switch(self, native_id: str) -> None:
        self.end_turn(TurnEndReason.END_TURN)
        file = TranscriptFile(self._config, native_id)
        last = await asyncio.to_thread(file.skip)
        self._file = file
        self._output.add(Followed(record=last))
        self._translator = RecordTranslator(self._directory)
        text = "The person at the terminal went on with another conversation of Claude Code."
        self._output.add_event(Notice(text=text, code="conversation_changed", meta={"nativeId": native_id}))
        self._output.add(Registered(native_id=native_id))

    async def read(self) -> bool:
        """Take what was added. Returns whether anything was."""
        async with self._reading:
            records = await asyncio.to_thread(self._file.read)
            for record in records:
                self._handle(record)
            if self._last:
                self._output.add(Followed(record=self._last))
                self._last = ""
            return bool(records)

    def end_turn(self, reason: TurnEndReason, error: str | None = None) -> None:
        """End the running turn, if there is one."""
        if self._output.turn_id is None:
            return
        for event in self._translator.finish():
            self._output.add_event(event)
        for update in self._usage_updates():
            self._output.add_event(update)
        if reason is not TurnEndReason.CANCELLED and self._error is not None:
            reason, error = TurnEndReason.FAILED, self._error
        self._error, self.goes_on = None, False
        self._output.end(reason, error)

    def _handle(self, record: Record) -> None:
        if record.is_sidechain:
            return
        self._last = record.uuid or self._last
        queued = queued_message(record)
        if queued is not None:
            self._add_message(_typed(queued))
            return
        if _is_stop_feedback(record):
            self.goes_on = True
        if is_interrupt(record):
            self.end_turn(TurnEndReason.CANCELLED)
            return
        if record.type == "system" and record.subtype in _TURN_END:
            if not self.goes_on:
                self.end_turn(TurnEndReason.END_TURN)
            return
        if record.type == "assistant":
            self._note_usage(record)
        for event in self._translator.translate(record):
            self._add(event, record)

    def _add(self, event: SessionEvent, record: Record) -> None:
        if isinstance(event, UserMessage):
            message = _typed(event)
            if is_prompt(record) and not message.text.startswith(("/", "!")):
                self._begin_turn(message)
            else:
                self._command = message
            return
        if self._command is not None and record.type == "assistant":
            self._begin_turn(self._command)
        if isinstance(event, ToolCallUpdate) and event.status in _FINAL:
            self.finished_tools.append(event.tool_call_id)
        if isinstance(event, ToolCall):
            self._calls[event.tool_call_id] = event.input or {}
        if record.type == "assistant":
            self._error, self.goes_on = None, False
        if record.is_api_error_message and isinstance(event, Notice):
            self._error = event.text
            return
        self._output.add_event(event)

    def _add_message(self, message: UserMessage) -> None:
        """Add a message to the running turn, or begin one with it."""
        if self._output.turn_id is None:
            self._begin_turn(message)
        else:
            self._output.add_event(message)

    def _begin_turn(self, message: UserMessage) -> None:
        self.end_turn(TurnEndReason.END_TURN)
        self._command, self._error, self.goes_on = None, None, False
        self._usage.clear()
        self._calls.clear()
        if not self.is_registered:
            # Claude Code stores a conversation with its first message.
            self.is_registered = True
            self._output.add(Registered(native_id=self.native_id))
        turn_id = new_id()
        self._output.add(TurnBegun(turn_id=turn_id, message=message))
        self._output.begin(turn_id)

    def _note_usage(self, record: Record) -> None:
        message = record.message
        if message is not None and message.usage is not None and not record.is_api_error_message:
            self._usage[message.id] = (message.model, message.usage)

    def _usage_updates(self) -> Iterator[UsageUpdate]:
        """Return what the turn has used, by model. The transcript has no cost."""
        totals: dict[str, dict[str, Any]] = {}
        for model, counts in self._usage.values():
            total = totals.setdefault(model, dict.fromkeys(_COUNTS, 0))
            for name, attribute in _COUNTS.items():
                total[name] += getattr(counts, attribute) or 0
            total["context_used"] = counts.context
        for model, total in totals.items():
            yield UsageUpdate(model=model, **total)
        self._usage.clear()


def _is_stop_feedback(record: Record) -> bool:
    if record.type != "user" or not record.is_meta or record.message is None:
        return False
    return any(block.text.startswith(_STOP_FEEDBACK) for block in record.message.blocks)


_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_write_tokens": "cache_creation_input_tokens",
}


def is_same_config(one: Path, other: Path) -> bool:
    """Whether two directories of Claude Code's settings are the same."""
    return os.path.realpath(one) == os.path.realpath(other)
