"""The events of a session's log.

Messages, tool calls and plans follow ACP's session updates; turns, approvals, queue and launches are Farsteer's own.
The runner numbers each event, wraps it in an `Entry` and encodes it once. Everything after that passes the bytes on.
An agent's event of an unknown kind is kept as `Other`, and unknown fields of a known event are kept in `meta`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, get_args

import msgspec

from farsteer.core.approvals import Approval, Outcome
from farsteer.core.identity import Identity
from farsteer.core.modes import PermissionMode, ReasoningEffort, ToolKind
from farsteer.core.queue import Attachment, ItemState, QueueItem
from farsteer.core.wire import WireStruct


class Role(StrEnum):
    """Whose entry it is. `system` entries are about the session itself."""

    USER = "user"
    AGENT = "agent"
    SYSTEM = "system"


class TurnEndReason(StrEnum):
    """How a turn ended. The first five are ACP's stop reasons."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
    FAILED = "failed"
    """The agent reported an error."""
    CRASHED = "crashed"
    """The agent's process ended during the turn."""
    LOST = "lost"
    """The runner ended during the turn. What the agent did afterwards is unknown."""


class ToolStatus(StrEnum):
    """How far a tool call is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        return self in (ToolStatus.COMPLETED, ToolStatus.FAILED)


class SessionStatus(StrEnum):
    """What a session does now."""

    STARTING = "starting"
    IDLE = "idle"
    WORKING = "working"
    WAITING = "waiting"
    """The turn waits for a person's answer."""
    STOPPED = "stopped"
    """No process runs. The next message starts one."""
    FAILED = "failed"
    """The last launch failed. The next message tries again."""
    UNREACHABLE = "unreachable"
    """The machine's link is down. Set only by the hub, and never stored."""


class TextBlock(WireStruct, tag_field="type", tag="text"):
    """Text that a tool call shows."""

    text: str


class DiffBlock(WireStruct, tag_field="type", tag="diff"):
    """A change of a file. `old_text` is None for a new file."""

    path: str
    new_text: str
    old_text: str | None = None


ToolContent = TextBlock | DiffBlock


class Location(WireStruct):
    """A file that a tool call is about, and the line if it is known."""

    path: str
    line: int | None = None


class PlanEntry(WireStruct):
    """One step of a plan."""

    content: str
    status: str = "pending"
    priority: str = "medium"


class SlashCommand(WireStruct):
    """A command that the agent understands in a message, such as `/review`."""

    name: str
    description: str = ""


class Event(WireStruct, tag_field="kind", kw_only=True):
    """Base of all events. `meta` has what only this agent reports."""

    meta: dict[str, Any] | None = None


class UserMessage(Event, tag="user_message"):
    """A message of a person that is handed to the agent."""

    item_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    sent_from: str | None = None
    identity: Identity | None = None
    anchor: str | None = None


class AgentMessage(Event, tag="agent_message"):
    """A message of the agent, complete."""

    message_id: str
    text: str
    anchor: str | None = None
    """The agent's own id of this message. A rewind can cut after it."""
    partial: bool = False
    """True if the turn ended before the message was complete."""
    parent_tool_call_id: str | None = None
    """The tool call that runs the sub-agent which this is from. None: it is from the agent itself.

    What a sub-agent says is no answer to the person, and has no anchor.
    """


class AgentThought(Event, tag="agent_thought"):
    """What the agent thought, if it tells."""

    message_id: str
    text: str
    anchor: str | None = None
    partial: bool = False
    parent_tool_call_id: str | None = None


class ToolCall(Event, tag="tool_call"):
    """The agent uses a tool. `ToolCallUpdate` events with the same `tool_call_id` follow."""

    tool_call_id: str
    title: str
    tool_kind: ToolKind
    status: ToolStatus
    tool: str | None = None
    input: dict[str, Any] | None = None
    locations: tuple[Location, ...] = ()
    content: tuple[ToolContent, ...] = ()
    parent_tool_call_id: str | None = None

    @property
    def kind(self) -> ToolKind:
        """The kind of tool, for patterns: `case ToolCall(kind=ToolKind.EDIT)`."""
        return self.tool_kind


class ToolCallUpdate(Event, tag="tool_call_update"):
    """Progress or result of a tool call. None and empty fields mean unchanged."""

    tool_call_id: str
    status: ToolStatus | None = None
    title: str | None = None
    locations: tuple[Location, ...] = ()
    content: tuple[ToolContent, ...] = ()
    output: Any = None
    partial: bool = False
    """The tool was broken off. `content` begins with what it had written until then."""


class Plan(Event, tag="plan"):
    """What the agent plans to do. Replaces the plan before it."""

    entries: tuple[PlanEntry, ...] = ()


class CommandsUpdate(Event, tag="commands_update"):
    """The slash commands that the agent understands now."""

    commands: tuple[SlashCommand, ...] = ()


class ModeUpdate(Event, tag="mode_update"):
    """The current permission mode, model and effort. None means unchanged."""

    permission_mode: PermissionMode | None = None
    model: str | None = None
    effort: ReasoningEffort | None = None
    identity: Identity | None = None
    """Who changed them. None if the agent did."""


class AgentSwitched(Event, tag="agent_switched"):
    """The session goes on with another agent."""

    agent: str
    model: str | None = None
    """The model from now on. None means the default of the agent."""
    anew: bool = False
    """With a new conversation: the agent does not know what was said before."""
    native_id: str | None = None
    """The id of the new conversation, if it is known already."""
    identity: Identity | None = None


class TerminalUpdate(Event, tag="terminal_update"):
    """The agent's own interface has begun or ended in a person's terminal."""

    open: bool


class UsageUpdate(Event, tag="usage_update"):
    """Tokens used since the last update, and the current size of the context."""

    turn_id: str | None = None
    """The turn that used them. An agent may report usage after the turn has ended."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    context_used: int | None = None
    context_size: int | None = None
    cost_usd: float | None = None
    model: str | None = None


class Compacted(Event, tag="compacted"):
    """The agent has replaced the beginning of its context by a summary. The log keeps everything."""

    automatic: bool = True
    """False if a person asked for it."""
    tokens_before: int | None = None
    tokens_after: int | None = None


class TitleUpdate(Event, tag="title_update"):
    """The session has another title."""

    title: str
    by_user: bool = False
    identity: Identity | None = None


class TurnStart(Event, tag="turn_start"):
    """A turn has begun. `item_id` is the message that started it; None: the agent began by itself."""

    turn_id: str
    item_id: str | None = None


class TurnEnd(Event, tag="turn_end"):
    """A turn has ended. It is the last event of the turn."""

    turn_id: str
    reason: TurnEndReason
    error: str | None = None


class ApprovalRequested(Event, tag="approval_requested"):
    """The agent waits for an answer of a person."""

    approval: Approval


class ApprovalResolved(Event, tag="approval_resolved"):
    """An approval has got its outcome: an answer, or that there was none. `by` names who answered."""

    approval_id: str
    outcome: Outcome
    by: str | None = None
    identity: Identity | None = None
    option_id: str | None = None
    answers: dict[str, list[str]] | None = None
    message: str | None = None


class QueueUpdate(Event, tag="queue_update"):
    """A message has entered or left the queue, or has got its outcome."""

    item_id: str
    state: ItemState
    item: QueueItem | None = None
    """The item, when it enters the queue or moves in it, or gets an outcome without having been in it."""
    reason: str | None = None


class LaunchStart(Event, tag="launch_start"):
    """The agent's process has started."""

    generation: int
    resumed: bool
    native_id: str | None = None


class LaunchEnd(Event, tag="launch_end"):
    """The agent's process has ended."""

    generation: int
    reason: str
    exit_code: int | None = None
    stderr: str | None = None


class FileRestore(StrEnum):
    """What happened to the files in a rewind."""

    FULL = "full"
    PARTIAL = "partial"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"
    """The agent cannot restore files."""
    SKIPPED = "skipped"
    """The caller did not ask for it."""


class FilesRestored(WireStruct, omit_defaults=False):
    """The files of a rewind, by what happened to each."""

    status: FileRestore
    restored: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    reason: str | None = None


class Rewound(Event, tag="rewound"):
    """The conversation was rewound. Entries from `first_seq` up to this one are hidden."""

    first_seq: int
    files: FilesRestored
    cut_at: str | None = None
    """The last anchor the agent keeps. None: it starts a new conversation, unless `keeps` is true."""
    keeps: bool = False
    """The agent has no anchor to cut at, so it still remembers what was removed."""
    native_id: str | None = None
    """The native id of the new conversation, if one is started."""
    by: str | None = None
    identity: Identity | None = None


class StatusUpdate(Event, tag="status_update"):
    """The session has another status."""

    status: SessionStatus
    error: str | None = None


class Notice(Event, tag="notice"):
    """Information for a person: a retry, a rate limit, a line that could not be read."""

    text: str
    level: str = "info"
    code: str | None = None


class Other(Event, tag="other"):
    """An agent's event of an unknown kind, kept unchanged."""

    native_kind: str
    data: Any = None


SessionEvent = (
    UserMessage | AgentMessage | AgentThought | ToolCall | ToolCallUpdate | Plan | CommandsUpdate | ModeUpdate
    | AgentSwitched | TerminalUpdate | UsageUpdate | Compacted | TitleUpdate | TurnStart | TurnEnd | ApprovalRequested
    | ApprovalResolved | QueueUpdate | LaunchStart | LaunchEnd | Rewound | StatusUpdate | Notice | Other
)  # fmt: skip

_KIND_BY_TYPE = {kind: str(kind.__struct_config__.tag) for kind in get_args(SessionEvent)}
KINDS = frozenset(_KIND_BY_TYPE.values())
"""The kinds of events that this version knows."""

_AGENT = (
    AgentMessage,
    AgentThought,
    ToolCall,
    ToolCallUpdate,
    Plan,
    CommandsUpdate,
    UsageUpdate,
    Compacted,
    Other,
)


def role_of(event: SessionEvent) -> Role:
    if isinstance(event, UserMessage):
        return Role.USER
    return Role.AGENT if isinstance(event, _AGENT) else Role.SYSTEM


class Entry(WireStruct):
    """An event with its place in the log. The REST API calls it a message."""

    id: str
    seq: int
    role: Role
    created_at: int
    content: SessionEvent
    local_id: str | None = None


def kind_of(event: SessionEvent) -> str:
    """Return the kind of an event as it is encoded, such as `user_message`."""
    return _KIND_BY_TYPE[type(event)]


def make_entry(
    session_id: str, seq: int, event: SessionEvent, created_at: int, local_id: str | None = None
) -> Entry:
    """Return the entry of an event at its place in the log. Its id follows from that place."""
    return Entry(
        id=f"{session_id}:{seq}", seq=seq, role=role_of(event), created_at=created_at, content=event,
        local_id=local_id,
    )  # fmt: skip


class DeltaKind(StrEnum):
    """What a delta is a part of."""

    MESSAGE = "agent_message"
    THOUGHT = "agent_thought"
    TOOL_OUTPUT = "tool_output"
    TOOL_INPUT = "tool_input"
    """The input of a tool call as the model writes it, before the tool call itself. JSON that is not complete yet."""


class Delta(WireStruct):
    """A live fragment of a message that is stored later as a whole. `offset` is its position in characters."""

    message_id: str
    """The id of the message, or of the tool call."""
    kind: DeltaKind
    text: str
    offset: int = 0
    after: int = 0
    """The last log entry before it. Deltas are not stored and may arrive before that entry."""


_decoder = msgspec.json.Decoder(Entry)
_many_decoder = msgspec.json.Decoder(list[Entry])
_object_decoder = msgspec.json.Decoder(dict[str, Any])


def decode_entries(bodies: Sequence[bytes]) -> list[Entry]:
    """Decode many entries, in one step if all of them are of known kinds."""
    try:
        return _many_decoder.decode(b"[%b]" % b",".join(bodies))
    except msgspec.ValidationError:
        return [decode_entry(body) for body in bodies]


def decode_entry(data: bytes) -> Entry:
    """Decode an entry. An unknown kind, written by a newer version, becomes `Other`."""
    try:
        return _decoder.decode(data)
    except msgspec.ValidationError:
        raw: dict[str, Any] = _object_decoder.decode(data)
        content = raw.get("content")
        if not isinstance(content, dict):
            raise
        kind = str(content.get("kind"))
        raw["content"] = {"kind": "other", "nativeKind": kind, "data": content}
        return msgspec.convert(raw, Entry)
