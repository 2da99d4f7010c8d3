"""What a fork takes over from its source: the conversation, and not how it came about.

Messages, thoughts, tool calls, plans and turns are copied and numbered anew. Queue, launches, approvals and usage are
left out. A long log is copied in parts, each of which continues from the progress of the one before.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.events import Entry, decode_entry, role_of
from farsteer.core.wire import encode
from farsteer.hub.rules.rewind import message_text

CHUNK_ENTRIES = 500
CHUNK_BYTES = 4 * 1024 * 1024

_CONVERSATION = (
    ev.UserMessage, ev.AgentMessage, ev.AgentThought, ev.ToolCall, ev.ToolCallUpdate, ev.Plan, ev.Notice, ev.Other,
)  # fmt: skip


class CopyProgress(Struct):
    """How far the copy of a log has come."""

    count: int = 0
    """Entries copied so far."""
    source_seq: int = 0
    """The last entry of the source that was read."""
    source_time: int = 0
    """When that entry was created."""
    open_turn: str | None = None
    """The turn that has started in the copy and not ended."""
    anchor: str | None = None
    """The last anchor in the copy."""
    answered: bool = False
    """The copy has an answer of the agent."""
    last_message: str | None = None
    done: bool = False


def copy_chunk(
    target_id: str, source: Iterable[tuple[int, bytes]], progress: CopyProgress
) -> tuple[list[tuple[int, bytes]], CopyProgress]:
    """Return the next entries of the copy and the progress with them.

    `source` are the (seq, encoded entry) that follow `progress.source_seq`. Only as many are read as one chunk takes.
    """
    copy = _Copy(target_id, progress)
    count = size = 0
    for seq, body in source:
        copy.add(seq, body)
        count, size = count + 1, size + len(body)
        if count == CHUNK_ENTRIES or size > CHUNK_BYTES:
            return copy.entries, copy.progress
    copy.end_open_turn()
    copy.progress.done = True
    return copy.entries, copy.progress


class _Copy:
    """One chunk in the making."""

    def __init__(self, target_id: str, progress: CopyProgress) -> None:
        self.entries: list[tuple[int, bytes]] = []
        self.progress = replace(progress)
        self._target_id = target_id

    def add(self, seq: int, body: bytes) -> None:
        progress = self.progress
        entry = decode_entry(body)
        event = entry.content
        if isinstance(event, ev.TurnStart):
            self.end_open_turn()
            self._append(entry)
            progress.open_turn = event.turn_id
        elif isinstance(event, ev.TurnEnd):
            if event.turn_id == progress.open_turn:
                self._append(entry)
                progress.open_turn = None
        elif isinstance(event, _CONVERSATION):
            self._append(entry)
            progress.last_message = message_text(event) or progress.last_message
            if isinstance(event, ev.AgentMessage | ev.AgentThought):
                progress.answered = True
                progress.anchor = event.anchor or progress.anchor
        progress.source_seq, progress.source_time = seq, entry.created_at

    def end_open_turn(self) -> None:
        """Every turn ends once, also where the copy stops inside it."""
        turn_id = self.progress.open_turn
        if turn_id is not None:
            end = ev.TurnEnd(
                turn_id=turn_id, reason=ev.TurnEndReason.CANCELLED, error="the conversation was forked here"
            )
            time = self.progress.source_time
            self._append(Entry(id="", seq=0, role=role_of(end), created_at=time, content=end))
            self.progress.open_turn = None

    def _append(self, entry: Entry) -> None:
        seq = self.progress.count = self.progress.count + 1
        self.entries.append((seq, encode(replace(entry, id=f"{self._target_id}:{seq}", seq=seq))))
