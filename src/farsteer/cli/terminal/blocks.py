"""A session's log as blocks for a person: messages, tool calls, approvals, notes. Does no I/O and draws nothing.

Finished blocks are in the order of the log. Messages that are being streamed are behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from farsteer.cli.terminal.log_view import entry_lines
from farsteer.cli.terminal.text import StyledText
from farsteer.client.live_events import StreamedText
from farsteer.core import events as ev
from farsteer.core.approvals import Approval
from farsteer.core.events import Delta, DeltaKind, Entry, ToolStatus

_MAX_LIVE_OUTPUT = 200_000


class Speaker(StrEnum):
    PERSON = "person"
    AGENT = "agent"
    THOUGHT = "thought"
    SUBAGENT = "subagent"


@dataclass(slots=True, eq=False, weakref_slot=True)
class Block:
    seq: int
    """The entry that it begins with; 0 while it is streamed."""
    version: int = field(default=0, kw_only=True)
    """Changes with the content."""
    unfolded: bool | None = field(default=None, kw_only=True)
    """What the person chose. None: as all the others."""

    def touch(self) -> None:
        self.version += 1


@dataclass(slots=True, eq=False)
class MessageBlock(Block):
    speaker: Speaker
    text: str
    streaming: bool = False
    partial: bool = False


@dataclass(slots=True, eq=False)
class ToolBlock(Block):
    call: ev.ToolCall
    title: str
    status: ToolStatus
    content: tuple[ev.ToolContent, ...] = ()
    live_output: str = ""
    """What the tool has written so far. Its result replaces it."""

    @property
    def has_diff(self) -> bool:
        return any(isinstance(part, ev.DiffBlock) for part in self.content)


@dataclass(slots=True, eq=False)
class PlanBlock(Block):
    entries: tuple[ev.PlanEntry, ...]


@dataclass(slots=True, eq=False)
class ApprovalBlock(Block):
    approval: Approval
    resolved: ev.ApprovalResolved | None = None


@dataclass(slots=True, eq=False)
class NoteBlock(Block):
    lines: list[StyledText]


class BlockList:
    """Turns entries and deltas into blocks. Entries must come in the order of the log."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._tools: dict[str, ToolBlock] = {}
        self._approvals: dict[str, ApprovalBlock] = {}
        self._streams: dict[str, MessageBlock] = {}
        self._plan: PlanBlock | None = None
        self._text = StreamedText()
        self._orphans: list[Entry] = []
        """Entries that belong to blocks of an older page."""

    @property
    def first_seq(self) -> int:
        """The first entry that is shown; 0 if there is none."""
        return next((block.seq for block in self.blocks if block.seq), 0)

    def tool(self, tool_call_id: str | None) -> ToolBlock | None:
        return self._tools.get(tool_call_id or "")

    def add(self, entry: Entry) -> None:
        """Add the next entry of the log."""
        content = entry.content
        match content:
            case ev.UserMessage():
                files = [f"[{attachment.name}]" for attachment in content.attachments]
                text = "\n".join([content.text, *files])
                self._append(MessageBlock(entry.seq, Speaker.PERSON, text))
            case ev.AgentMessage() | ev.AgentThought():
                self._complete(entry.seq, content)
            case ev.ToolCall():
                tool = ToolBlock(entry.seq, content, content.title, content.status, content.content)
                self._tools[content.tool_call_id] = tool
                self._append(tool)
            case ev.ToolCallUpdate():
                self._update_tool(entry, content)
            case ev.Plan():
                self._show_plan(entry.seq, content)
            case ev.ApprovalRequested():
                asked = ApprovalBlock(entry.seq, content.approval)
                self._approvals[content.approval.id] = asked
                self._append(asked)
            case ev.ApprovalResolved():
                self._resolve(entry, content)
            case ev.Rewound():
                self.remove(content.first_seq, entry.seq)
                self._append_note(entry)
            case ev.TurnEnd():
                self._plan = None
                for message_id in [*self._streams]:
                    self._remove(self._streams.pop(message_id))
                self._append_note(entry)
            case _:
                self._append_note(entry)

    def add_delta(self, delta: Delta) -> None:
        """Add a part of a message, or of the output of a tool."""
        if delta.kind is DeltaKind.TOOL_OUTPUT:
            tool = self._tools.get(delta.message_id)
            if tool is not None and not tool.status.final and delta.offset <= len(tool.live_output):
                text = tool.live_output[: delta.offset] + delta.text
                tool.live_output = text if len(text) <= _MAX_LIVE_OUTPUT else tool.live_output
                tool.touch()
            return
        if delta.kind is DeltaKind.TOOL_INPUT:
            return
        new = self._text.add_delta(delta)
        if not new:
            return
        block = self._streams.get(delta.message_id)
        if block is None:
            speaker = Speaker.THOUGHT if delta.kind is DeltaKind.THOUGHT else Speaker.AGENT
            block = self._streams[delta.message_id] = MessageBlock(0, speaker, "", streaming=True)
            self.blocks.append(block)
        block.text += new
        block.touch()

    def prepend(self, entries: Iterable[Entry]) -> None:
        """Add the entries before the first one."""
        older = BlockList()
        for entry in entries:
            older.add(entry)
        orphans, self._orphans = self._orphans, []
        for entry in orphans:
            older.add(entry)
        self._orphans = older._orphans
        self.blocks[:0] = older.blocks
        self._tools = {**older._tools, **self._tools}
        self._approvals = {**older._approvals, **self._approvals}

    def remove(self, first_seq: int, last_seq: int) -> None:
        """Remove the blocks of these entries: they are no longer part of the conversation."""
        self.blocks = [block for block in self.blocks if not first_seq <= (block.seq or last_seq) <= last_seq]
        self._streams.clear()
        self._plan = None

    def trim(self, keep: int) -> None:
        """Keep the last blocks only. The others can be read again."""
        if len(self.blocks) > keep:
            del self.blocks[:-keep]

    def _append(self, block: Block) -> None:
        self.blocks.insert(len(self.blocks) - len(self._streams), block)

    def _remove(self, block: Block) -> None:
        if block in self.blocks:
            self.blocks.remove(block)

    def _append_note(self, entry: Entry) -> None:
        lines = [line for line in entry_lines(entry, {}) if line.text.strip()]
        if lines:
            self._append(NoteBlock(entry.seq, lines))

    def _complete(self, seq: int, content: ev.AgentMessage | ev.AgentThought) -> None:
        self._text.complete(content.message_id, content.text)
        block = self._streams.pop(content.message_id, None)
        if isinstance(content, ev.AgentThought):
            speaker = Speaker.THOUGHT
        else:
            speaker = Speaker.AGENT if content.parent_tool_call_id is None else Speaker.SUBAGENT
        if block is None:
            block = MessageBlock(seq, speaker, content.text)
        else:
            self._remove(block)
            block.seq, block.speaker, block.text, block.streaming = seq, speaker, content.text, False
        block.partial = content.partial
        block.touch()
        self._append(block)

    def _update_tool(self, entry: Entry, content: ev.ToolCallUpdate) -> None:
        tool = self._tools.get(content.tool_call_id)
        if tool is None:
            self._orphans.append(entry)
            return
        tool.title = content.title or tool.title
        tool.status = content.status or tool.status
        tool.content = _joined(tool.content, content.content)
        if tool.status.final:
            tool.live_output = ""
        tool.touch()

    def _show_plan(self, seq: int, content: ev.Plan) -> None:
        """Show the to-do list of a turn once: each of its updates is the whole list."""
        if self._plan is None:
            self._plan = PlanBlock(seq, content.entries)
            self._append(self._plan)
        else:
            self._plan.entries = content.entries
            self._plan.touch()

    def _resolve(self, entry: Entry, content: ev.ApprovalResolved) -> None:
        asked = self._approvals.get(content.approval_id)
        if asked is None:
            self._orphans.append(entry)
            return
        asked.resolved = content
        asked.touch()


def _joined(old: Sequence[ev.ToolContent], new: Sequence[ev.ToolContent]) -> tuple[ev.ToolContent, ...]:
    """Return the content of a tool call after an update. A diff of the same file replaces the earlier one."""
    paths = {part.path for part in new if isinstance(part, ev.DiffBlock)}
    kept = [
        part
        for part in old
        if (part.path not in paths if isinstance(part, ev.DiffBlock) else part not in new)
    ]
    return (*kept, *new)
