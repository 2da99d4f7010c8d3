"""What to do with a batch of entries from a runner.

The runner numbers a session's entries from 1 without gaps and sends a batch again until it is acknowledged. The hub
stores each entry as the bytes it came in and decodes only the few kinds that change its own records.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from msgspec import Struct

from farsteer.core.events import Entry, SlashCommand, decode_entry
from farsteer.core.session import SessionState
from farsteer.hub.rules.session import SessionPhase, storable_state
from farsteer.link.messages import EncodedEntry

_RECORDED = frozenset({"queue_update", "approval_resolved", "rewound", "usage_update"})
"""The kinds of entries that change the hub's own records: items, resolutions, cuts and usage."""

_NO_ACTIVITY = frozenset(
    {
        "status_update", "launch_start", "launch_end", "mode_update", "title_update", "commands_update",
        "usage_update", "notice",
    }
)  # fmt: skip
"""The kinds of entries that do not move a session up in the list: nobody said or did anything in it."""


class AppendStatus(Enum):
    STORED = auto()
    """The store has the whole batch, which may have repeated what it had before."""
    GAP = auto()
    """The batch does not continue the stored log. Nothing was stored."""
    UNKNOWN = auto()
    """That machine never had this session in this namespace. Nothing was stored."""
    DELETED = auto()
    """The session was deleted. Nothing was stored."""
    STALE_LINK = auto()
    """The machine has connected again since, by another link. Nothing was stored."""


class AppendResult(Struct, frozen=True):
    """What became of a batch of entries."""

    status: AppendStatus
    last_seq: int = 0
    """The last entry the store has of this session; 0 unless the status is STORED or GAP."""
    stored: int = 0
    """How many entries of the batch were new."""


class StoredLog(Struct, frozen=True):
    """What a store has of a session's log."""

    phase: SessionPhase
    last_seq: int
    state: bytes
    """The last state, encoded; empty if there is none yet."""


class AppendPlan(Struct, frozen=True):
    """What to write for a batch. Nothing, if there are neither new entries nor a new state."""

    result: AppendResult
    """The answer after the commit."""
    entries: Sequence[EncodedEntry] = ()
    """The new entries."""
    recorded: Sequence[Entry] = ()
    """Those of them that change the hub's own records, decoded."""
    state: SessionState | None = None
    """The state after the batch without its commands, if it differs from the stored one."""
    encoded_state: bytes | None = None
    commands: tuple[SlashCommand, ...] | None = None
    """The agent's commands after the batch. None if the stored ones stay."""
    is_activity: bool = False
    """Somebody said or did something: the session counts as updated now."""


def plan_append(
    session_id: str, log: StoredLog | None, entries: Sequence[EncodedEntry], state: SessionState | None,
    *, keeps_commands: bool = False,
) -> AppendPlan:  # fmt: skip
    """Decide what to write for a batch. `log` is None if the store has no such session."""
    if log is None:
        return AppendPlan(AppendResult(AppendStatus.UNKNOWN))
    if not log.phase.exists:
        return AppendPlan(AppendResult(AppendStatus.DELETED))
    new = _new_entries(entries, log.last_seq)
    if new is None:
        return AppendPlan(AppendResult(AppendStatus.GAP, log.last_seq))
    last_seq = log.last_seq + len(new)
    kept = storable_state(state) if state and state.seq == last_seq and state.id == session_id else None
    changed = kept if kept is not None and kept.encoded != log.state else None
    return AppendPlan(
        AppendResult(AppendStatus.STORED, last_seq, len(new)),
        new,
        [decode_entry(bytes(entry.body)) for entry in new if entry.kind in _RECORDED],
        None if changed is None else changed.state,
        None if changed is None else changed.encoded,
        None if kept is None or keeps_commands else kept.commands,
        any(entry.kind not in _NO_ACTIVITY for entry in new),
    )


def _new_entries(entries: Sequence[EncodedEntry], last_seq: int) -> Sequence[EncodedEntry] | None:
    """Return the entries after `last_seq`, or None if the batch has a gap inside or before it."""
    if not entries:
        return entries
    first = entries[0].seq
    if not 1 <= first <= last_seq + 1:
        return None
    if any(entry.seq != seq for seq, entry in enumerate(entries, first)):
        return None
    return entries[last_seq + 1 - first :]
