"""A session: its specification, its state, and how each event of the log changes the state."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from farsteer.core import events as ev
from farsteer.core.approvals import Approval, summarize
from farsteer.core.events import SessionStatus
from farsteer.core.mcp import McpServer
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import (
    MAX_QUEUED,
    Delivery,
    ItemState,
    Queue,
    contains,
    enqueue,
    mark_handed_over,
    mark_queued,
    move_to_front,
    remove,
)
from farsteer.core.text import clip
from farsteer.core.wire import WireStruct


class SessionType(StrEnum):
    SIMPLE = "simple"
    WORKTREE = "worktree"


class Worktree(WireStruct):
    base: str
    """The directory of the repository that it was made beside."""
    path: str
    branch: str
    name: str
    base_branch: str | None = None
    """The branch that it was made from and is merged into. None: it was made from a tag or a commit."""
    base_commit: str | None = None
    """The commit that it was made from."""


class Fork(WireStruct):
    """Where a forked session comes from. Its log begins with a copy of the source's log."""

    session_id: str
    seq: int
    """The last entry of the source that was copied."""
    native_id: str | None
    """The agent's conversation to fork. None if the source had no conversation yet."""
    cut_at: str | None = None
    """The last anchor that the agent takes over. None takes over everything."""
    copied: int = 0
    """The number of copied entries. The session's own entries come after them."""


class Handoff(WireStruct):
    """The session that handed its conversation over to a new one, of another agent."""

    session_id: str
    agent: str
    seq: int
    """The last entry that was handed over."""
    digest: str = ""
    """What the agent is told of the conversation, with the first message. Empty if it has the conversation itself."""


class SessionSpec(WireStruct):
    """What the caller asked for at creation. It never changes."""

    id: str
    machine_id: str
    directory: str
    agent: str | None = None
    """None selects the first installed agent of the machine's preference list."""
    session_type: SessionType = SessionType.SIMPLE
    worktree_name: str | None = None
    worktree_base: str | None = None
    """The branch, tag or commit that the worktree begins with. None: what the repository has checked out."""
    permission_mode: PermissionMode = PermissionMode.DEFAULT
    model: str | None = None
    effort: ReasoningEffort | None = None
    title: str | None = None
    source: str = "external-api"
    permission_timeout: float | None = None
    """Seconds until an unanswered approval expires. None means never."""
    options: dict[str, str] = {}
    """Options for one kind of agent: `claudeAgent`, `openrouterModel`."""
    fork: Fork | None = None
    handoff: Handoff | None = None
    native_id: str | None = None
    """The existing conversation that was imported as this session."""
    mcp_servers: tuple[McpServer, ...] = ()
    additional_directories: tuple[str, ...] = ()
    terminal: bool = False
    """Start no process: `farsteer run` will start the agent's own interface in a terminal."""

    @property
    def without_secrets(self) -> SessionSpec:
        """The form that the hub stores. The secrets of MCP servers are kept by the runner only."""
        if not self.mcp_servers:
            return self
        return msgspec.structs.replace(
            self, mcp_servers=tuple(server.without_secrets for server in self.mcp_servers)
        )


class StoredConversation(WireStruct, omit_defaults=False):
    """A conversation in an agent's own store on its machine, whether or not it belongs to a session."""

    native_id: str
    agent: str
    directory: str
    updated_at: int
    title: str | None = None
    messages: int | None = None
    """The number of messages, or None if counting them would mean reading the whole conversation."""
    session_id: str | None = None
    """The session this conversation already belongs to."""


class Usage(WireStruct, omit_defaults=False):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0.0
    context_used: int | None = None
    context_size: int | None = None

    def plus(self, update: ev.UsageUpdate) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + update.input_tokens,
            output_tokens=self.output_tokens + update.output_tokens,
            cache_read_tokens=self.cache_read_tokens + update.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + update.cache_write_tokens,
            cost_usd=self.cost_usd + (update.cost_usd or 0.0),
            context_used=update.context_used if update.context_used is not None else self.context_used,
            context_size=update.context_size if update.context_size is not None else self.context_size,
        )


class SessionState(WireStruct):
    """The state of a session after event `seq`. The runner derives it; the hub stores and shows it.

    It is written and sent with every change, so its size is bounded, whatever waits: it refers to messages and has
    summaries of large approvals.
    """

    id: str
    agent: str
    directory: str
    """Where the agent runs: the requested directory, or the worktree made for it."""
    status: SessionStatus = SessionStatus.STARTING
    seq: int = 0
    journaled: int = 0
    """The last entry that changed more than this number. The journal of the runner had it before anybody else: if the
    hub knows of a later one than the journal, the journal was set back."""
    title: str | None = None
    title_by_user: bool = False
    permission_mode: PermissionMode = PermissionMode.DEFAULT
    model: str | None = None
    effort: ReasoningEffort | None = None
    native_id: str | None = None
    registered: bool = False
    """True after the agent confirmed the native id. From then on the conversation is resumed, never created."""
    fork_of: str | None = None
    """The conversation that the first launch forks. None once the agent has its own conversation."""
    cut_at: str | None = None
    """The anchor up to which the next launch keeps the conversation. None once a message was delivered after it."""
    left_behind: tuple[str, ...] = ()
    """Conversations of the agent that this session no longer uses. They are deleted with the session."""
    generation: int = 0
    in_terminal: bool = False
    """The agent's own interface is open in a person's terminal."""
    transcript_at: str | None = None
    """The last record of the agent's own transcript that is in the log. Only while a terminal has the conversation."""
    turn_id: str | None = None
    turn_item: str | None = None
    queue: Queue = ()
    approvals: tuple[Approval, ...] = ()
    usage: Usage = Usage()
    worktree: Worktree | None = None
    digest_due: bool = False
    """The agent has not been told yet what was handed over."""
    handed_off_to: tuple[str, ...] = ()
    """The sessions that this one was handed over to, the first 100."""
    error: str | None = None
    last_message: str | None = None
    commands: tuple[ev.SlashCommand, ...] = ()
    meta: dict[str, Any] | None = None


MAX_OPEN_APPROVALS = 100
_TITLE_CHARS = 60
_MAX_NAME_CHARS = 500
_MAX_ERROR_CHARS = 4000
_MAX_COMMANDS = 500
_MAX_LEFT_BEHIND = 100


def apply(state: SessionState, event: ev.SessionEvent) -> SessionState:
    """Return the state after `event`. An event that changes nothing returns the same object."""
    match event:
        case ev.StatusUpdate():
            return _replace(state, status=event.status, error=_clip_error(event.error))
        case ev.TurnStart():
            return _replace(
                state,
                status=SessionStatus.WORKING,
                turn_id=event.turn_id,
                turn_item=event.item_id,
                error=None,
            )
        case ev.TurnEnd():
            if state.turn_id != event.turn_id:
                return state
            runs = state.status in (SessionStatus.WORKING, SessionStatus.WAITING)
            return _replace(
                state,
                status=SessionStatus.IDLE if runs else state.status,
                turn_id=None,
                turn_item=None,
                approvals=(),
                error=_clip_error(event.error),
            )
        case ev.UserMessage():
            title = state.title or _title(event.text)
            queue = mark_handed_over(state.queue, event.item_id)
            return _replace(state, title=title, last_message=clip(event.text, 200), queue=queue)
        case ev.AgentMessage() if event.parent_tool_call_id is None:
            return _replace(state, last_message=clip(event.text, 200))
        case ev.ApprovalRequested():
            status = SessionStatus.WAITING if state.turn_id else state.status
            return _replace(state, status=status, approvals=(*state.approvals, event.approval))
        case ev.ApprovalResolved():
            left = tuple(a for a in state.approvals if a.id != event.approval_id)
            working = state.status is SessionStatus.WAITING and not left
            return _replace(state, approvals=left, status=SessionStatus.WORKING if working else state.status)
        case ev.QueueUpdate():
            cut_at = None if event.state is ItemState.DELIVERED else state.cut_at
            return _replace(state, queue=_queue_after(state.queue, event), cut_at=cut_at)
        case ev.Rewound():
            return _rewound(state, event)
        case ev.ModeUpdate():
            return _replace(
                state,
                permission_mode=event.permission_mode or state.permission_mode,
                model=clip(event.model, _MAX_NAME_CHARS) if event.model is not None else state.model,
                effort=event.effort or state.effort,
            )
        case ev.AgentSwitched():
            state = _replace(state, agent=event.agent, model=event.model)
            return _started_anew(state, event.native_id) if event.anew else state
        case ev.TerminalUpdate():
            return _replace(state, in_terminal=event.open)
        case ev.UsageUpdate():
            return _replace(state, usage=state.usage.plus(event))
        case ev.TitleUpdate():
            if state.title_by_user and not event.by_user:
                return state
            return _replace(state, title=clip(event.title, _MAX_NAME_CHARS), title_by_user=event.by_user)
        case ev.LaunchStart():
            return _replace(state, generation=event.generation, native_id=event.native_id or state.native_id)
        case ev.LaunchEnd():
            if event.generation != state.generation:
                return state
            return _replace(state, status=SessionStatus.STOPPED, in_terminal=False)
        case ev.CommandsUpdate():
            return _replace(state, commands=_clip_commands(event.commands))
        case _:
            return state


def append(state: SessionState, event: ev.SessionEvent) -> SessionState:
    """Return the state after `event` became the next entry of the log, which keeps what is too large for the state."""
    seq = state.seq + 1
    if isinstance(event, ev.ApprovalRequested):
        event = ev.ApprovalRequested(approval=summarize(event.approval, seq))
    return _replace(apply(state, event), seq=seq)


def bounded(state: SessionState) -> SessionState:
    """Return a state of bounded size, for one that was derived elsewhere or by an earlier version."""
    return _replace(
        state,
        title=state.title and clip(state.title, _MAX_NAME_CHARS),
        model=state.model and clip(state.model, _MAX_NAME_CHARS),
        left_behind=state.left_behind[-_MAX_LEFT_BEHIND:],
        queue=state.queue[:MAX_QUEUED],
        approvals=tuple(
            summarize(approval, approval.seq) for approval in state.approvals[:MAX_OPEN_APPROVALS]
        ),
        error=_clip_error(state.error),
        last_message=state.last_message and clip(state.last_message, 200),
        commands=_clip_commands(state.commands),
        meta=None,
    )


def _rewound(state: SessionState, event: ev.Rewound) -> SessionState:
    usage = _replace(state.usage, context_used=None)
    state = _replace(state, cut_at=event.cut_at, usage=usage, last_message=None)
    return _started_anew(state, event.native_id) if event.cut_at is None and not event.keeps else state


def _started_anew(state: SessionState, native_id: str | None) -> SessionState:
    """Return the state of a session that goes on with a new conversation."""
    left = add_abandoned(state, None) if state.registered else state.left_behind
    return _replace(state, native_id=native_id, registered=False, cut_at=None, fork_of=None, left_behind=left)


def add_abandoned(state: SessionState, native_id: str | None) -> tuple[str, ...]:
    """Return `left_behind` with the conversations that are no longer used if the session continues as `native_id`.

    An agent that rewinds by copying starts a new conversation with each launch, including prewarmed ones. The list is
    bounded and has no duplicates.
    """
    if native_id == state.native_id:
        return state.left_behind
    names = dict.fromkeys((*state.left_behind, state.native_id, native_id))
    return tuple(name for name in names if name is not None)[-_MAX_LEFT_BEHIND:]


def _queue_after(queue: Queue, event: ev.QueueUpdate) -> Queue:
    if event.state.final:
        return remove(queue, event.item_id)
    if event.state is ItemState.HANDED_OVER:
        return mark_handed_over(queue, event.item_id)
    if not contains(queue, event.item_id):
        return queue if event.item is None else enqueue(queue, event.item)
    queue = mark_queued(queue, event.item_id)
    first = event.item is not None and event.item.delivery is Delivery.NOW
    return move_to_front(queue, event.item_id) if first else queue


def _title(text: str) -> str | None:
    line = text.strip().split("\n", 1)[0].strip()
    return clip(line, _TITLE_CHARS) or None


def _clip_error(error: str | None) -> str | None:
    return error and clip(error, _MAX_ERROR_CHARS)


def _clip_commands(commands: tuple[ev.SlashCommand, ...]) -> tuple[ev.SlashCommand, ...]:
    return tuple(
        ev.SlashCommand(clip(command.name, 100), clip(command.description, 300))
        for command in commands[:_MAX_COMMANDS]
    )


_replace = msgspec.structs.replace
