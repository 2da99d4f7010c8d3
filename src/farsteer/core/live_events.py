"""Every type of live event: when it is sent and what it carries. Filters and documents are made from this table.

The feed joins events from payloads that are encoded already. So these types are not used to send them, only to receive
them; tests compare what is sent with their schemas.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from farsteer.core.api import DraftChange, MachineView, OnlineUser, ResponseBody, SessionView, UserTyping
from farsteer.core.approvals import Approval
from farsteer.core.errors import ErrorCode
from farsteer.core.events import Delta, Entry, SessionStatus, SlashCommand
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import QueueChange, QueueItem
from farsteer.core.retention import RemovalReason
from farsteer.core.session import Usage, Worktree
from farsteer.core.wire import WireStruct

Resume = Literal["ok", "gap", "none"]


class ReadyEvent(WireStruct, omit_defaults=False):
    """The first thing a client gets, under the name `ready`. Every event after `cursor` follows."""

    cursor: str
    resume: Resume
    """`gap`: events are missing, and the client must read again what it keeps. `none`: it gave no cursor."""
    expires_at: int | None
    """When the access token expires, and the connection with it, in milliseconds since the epoch; null: never."""


class ClosedEvent(WireStruct):
    """The last thing a client gets before the server closes the connection, under the name `closed`."""

    code: ErrorCode
    message: str


CONNECTION_EVENTS: dict[str, type[WireStruct]] = {"ready": ReadyEvent, "closed": ClosedEvent}
"""What tells about the connection itself, by its name."""


class LiveEvent(Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", omit_defaults=True):
    """Base of all types. The tag is the `type` of the event."""

    namespace: str


class StoredEvent(LiveEvent, frozen=True, kw_only=True, rename="camel", tag_field="type", omit_defaults=True):
    """Base of the types that are stored. A client can resume after the `cursor` of one."""

    cursor: str


FIXED_FIELDS = frozenset(
    {
        "id", "namespace", "machine_id", "created_at", "source", "session_type", "permission_timeout", "forked_from",
        "handed_off_from", "mcp_servers", "additional_directories",
    }
)  # fmt: skip
"""Fields of a session that never change."""


class SessionChanges(Struct, frozen=True, rename="camel"):
    """The fields of a session that have changed; the others are `msgspec.UNSET`."""

    partial: Literal[True]
    agent: str | UnsetType = UNSET
    directory: str | UnsetType = UNSET
    status: SessionStatus | UnsetType = UNSET
    active: bool | UnsetType = UNSET
    thinking: bool | UnsetType = UNSET
    title: str | UnsetType | None = UNSET
    updated_at: int | UnsetType = UNSET
    seq: int | UnsetType = UNSET
    permission_mode: PermissionMode | UnsetType = UNSET
    model: str | UnsetType | None = UNSET
    model_reasoning_effort: ReasoningEffort | UnsetType | None = UNSET
    worktree: Worktree | UnsetType | None = UNSET
    native_id: str | UnsetType | None = UNSET
    turn_id: str | UnsetType | None = UNSET
    queue: tuple[QueueItem, ...] | UnsetType = UNSET
    approvals: tuple[Approval, ...] | UnsetType = UNSET
    pending_requests_count: int | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    commands: tuple[SlashCommand, ...] | UnsetType = UNSET
    last_message: str | UnsetType | None = UNSET
    error: str | UnsetType | None = UNSET
    in_terminal: bool | UnsetType = UNSET
    handed_off_to: tuple[str, ...] | UnsetType = UNSET
    queue_changes: list[QueueChange] | UnsetType = UNSET

    def apply_to(self, session: SessionView) -> SessionView:
        """Return what a client has of the session with these changes."""
        values = {
            name: value
            for name, value in msgspec.structs.asdict(self).items()
            if value is not UNSET and name not in ("partial", "queue_changes")
        }
        changed = msgspec.structs.replace(session, **values)
        if self.queue_changes is UNSET:
            return changed
        return msgspec.structs.replace(changed, queue=_changed_queue(changed.queue, self.queue_changes))


def _changed_queue(queue: tuple[QueueItem, ...], changes: list[QueueChange]) -> tuple[QueueItem, ...]:
    known = {item.id: item for item in queue}
    listed = {change.id for change in changes}
    items = [item for item in queue if item.id not in listed]
    for change in changes:
        item = change.item or known.get(change.id)
        if change.position is not None and item is not None:
            items.insert(change.position, msgspec.structs.replace(item, state=change.state or item.state))
    return tuple(items)


class SessionAddedEvent(StoredEvent, frozen=True, tag="session-added"):
    """A session was created, imported, forked or adopted."""

    session_id: str
    data: SessionView


class SessionUpdatedEvent(StoredEvent, frozen=True, tag="session-updated"):
    """Fields of a session have changed. `data` has only those."""

    session_id: str
    data: SessionChanges


class RemovedByRule(ResponseBody):
    reason: RemovalReason


class SessionRemovedEvent(StoredEvent, frozen=True, tag="session-removed"):
    """A session was deleted. `data` says by which rule of retention, if nobody deleted it."""

    session_id: str
    data: RemovedByRule | UnsetType = UNSET


class MessageReceivedEvent(StoredEvent, frozen=True, tag="message-received"):
    """The log of a session has a new entry."""

    session_id: str
    message: Entry


class MessageDeltaEvent(LiveEvent, frozen=True, tag="message-delta"):
    """A part of a message that is being written. The complete message follows as an entry. Not stored."""

    session_id: str
    delta: Delta


class Clearing(ResponseBody):
    cleared_seq: int
    """Entries up to this one are hidden."""
    remaining: int
    """The number of entries that are still visible."""


class MessagesClearedEvent(StoredEvent, frozen=True, tag="messages-cleared"):
    """Older entries of a session were hidden."""

    session_id: str
    data: Clearing


class MachineUpdatedEvent(StoredEvent, frozen=True, tag="machine-updated"):
    """A machine has connected, disconnected or changed."""

    machine_id: str
    data: MachineView


class MachineRemovedEvent(StoredEvent, frozen=True, tag="machine-removed"):
    """The hub has forgotten a machine."""

    machine_id: str


class TypingChangedEvent(LiveEvent, frozen=True, tag="typing-changed"):
    """Somebody types a message to a session. Not stored."""

    session_id: str
    typing: UserTyping


class DraftUpdatedEvent(LiveEvent, frozen=True, tag="draft-updated"):
    """What somebody has begun to write to a session was changed, sent or removed. Not stored."""

    session_id: str
    data: DraftChange


class OnlineUsersChangedEvent(LiveEvent, frozen=True, tag="online-users-changed"):
    """Somebody has connected or disconnected. `users` has everybody who is connected. Not stored."""

    users: list[OnlineUser]


SyncEvent = (
    SessionAddedEvent | SessionUpdatedEvent | SessionRemovedEvent | MessageReceivedEvent | MessageDeltaEvent
    | MessagesClearedEvent | MachineUpdatedEvent | MachineRemovedEvent | TypingChangedEvent | DraftUpdatedEvent
    | OnlineUsersChangedEvent
)  # fmt: skip
"""Any live event."""

SENT: dict[str, type[LiveEvent]] = {kind.__struct_config__.tag: kind for kind in get_args(SyncEvent)}
"""The types that are sent, by their name."""

RESERVED = frozenset({"advisor-alert", "advisor-idle-suggestion", "group-message"})
"""Types that no hub sends yet. A client may ask for them already."""

EVENT_TYPES = frozenset(SENT) | RESERVED
"""The types a client may filter by."""
