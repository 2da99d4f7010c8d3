"""Checks the promises about one session's log, entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from farsteer.core import events as ev
from farsteer.core.events import Entry, SessionStatus
from farsteer.core.queue import ItemState
from farsteer.core.session import SessionState, apply

# The state that is derived from the log alone. The rest is private state of the runner (`PrivateState`).
_DERIVED_FIELDS = (
    "status", "title", "title_by_user", "permission_mode", "model", "effort", "turn_id", "turn_item", "queue",
    "approvals", "usage", "error", "commands",
)  # fmt: skip
_WITHOUT_PROCESS = (SessionStatus.STOPPED, SessionStatus.STARTING, SessionStatus.FAILED)
IMPORTED = "imported-"
"""How the ids of messages begin that were sent to the agent before it was imported."""
_LATE_EVENTS = (ev.UsageUpdate,)
"""Events that an agent may report when the turn is over."""


@dataclass(slots=True)
class ItemHistory:
    states: list[ItemState] = field(default_factory=list)
    shown: int = 0
    """How often the log has it as a user message."""

    @property
    def outcome(self) -> ItemState | None:
        return self.states[-1] if self.states and self.states[-1].final else None


class LogChecker:
    """Checks a log from its first own entry on.

    Args:
        state: What the session begins with.
        copied: The entries of a fork that were copied from its source.
        set_back: The hub was set back to an earlier copy of its database. Only then may entries be lost.
    """

    def __init__(self, state: SessionState, *, copied: Sequence[Entry] = (), set_back: bool = False) -> None:
        self.state = state
        self.items: dict[str, ItemHistory] = {}
        self.visible: list[Entry] = [*copied]
        """The entries that have not been rewound."""
        self._copied_items = {
            one.content.item_id for one in copied if isinstance(one.content, ev.UserMessage)
        }
        self._set_back = set_back
        self.runner_set_back = False
        """The runner was given an older journal, or lost it."""
        self.has_holes = False
        """Entries were lost. What they said about turns, approvals and the queue is not in the log any more."""
        self.rewound = False
        self.forgotten = False
        """The log says that the agent's memory differs from the visible conversation."""
        self._turn_without_process: str | None = None
        self._ended: dict[str, int] = {}
        self._open_turns: set[str] = set()
        self._open_approvals: set[str] = set()
        self.approvals: list[str] = []
        """Every approval that was requested."""

    def is_unknown(self, item_id: str) -> bool:
        """Return whether nobody knows if the agent has this message."""
        return item_id in self.items and self.items[item_id].outcome is ItemState.UNKNOWN

    @property
    def open_approvals(self) -> frozenset[str]:
        return frozenset(self._open_approvals)

    def close_approval(self, approval: str) -> None:
        self._open_approvals.discard(approval)

    @property
    def seq(self) -> int:
        return self.state.seq

    def check_entry(self, entry: Entry) -> None:
        """Check the next entry of the log."""
        expected = self.seq + 1
        assert entry.seq == expected, f"entry {entry.seq} instead of {expected}"
        event = entry.content
        self.state = msgspec.structs.replace(apply(self.state, event), seq=entry.seq)
        self.visible.append(entry)
        turn = (event.meta or {}).get("turn")
        if turn is not None and not isinstance(event, _LATE_EVENTS):
            assert turn not in self._ended, f"{entry.seq}: an event of turn {turn} after its end"
        match event:
            case ev.TurnStart():
                if self.has_holes:
                    self._open_turns.clear()
                assert not self._open_turns, f"{entry.seq}: a turn starts within a turn"
                assert event.turn_id not in self._ended, f"{entry.seq}: a turn starts twice"
                self._open_turns.add(event.turn_id)
            case ev.TurnEnd():
                assert event.turn_id not in self._ended, f"{entry.seq}: a turn ends twice"
                assert self.has_holes or event.turn_id in self._open_turns, (
                    f"{entry.seq}: the end of a turn that does not run"
                )
                if self.has_holes:
                    self._open_approvals.clear()
                assert not self._open_approvals, (
                    f"{entry.seq}: the turn ends with open approvals {self._open_approvals}"
                )
                self._open_turns.discard(event.turn_id)
                self._ended[event.turn_id] = entry.seq
            case ev.ApprovalRequested():
                self._open_approvals.add(event.approval.id)
                self.approvals.append(event.approval.id)
            case ev.ApprovalResolved():
                assert self.has_holes or event.approval_id in self._open_approvals, (
                    f"{entry.seq}: an approval is resolved that is not open"
                )
                self._open_approvals.discard(event.approval_id)
            case ev.QueueUpdate():
                self._check_item(entry.seq, event)
            case ev.UserMessage():
                self._check_message(entry.seq, event)
            case ev.Rewound():
                self.rewound = True
                self.visible = [one for one in self.visible if one.seq < event.first_seq]
            case ev.Notice():
                assert event.text != "ghost", f"{entry.seq}: output of a dead launch was logged"
                self.forgotten = self.forgotten or event.code in ("conversation_missing", "anchor_unknown")
                if event.code == "entry_lost":
                    assert self._set_back, f"{entry.seq}: an entry is lost"
                    self.has_holes = True
            case _:
                pass
        self._check_state(entry.seq)

    def _check_message(self, seq: int, event: ev.UserMessage) -> None:
        if event.item_id.startswith(IMPORTED):
            assert not self.items, f"{seq}: an imported message after a message of this session"
            return
        assert event.item_id not in self._copied_items, f"{seq}: a copied message is shown again"
        if self.has_holes:
            self.items.setdefault(event.item_id, ItemHistory())
        history = self.items[event.item_id]
        history.shown += 1
        assert history.shown == 1, f"{seq}: a message is shown twice"

    def _check_item(self, seq: int, event: ev.QueueUpdate) -> None:
        history = self.items.setdefault(event.item_id, ItemHistory())
        assert history.outcome is None, f"{seq}: {event.item_id} has its outcome already: {history.states}"
        if not history.states and not self.has_holes:
            # What was never queued may have been cancelled or refused before. A runner that was set back says unknown.
            begins = [ItemState.QUEUED, ItemState.CANCELLED, ItemState.FAILED]
            begins += [ItemState.UNKNOWN] if self.runner_set_back else []
            assert event.state in begins, f"{seq}: {event.item_id} begins as {event.state}"
        history.states.append(event.state)

    def _check_state(self, seq: int) -> None:
        if self.has_holes:
            return
        state = self.state
        busy = state.status in (SessionStatus.WORKING, SessionStatus.WAITING)
        assert self._waits_for_process() or busy == (state.turn_id is not None), (
            f"{seq}: {state.status} with turn {state.turn_id}"
        )
        assert (state.status is SessionStatus.WAITING) <= bool(state.approvals), (
            f"{seq}: waits without an open approval"
        )
        for item in state.queue:
            assert self.items[item.id].outcome is None, f"{seq}: {item.id} waits and has an outcome"

    def _waits_for_process(self) -> bool:
        """Whether the turn has no process: the one before provably had not read its message, which waits for the next.

        Only then, until the next process is ready or the turn ends, may a session be stopped or starting within a turn.
        """
        state = self.state
        history = self.items.get(state.turn_item or "")
        if state.turn_id is None or state.status not in _WITHOUT_PROCESS:
            self._turn_without_process = None
        elif history is not None and history.shown and history.states[-1] is ItemState.QUEUED:
            self._turn_without_process = state.turn_id
        return state.turn_id is not None and self._turn_without_process == state.turn_id

    def check_stored_state(self, state: SessionState) -> None:
        """Check that the state stored by the hub agrees with the log, if that has everything."""
        if self.has_holes:
            return
        for name in _DERIVED_FIELDS:
            derived, stored = getattr(self.state, name), getattr(state, name)
            assert derived == stored, f"{name}: the log says {derived!r}, the session {stored!r}"

    def check_idle(self) -> None:
        """Check that every turn has ended, every approval is closed and every item has an outcome."""
        assert self.has_holes or not self._open_turns, "a turn has not ended"
        assert self.has_holes or not self._open_approvals, "an approval is open"
        for item_id, history in self.items.items():
            assert history.outcome is not None, f"{item_id} has no outcome: {history.states}"
