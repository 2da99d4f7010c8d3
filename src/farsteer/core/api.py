"""Bodies of the REST API. A request with an unknown field is refused; a response may gain fields in a later version."""

from __future__ import annotations

from typing import Annotated, Any, Literal, dataclass_transform

import msgspec
from msgspec import Meta, Struct

from farsteer.core.approvals import Answer, Approval, Outcome
from farsteer.core.capabilities import AgentInfo, Capabilities, MachineConflict
from farsteer.core.errors import ErrorCode
from farsteer.core.events import Entry, FilesRestored, SessionStatus, SlashCommand
from farsteer.core.identity import Identity
from farsteer.core.mcp import McpServer, McpTransport
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import Attachment, Delivery, ItemState, QueueItem, QueueRef
from farsteer.core.session import SessionState, SessionType, StoredConversation, Usage, Worktree
from farsteer.core.wire import WireStruct

MAX_TEXT = 1_000_000
MAX_BODY = 32 * 1024 * 1024
MAX_TOKEN_SECONDS = 10 * 365 * 86400

Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Path = Annotated[str, Meta(min_length=1, max_length=4096)]


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class RequestBody(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Base of request bodies."""


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class ResponseBody(Struct, frozen=True, rename="camel"):
    """Base of response bodies. Every field is always present, so clients need no defaults."""


class AuthRequest(RequestBody):
    access_token: Annotated[str, Meta(min_length=1, max_length=512)]
    email: Annotated[str, Meta(max_length=254)] | None = None
    client_id: Annotated[str, Meta(max_length=100)] | None = None
    device_type: Annotated[str, Meta(max_length=100)] | None = None


class User(WireStruct):
    id: int
    email: str
    """The name that other users see: the email that the client claims, or the label of its token."""
    client_id: str | None = None
    device_type: str | None = None
    identity: Identity | None = None


class AuthResponse(ResponseBody):
    token: str
    user: User
    namespace: str
    expires_at: int


class MachineView(ResponseBody):
    id: str
    active: bool
    active_at: int
    created_at: int
    host: str
    platform: str
    version: str
    name: str | None
    agents: tuple[AgentInfo, ...]
    roots: tuple[str, ...]
    conflict: MachineConflict | None = None
    foreign_sessions: int = 0
    problem: str | None = None
    """What keeps its runner from working, such as a full disk."""


class MachinesResponse(ResponseBody):
    machines: list[MachineView]


class MachineResponse(ResponseBody):
    machine: MachineView


class LimitView(ResponseBody):
    kind: str
    """What is limited: `sessions`, `machines`, `sockets`, `namespace_queued_bytes`. `hub.toml` uses the same names."""
    limit: int
    used: int


class LimitsResponse(ResponseBody):
    limits: list[LimitView]


class AgentOnMachine(ResponseBody):
    machine_id: str
    available: bool
    version: str | None
    reason: str | None
    install: str | None


class AgentView(ResponseBody):
    name: str
    title: str
    capabilities: Capabilities
    machines: list[AgentOnMachine]


class AgentsResponse(ResponseBody):
    agents: list[AgentView]


ModelMode = Literal[
    "default", "sonnet", "opus", "gpt-5.2-codex", "gpt-5.1-codex-max", "gpt-5.1-codex-mini", "gpt-5.2"
]


Value = Annotated[str, Meta(max_length=100_000)]


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
    """For an import: `session` is the id of the session that already has this conversation."""


class ForkedFrom(ResponseBody):
    session_id: str
    seq: int
    """The last entry that was copied from that session."""


class SessionView(ResponseBody):
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


class Page(ResponseBody):
    limit: int
    before_seq: int | None
    after_seq: int | None
    next_before_seq: int | None
    next_after_seq: int | None
    has_more: bool


class MessagesResponse(ResponseBody):
    messages: list[Entry]
    page: Page


class NewAttachment(RequestBody):
    name: Name
    data: Annotated[str, Meta(extra_json_schema={"format": "byte", "contentEncoding": "base64"})]
    mime_type: Annotated[str, Meta(max_length=100)] = "application/octet-stream"

    def attachment(self, size: int) -> Attachment:
        return Attachment(name=self.name, mime_type=self.mime_type, data=self.data, size=size)


class SendMessage(RequestBody):
    text: Text
    local_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    attachments: Annotated[list[NewAttachment], Meta(max_length=20)] = []
    delivery: Delivery = Delivery.QUEUE


class MessageAccepted(ResponseBody):
    id: str
    local_id: str | None
    state: ItemState
    position: int
    """The number of messages of this session that come before it."""


class ClearMessages(RequestBody):
    keep_count: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class MessagesCleared(ResponseBody):
    cleared: int
    remaining: int


class QueueResponse(ResponseBody):
    items: list[QueueItem]


class Done(ResponseBody):
    ok: Literal[True] = True


class SetPermissionMode(RequestBody):
    mode: PermissionMode


class SetModel(RequestBody):
    model: Name
    reasoning_effort: ReasoningEffort | None = None


class Typing(RequestBody):
    text: Annotated[str, Meta(max_length=10_000)]
    client_id: Annotated[str, Meta(max_length=100)] | None = None


class OnlineUser(ResponseBody):
    email: str
    client_id: str
    device_type: str | None
    session_id: str | None
    identity: Identity | None = None


class OnlineUsersResponse(ResponseBody):
    users: list[OnlineUser]


class ApprovalView(ResponseBody):
    session_id: str
    session_title: str | None
    agent: str
    approval: Approval


class ApprovalsResponse(ResponseBody):
    approvals: list[ApprovalView]


class Approve(RequestBody):
    decision: Literal["approved", "approved_for_session"] | None = None
    mode: PermissionMode | None = None
    allow_tools: Annotated[list[str], Meta(max_length=100)] = []
    answers: dict[str, list[str]] | None = None
    option_id: str | None = None
    message: Annotated[str, Meta(max_length=10_000)] | None = None

    def answer(self, by: str) -> Answer:
        return Answer(
            outcome=Outcome(self.decision or Outcome.APPROVED), option_id=self.option_id, answers=self.answers,
            mode=self.mode, allow_tools=tuple(self.allow_tools), message=self.message, by=by,
        )  # fmt: skip


class Deny(RequestBody):
    decision: Literal["denied", "abort"] | None = None
    option_id: str | None = None
    message: Annotated[str, Meta(max_length=10_000)] | None = None

    def answer(self, by: str) -> Answer:
        outcome = Outcome(self.decision or Outcome.DENIED)
        return Answer(outcome=outcome, option_id=self.option_id, message=self.message, by=by)


class ApprovalAnswered(ResponseBody):
    ok: bool
    outcome: Outcome
    by: str | None
    identity: Identity | None = None


ScopeName = Annotated[str, Meta(extra_json_schema={"enum": ["read", "write", "approve", "admin", "runner"]})]


class NewToken(RequestBody):
    label: Name
    namespace: Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] | None = None
    scopes: list[ScopeName] | None = None
    expires_in: Annotated[int, Meta(ge=1, le=MAX_TOKEN_SECONDS)] | None = None
    """Lifetime in seconds, or None for a token that is valid until it is revoked.

    A token ends with the one that created it, at the latest.
    """


class TokenView(ResponseBody):
    id: str
    label: str
    namespace: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    created_by: str | None
    """The id of the token that created it, or `owner`. None for a token of a version that did not record this."""


class TokenCreated(ResponseBody):
    token: TokenView
    secret: str
    """The access token. It is returned only here; the hub stores its hash."""


class TokensResponse(ResponseBody):
    tokens: list[TokenView]


class ErrorBody(WireStruct):
    code: ErrorCode
    message: str
    details: dict[str, Any] | None = None


class ErrorResponse(WireStruct):
    error: ErrorBody


class Health(ResponseBody):
    status: str
    version: str
    protocol: int
    uptime: float


UsageGrouping = Literal["day", "model", "session", "agent", "machine", "turn"]


class UsageTotal(ResponseBody):
    turns: int
    """The number of turns that used tokens. A turn counts on the day it began."""
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float


class UsageGroup(ResponseBody):
    key: str | None
    """The day (UTC) or the id of the group. None stands for an unnamed model or for deleted sessions."""
    turns: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float


class UsageResponse(ResponseBody):
    groups: list[UsageGroup]
    total: UsageTotal
    """The sum over all groups, including those left out when `truncated` is true."""
    truncated: bool


class ConversationsResponse(ResponseBody):
    conversations: list[StoredConversation]


class ImportConversation(RequestBody):
    agent: Annotated[str, Meta(min_length=1, max_length=100)]
    native_id: Name
    """The agent's own id of the conversation."""
    title: Name | None = None


EntrySeq = Annotated[int, Meta(ge=1, le=2**53)]


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
