"""Bodies about sessions: creation, settings, import, rewind, fork."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from farsteer.core.api.base import EntrySeq, Name, Path, RequestBody, ResponseBody, Text, Value
from farsteer.core.approvals import Approval
from farsteer.core.events import FilesRestored, SessionStatus, SlashCommand
from farsteer.core.mcp import McpServer, McpTransport
from farsteer.core.modes import ModelMode, PermissionMode, ReasoningEffort
from farsteer.core.queue import QueueItem, QueueRef
from farsteer.core.session import SessionState, SessionType, StoredConversation, Usage, Worktree


class NewMcpServer(RequestBody):
    """An MCP server for the agent. `env` and `headers` are sent to the runner only and never returned to a client."""

    name: Name
    type: McpTransport = McpTransport.STDIO
    command: Path | None = None
    args: Annotated[list[Value], Meta(max_length=200)] = []
    env: dict[str, Value] = {}
    url: Path | None = None
    headers: dict[str, Value] = {}

    def __repr__(self) -> str:
        return f"New{self.server()!r}"

    def server(self) -> McpServer:
        return McpServer(
            name=self.name, type=self.type, command=self.command, args=tuple(self.args), env=self.env, url=self.url,
            headers=self.headers,
        )  # fmt: skip


class CreateSession(RequestBody):
    machine_id: Annotated[str, Meta(min_length=1, max_length=100)]
    directory: Path
    agent: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    yolo: bool | None = None
    session_type: SessionType | None = None
    worktree_name: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    worktree_base: Annotated[str, Meta(min_length=1, max_length=250)] | None = None
    """The branch, tag or commit that the worktree begins with."""
    claude_agent: Name | None = None
    openrouter_model: Name | None = None
    permission_mode: PermissionMode | None = None
    model_mode: ModelMode | None = None
    model_reasoning_effort: ReasoningEffort | None = None
    source: Annotated[str, Meta(max_length=100)] | None = None
    prompt: Text | None = None
    title: Name | None = None
    model: Name | None = None
    permission_timeout: Annotated[float, Meta(gt=0, le=7 * 86400)] | None = None
    mcp_servers: Annotated[list[NewMcpServer], Meta(max_length=100)] = []
    additional_directories: Annotated[list[Path], Meta(max_length=100)] = []
    terminal: bool = False
    """Start no process: `farsteer run` starts the agent's own interface in a terminal of that machine."""
    session_id: Annotated[str, Meta(max_length=100)] | None = None
    """The id of the new session, a UUID that no session has or had."""


class LogLineView(ResponseBody):
    timestamp: int
    step: str
    message: str
    status: str
    code: str | None = None


class SessionCreated(Struct, frozen=True, rename="camel", tag_field="type", tag="success"):
    session_id: str
    logs: list[LogLineView]


class SessionNotCreated(
    Struct, frozen=True, rename="camel", tag_field="type", tag="error", omit_defaults=True
):
    message: str
    logs: list[LogLineView]
    details: dict[str, Any] | None = None
    """For an import: `session` is the id of the session that already has this conversation. For a refused field: its
    `field`, and `models` or `efforts` with what the agent knows."""


class ForkedFrom(ResponseBody):
    session_id: str
    seq: int
    """The last entry that was copied from that session."""


class HandedOffFrom(ResponseBody):
    session_id: str
    agent: str
    seq: int
    """The last entry of that session that was handed over."""


class SessionView(ResponseBody):
    """A session as it is now."""

    id: str
    namespace: str
    machine_id: str
    agent: str
    directory: str
    status: SessionStatus
    active: bool
    """True if the agent's process runs and its machine is reachable."""
    thinking: bool
    """True while a turn runs."""
    title: str | None
    created_at: int
    updated_at: int
    seq: int
    permission_mode: PermissionMode
    model: str | None
    model_reasoning_effort: ReasoningEffort | None
    source: str
    session_type: SessionType
    worktree: Worktree | None
    native_id: str | None
    turn_id: str | None
    queue: tuple[QueueItem, ...]
    approvals: tuple[Approval, ...]
    pending_requests_count: int
    usage: Usage
    commands: tuple[SlashCommand, ...]
    last_message: str | None
    error: str | None
    permission_timeout: float | None
    forked_from: ForkedFrom | None = None
    mcp_servers: tuple[str, ...] = ()
    """Names of the MCP servers given at creation."""
    additional_directories: tuple[str, ...] = ()
    handed_off_from: HandedOffFrom | None = None
    handed_off_to: tuple[str, ...] = ()
    """The sessions of other agents that this one was handed over to."""
    in_terminal: bool = False
    """True while the agent's own interface is open in a person's terminal (`farsteer run`)."""

    def state(self) -> SessionState:
        """Return the part of the session's state that clients can see. Faces apply later log entries to it."""
        return SessionState(
            id=self.id, agent=self.agent, directory=self.directory, status=self.status, seq=self.seq, title=self.title,
            permission_mode=self.permission_mode, model=self.model, effort=self.model_reasoning_effort,
            turn_id=self.turn_id, queue=tuple(QueueRef(item.id, item.state) for item in self.queue),
            approvals=self.approvals, usage=self.usage, commands=self.commands,
        )  # fmt: skip


class SessionsResponse(ResponseBody):
    sessions: list[SessionView]
    next_cursor: str | None


class SessionResponse(ResponseBody):
    session: SessionView


class RenameSession(RequestBody):
    title: Name


class SetPermissionMode(RequestBody):
    mode: PermissionMode


class SetModel(RequestBody):
    model: Name
    reasoning_effort: ReasoningEffort | None = None


class SwitchAgent(RequestBody):
    agent: Name
    model: Name | None = None


class ConversationsResponse(ResponseBody):
    conversations: list[StoredConversation]


class ImportConversation(RequestBody):
    agent: Annotated[str, Meta(min_length=1, max_length=100)]
    native_id: Name
    """The agent's own id of the conversation."""
    title: Name | None = None


class RewindSession(RequestBody):
    seq: EntrySeq
    """A visible `user_message`. It is removed together with everything after it."""
    restore_files: bool = True


class SessionRewound(ResponseBody):
    seq: int
    """The `rewound` entry in the log."""
    first_seq: int
    """The first removed entry. Entries from here up to `seq` are no longer visible."""
    text: str
    """The text of the removed message, so that a client can offer it for editing."""
    attachments: list[str]
    files: FilesRestored
    cancelled: list[str]
    """Ids of queued messages that were cancelled."""


class ForkSession(RequestBody):
    seq: EntrySeq | None = None
    """Where the copy ends: before a `user_message`, or after any other entry. None copies everything."""
    title: Name | None = None


class HandOff(RequestBody):
    agent: Annotated[str, Meta(min_length=1, max_length=100)]
    text: Text | None = None
    """The first message. Without it, nothing is sent to the agent until somebody sends one."""
    model: Name | None = None
    title: Name | None = None
