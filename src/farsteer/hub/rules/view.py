"""What clients see of a session: its stored state, seen with the queue on the way to it and its machine's link."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from farsteer.core.api import ForkedFrom, SessionView
from farsteer.core.events import SessionStatus
from farsteer.core.queue import Queue, QueueItem, without_data
from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import encode

_RUNS = frozenset({SessionStatus.IDLE, SessionStatus.WORKING, SessionStatus.WAITING})
_IN_TURN = frozenset({SessionStatus.WORKING, SessionStatus.WAITING})

# What a change of the state means for a reader of SessionView. A new message alone is not among it.
_SHOWN = {
    "agent": "agent",
    "directory": "directory",
    "title": "title",
    "permission_mode": "permissionMode",
    "model": "model",
    "effort": "modelReasoningEffort",
    "worktree": "worktree",
    "native_id": "nativeId",
    "turn_id": "turnId",
    "approvals": "approvals",
    "usage": "usage",
    "commands": "commands",
    "error": "error",
}


class SessionRow(msgspec.Struct, frozen=True):
    """A session as the store holds it."""

    id: str
    namespace: str
    machine_id: str
    reachable: bool
    """Its machine has a live link."""
    seq: int
    cleared_seq: int
    created_at: int
    updated_at: int
    spec: SessionSpec
    state: SessionState
    accepted: Queue
    """Messages that the runner has not confirmed yet."""
    last_message: str | None
    """The last one that is visible."""


def session_view(row: SessionRow) -> SessionView:
    state, spec = row.state, row.spec
    status = state.status if row.reachable else SessionStatus.UNREACHABLE
    return SessionView(
        id=row.id,
        namespace=row.namespace,
        machine_id=row.machine_id,
        agent=state.agent,
        directory=state.directory,
        status=status,
        active=status in _RUNS,
        thinking=status in _IN_TURN,
        title=state.title,
        created_at=row.created_at,
        updated_at=row.updated_at,
        seq=row.seq,
        permission_mode=state.permission_mode,
        model=state.model,
        model_reasoning_effort=state.effort,
        source=spec.source,
        session_type=spec.session_type,
        worktree=state.worktree,
        native_id=state.native_id,
        turn_id=state.turn_id,
        queue=combined_queue(state, row.accepted),
        approvals=state.approvals,
        pending_requests_count=len(state.approvals),
        usage=state.usage,
        commands=state.commands,
        last_message=row.last_message,
        error=state.error,
        permission_timeout=spec.permission_timeout,
        forked_from=ForkedFrom(spec.fork.session_id, spec.fork.seq) if spec.fork else None,
        mcp_servers=tuple(server.name for server in spec.mcp_servers),
        additional_directories=spec.additional_directories,
    )


def combined_queue(state: SessionState, accepted: Sequence[QueueItem]) -> Queue:
    """What the runner has queued, then what is on the way to it."""
    known = {item.id for item in state.queue}
    return (*state.queue, *(item for item in accepted if item.id not in known))


def without_attachment_data(state: SessionState) -> SessionState:
    """The state as we keep it: the runner has the attachments of queued messages."""
    queue = tuple(map(without_data, state.queue))
    return state if queue == state.queue else msgspec.structs.replace(state, queue=queue)


def status_fields(status: SessionStatus) -> dict[str, object]:
    return {"status": status, "active": status in _RUNS, "thinking": status in _IN_TURN}


def changed_fields(old: SessionState, new: SessionState) -> dict[str, object]:
    """Fields of SessionView, by their names on the wire, that differ; `queue` is the caller's to add."""
    changes: dict[str, object] = {}
    if old.status is not new.status:
        changes |= status_fields(new.status)
    for field, name in _SHOWN.items():
        value = getattr(new, field)
        if value != getattr(old, field):
            changes[name] = value
    if "approvals" in changes:
        changes["pendingRequestsCount"] = len(new.approvals)
    return changes


def encode_update(changes: dict[str, object]) -> bytes:
    """The data of a `session-updated` that says it is not the whole session."""
    return encode({"partial": True, **changes})
