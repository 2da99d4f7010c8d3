"""The promises about one session's log, checked entry by entry."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from farsteer.core import events as ev
from farsteer.core.events import Entry, SessionStatus
from farsteer.core.queue import ItemState
from farsteer.core.session import SessionState, apply

# What the log alone tells of a session. The rest (native id, generation) is the runner's own note.
_TOLD = (
    "status", "title", "title_by_user", "permission_mode", "model", "effort", "turn_id", "turn_item", "queue",
    "approvals", "usage", "error", "commands",
)  # fmt: skip
_LATE = (ev.UsageUpdate,)
"""What an agent may count when the turn is over."""


@dataclass(slots=True)
class ItemLife:
    states: list[ItemState] = field(default_factory=list)
    shown: int = 0
    """How often it stands in the log as a person's message."""

    @property
    def outcome(self) -> ItemState | None:
        return self.states[-1] if self.states and self.states[-1].final else None


class Ledger:
    def __init__(self, state: SessionState) -> None:
        self.state = state
        self.items: dict[str, ItemLife] = {}
        self.visible: list[Entry] = []
        """What a person sees of the conversation: without what was rewound."""
        self.rewound = False
        self.forgotten = False
        """The log says that the agent remembers something else than is seen."""
        self._ended: dict[str, int] = {}
        self._open: set[str] = set()
        self._asked: set[str] = set()
        self.asked: list[str] = []
        """Every question there was."""

    @property
    def seq(self) -> int:
        return self.state.seq

    def take(self, entry: Entry) -> None:
        expected = self.seq + 1
        assert entry.seq == expected, f"entry {entry.seq} where {expected} belongs"
        event = entry.content
        self.state = msgspec.structs.replace(apply(self.state, event), seq=entry.seq)
        self.visible.append(entry)
        turn = (event.meta or {}).get("turn")
        if turn is not None and not isinstance(event, _LATE):
            assert turn not in self._ended, f"{entry.seq}: something of turn {turn} after its end"
        match event:
            case ev.TurnStart():
                assert not self._open, f"{entry.seq}: a turn inside a turn"
                assert event.turn_id not in self._ended, f"{entry.seq}: a turn begins twice"
                self._open.add(event.turn_id)
            case ev.TurnEnd():
                assert event.turn_id in self._open, f"{entry.seq}: an end without a turn, or a second one"
                assert not self._asked, f"{entry.seq}: the turn ends with open questions {self._asked}"
                self._open.discard(event.turn_id)
                self._ended[event.turn_id] = entry.seq
            case ev.ApprovalRequested():
                self._asked.add(event.approval.id)
                self.asked.append(event.approval.id)
            case ev.ApprovalResolved():
                assert event.approval_id in self._asked, f"{entry.seq}: an answer without a question"
                self._asked.discard(event.approval_id)
            case ev.QueueUpdate():
                self._item(entry.seq, event)
            case ev.UserMessage():
                life = self.items[event.item_id]
                life.shown += 1
                assert life.shown == 1, f"{entry.seq}: a message is shown twice"
            case ev.Rewound():
                self.rewound = True
                self.visible = [one for one in self.visible if one.seq < event.first_seq]
            case ev.Notice():
                assert event.text != "ghost", f"{entry.seq}: a dead launch speaks"
                self.forgotten = self.forgotten or event.code in ("conversation_missing", "anchor_unknown")
            case _:
                pass
        self._consistent(entry.seq)

    def _item(self, seq: int, event: ev.QueueUpdate) -> None:
        life = self.items.setdefault(event.item_id, ItemLife())
        assert life.outcome is None, f"{seq}: {event.item_id} has its outcome already: {life.states}"
        if not life.states:
            assert event.state is ItemState.QUEUED, f"{seq}: {event.item_id} begins as {event.state}"
        life.states.append(event.state)

    def _consistent(self, seq: int) -> None:
        state = self.state
        busy = state.status in (SessionStatus.WORKING, SessionStatus.WAITING)
        assert busy == (state.turn_id is not None), f"{seq}: {state.status} with turn {state.turn_id}"
        assert (state.status is SessionStatus.WAITING) <= bool(state.approvals), f"{seq}: waits for nothing"
        for item in state.queue:
            assert self.items[item.id].outcome is None, f"{seq}: {item.id} waits and has an outcome"

    def agrees_with(self, state: SessionState) -> None:
        for name in _TOLD:
            told, shown = getattr(self.state, name), getattr(state, name)
            assert told == shown, f"{name}: the log says {told!r}, the session {shown!r}"

    def at_rest(self) -> None:
        assert not self._open, "a turn has no end"
        assert not self._asked, "a question is open"
        for item_id, life in self.items.items():
            assert life.outcome is not None, f"{item_id} has no outcome: {life.states}"
