"""What clients see of a session, and what they are told when it changes.

`FIELDS` lists each field of SessionView once, with the source of its value. The whole view and the partial updates both
follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import fields, replace

from farsteer.core.api import ForkedFrom, HandedOffFrom, SessionView
from farsteer.core.approvals import Approval
from farsteer.core.events import SessionStatus
from farsteer.core.queue import ItemState, QueueChange, QueueItem
from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import encode
from farsteer.hub.rules.queue import combined_queue, queue_changes

SHORT_QUEUE = 1
"""An update has the whole queue, in summaries, if it is not longer than this."""

_RUNNING = frozenset({SessionStatus.IDLE, SessionStatus.WORKING, SessionStatus.WAITING})
_IN_TURN = frozenset({SessionStatus.WORKING, SessionStatus.WAITING})


class SessionRow(Struct, frozen=True):
    """A session as a store has it."""

    id: str
    namespace: str
    machine_id: str
    reachable: bool
    """Its machine has a live link."""
    seq: int
    created_at: int
    updated_at: int
    spec: SessionSpec
    state: SessionState
    items: tuple[QueueItem, ...]
    """Messages without an outcome, in the order of their arrival."""
    approvals: tuple[Approval, ...]
    """Open approvals, whole if the row was read for one session; otherwise large ones are summaries."""
    last_message: str | None
    """The last message that is visible. The state lacks it after a rewind or a fork."""

    @property
    def queue(self) -> tuple[QueueItem, ...]:
        return combined_queue(self.state.queue, self.items)

    @property
    def has_accepted(self) -> bool:
        """Whether a message waits that the runner has not confirmed."""
        return any(item.state is ItemState.ACCEPTED for item in self.items)


class FromRow(NamedTuple):
    """A value that is fixed at creation, or that updates carry in their own way (see `encode_state_change`)."""

    read: Callable[[SessionRow], object]


class FromState(NamedTuple):
    """A value made from one attribute of SessionState. An update carries it when that attribute has changed."""

    attribute: str
    convert: Callable[[Any], object] | None = None


def _forked_from(row: SessionRow) -> ForkedFrom | None:
    fork = row.spec.fork
    return None if fork is None else ForkedFrom(fork.session_id, fork.seq)


def _handed_off_from(row: SessionRow) -> HandedOffFrom | None:
    handoff = row.spec.handoff
    return None if handoff is None else HandedOffFrom(handoff.session_id, handoff.agent, handoff.seq)


def _mcp_server_names(row: SessionRow) -> tuple[str, ...]:
    return tuple(server.name for server in row.spec.mcp_servers)


FIELDS: Mapping[str, FromRow | FromState] = {
    "id": FromRow(attrgetter("id")),
    "namespace": FromRow(attrgetter("namespace")),
    "machine_id": FromRow(attrgetter("machine_id")),
    "agent": FromState("agent"),
    "directory": FromState("directory"),
    "status": FromState("status"),
    "active": FromState("status", lambda status: status in _RUNNING),
    "thinking": FromState("status", lambda status: status in _IN_TURN),
    "title": FromState("title"),
    "created_at": FromRow(attrgetter("created_at")),
    "updated_at": FromRow(attrgetter("updated_at")),
    "seq": FromRow(attrgetter("seq")),
    "permission_mode": FromState("permission_mode"),
    "model": FromState("model"),
    "model_reasoning_effort": FromState("effort"),
    "source": FromRow(attrgetter("spec.source")),
    "session_type": FromRow(attrgetter("spec.session_type")),
    "worktree": FromState("worktree"),
    "native_id": FromState("native_id"),
    "turn_id": FromState("turn_id"),
    "queue": FromRow(attrgetter("queue")),
    "approvals": FromState("approvals"),
    "pending_requests_count": FromState("approvals", len),
    "usage": FromState("usage"),
    "commands": FromState("commands"),
    "last_message": FromRow(attrgetter("last_message")),
    "error": FromState("error"),
    "permission_timeout": FromRow(attrgetter("spec.permission_timeout")),
    "forked_from": FromRow(_forked_from),
    "handed_off_from": FromRow(_handed_off_from),
    "handed_off_to": FromState("handed_off_to"),
    "mcp_servers": FromRow(_mcp_server_names),
    "additional_directories": FromRow(attrgetter("spec.additional_directories")),
    "in_terminal": FromState("in_terminal"),
}


Converted = tuple[str, Callable[[Any], object] | None]

_ROW_FIELDS = tuple((name, field.read) for name, field in FIELDS.items() if isinstance(field, FromRow))


def _by_attribute() -> dict[str, list[Converted]]:
    """Return the names of the fields that follow from each attribute of SessionState, and their conversions."""
    found: dict[str, list[Converted]] = {}
    for name, field in FIELDS.items():
        if isinstance(field, FromState):
            found.setdefault(field.attribute, []).append((name, field.convert))
    return found


_BY_ATTRIBUTE = _by_attribute()
_JSON_NAMES = {field.name: field.encode_name for field in fields(SessionView)}
_JSON_BY_ATTRIBUTE = {
    attribute: [(_JSON_NAMES[name], convert) for name, convert in converted]
    for attribute, converted in _BY_ATTRIBUTE.items()
}
_read_attributes = attrgetter(*_BY_ATTRIBUTE)


def session_view(row: SessionRow) -> SessionView:
    state = replace(
        row.state,
        status=row.state.status if row.reachable else SessionStatus.UNREACHABLE,
        approvals=row.approvals,
    )
    values: dict[str, Any] = {name: read(row) for name, read in _ROW_FIELDS}
    for converted, value in zip(_BY_ATTRIBUTE.values(), _read_attributes(state), strict=True):
        for name, convert in converted:
            values[name] = value if convert is None else convert(value)
    return SessionView(**values)


def encode_state_change(
    old: SessionState,
    new: SessionState,
    queue: Sequence[QueueItem] | None,
    *,
    seq: int,
    updated_at: int,
    last_message: str | None,
) -> bytes | None:
    """Return the data of the `session-updated` that reports a new state, or None if no client would see a change.

    `queue` is the whole queue if it is short; it is used only if the queue has changed. A new entry alone is no
    change: clients get the entry itself.
    """
    changes = _changed_fields(old, new)
    if old.queue != new.queue:
        changes |= _queue_fields(queue_changes(old.queue, new.queue), queue)
    rewound = old.last_message is not None and new.last_message is None
    if not changes and not rewound:
        return None
    changes |= {"seq": seq, "updatedAt": updated_at, "lastMessage": last_message}
    return _encode(changes)


def encode_queue_change(
    change: QueueChange,
    queue: Sequence[QueueItem] | None,
    *,
    updated_at: int,
    ended: QueueItem | None = None,
) -> bytes:
    """Return the data of the `session-updated` that reports a change of one message by the hub.

    `queue` is the whole queue if it is short. `ended` has just got its outcome: it is shown in it this once more.
    """
    if queue is not None and ended is not None:
        queue = (*queue, ended)
    return _encode({"updatedAt": updated_at, **_queue_fields([change], queue)})


def _queue_fields(changes: list[QueueChange], queue: Sequence[QueueItem] | None) -> dict[str, object]:
    return {"queueChanges": changes} if queue is None else {"queue": queue}


def encode_status_change(status: SessionStatus) -> bytes:
    changes: dict[str, object] = {}
    _add_fields(changes, "status", status)
    return _encode(changes)


def _changed_fields(old: SessionState, new: SessionState) -> dict[str, object]:
    before, after = _read_attributes(old), _read_attributes(new)
    changes: dict[str, object] = {}
    if before == after:
        return changes
    for attribute, was, now in zip(_JSON_BY_ATTRIBUTE, before, after, strict=True):
        if was != now:
            _add_fields(changes, attribute, now)
    return changes


def _add_fields(changes: dict[str, object], attribute: str, value: object) -> None:
    for name, convert in _JSON_BY_ATTRIBUTE[attribute]:
        changes[name] = value if convert is None else convert(value)


def _encode(changes: dict[str, object]) -> bytes:
    """`partial` tells clients to merge the fields into the session they know."""
    return encode({"partial": True, **changes})
