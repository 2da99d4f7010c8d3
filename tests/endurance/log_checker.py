"""Checks the promises about one session's log, entry by entry."""

from __future__ import annotations

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
    def __init__(self, state: SessionState) -> None:
        self.state = state
        self.items: dict[str, ItemHistory] = {}
        self.visible: list[Entry] = []
        """The entries that have not been rewound."""
        self.rewound = False
        self.forgotten = False
        """The log says that the agent's memory differs from the visible conversation."""
        self._ended: dict[str, int] = {}
        self._open_turns: set[str] = set()
        self._open_approvals: set[str] = set()
        self.approvals: list[str] = []
        """Every approval that was requested."""

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
                assert not self._open_turns, f"{entry.seq}: a turn starts within a turn"
                assert event.turn_id not in self._ended, f"{entry.seq}: a turn starts twice"
                self._open_turns.add(event.turn_id)
            case ev.TurnEnd():
                assert event.turn_id in self._open_turns, f"{entry.seq}: the end of a turn that does not run"
                assert not self._open_approvals, (
                    f"{entry.seq}: the turn ends with open approvals {self._open_approvals}"
                )
                self._open_turns.discard(event.turn_id)
                self._ended[event.turn_id] = entry.seq
            case ev.ApprovalRequested():
                self._open_approvals.add(event.approval.id)
                self.approvals.append(event.approval.id)
            case ev.ApprovalResolved():
                assert event.approval_id in self._open_approvals, (
                    f"{entry.seq}: an approval is resolved that is not open"
                )
                self._open_approvals.discard(event.approval_id)
            case ev.QueueUpdate():
                self._check_item(entry.seq, event)
            case ev.UserMessage():
                history = self.items[event.item_id]
                history.shown += 1
                assert history.shown == 1, f"{entry.seq}: a message is shown twice"
            case ev.Rewound():
                self.rewound = True
                self.visible = [one for one in self.visible if one.seq < event.first_seq]
            case ev.Notice():
                assert event.text != "ghost", f"{entry.seq}: output of a dead launch was logged"
                self.forgotten = self.forgotten or event.code in ("conversation_missing", "anchor_unknown")
            case _:
                pass
        self._check_state(entry.seq)

    def _check_item(self, seq: int, event: ev.QueueUpdate) -> None:
        history = self.items.setdefault(event.item_id, ItemHistory())
        assert history.outcome is None, f"{seq}: {event.item_id} has its outcome already: {history.states}"
        if not history.states:
            assert event.state is ItemState.QUEUED, f"{seq}: {event.item_id} begins as {event.state}"
        history.states.append(event.state)

    def _check_state(self, seq: int) -> None:
        state = self.state
        busy = state.status in (SessionStatus.WORKING, SessionStatus.WAITING)
        assert busy == (state.turn_id is not None), f"{seq}: {state.status} with turn {state.turn_id}"
        assert (state.status is SessionStatus.WAITING) <= bool(state.approvals), (
            f"{seq}: waits without an open approval"
        )
        for item in state.queue:
            assert self.items[item.id].outcome is None, f"{seq}: {item.id} waits and has an outcome"

    def check_stored_state(self, state: SessionState) -> None:
        """Check that the state stored by the hub agrees with the log."""
        for name in _DERIVED_FIELDS:
            derived, stored = getattr(self.state, name), getattr(state, name)
            assert derived == stored, f"{name}: the log says {derived!r}, the session {stored!r}"

    def check_idle(self) -> None:
        """Check that every turn has ended, every approval is closed and every item has an outcome."""
        assert not self._open_turns, "a turn has not ended"
        assert not self._open_approvals, "an approval is open"
        for item_id, history in self.items.items():
            assert history.outcome is not None, f"{item_id} has no outcome: {history.states}"
