"""What still holds for the log of a session when a database was set back."""

from __future__ import annotations

from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.events import Entry
from farsteer.core.session import SessionState, apply
from tests.endurance.log_checker import ItemHistory, LogChecker


class OlderHubChecker(LogChecker):
    """Of a session as the hub still has it. Notices stand in the place of lost entries: only the rest is checked.

    Entries are numbered without a gap, and no message is shown twice or has two different outcomes.
    """

    def __init__(self, state: SessionState, stored: list[Entry]) -> None:
        super().__init__(state)
        for entry in stored:
            self.state = replace(self.state, seq=entry.seq - 1)
            self.check_entry(entry)

    def check_entry(self, entry: Entry) -> None:
        assert entry.seq == self.seq + 1, f"entry {entry.seq} instead of {self.seq + 1}"
        event = entry.content
        self.state = replace(apply(self.state, event), seq=entry.seq)
        self.visible.append(entry)
        match event:
            case ev.ApprovalRequested():
                self._open_approvals.add(event.approval.id)
            case ev.ApprovalResolved():
                self._open_approvals.discard(event.approval_id)
            case ev.QueueUpdate():
                history = self.items.setdefault(event.item_id, ItemHistory())
                # It is told again after the hub was set back twice, to copies of which only one had it.
                assert history.outcome in (None, event.state), (
                    f"{entry.seq}: {event.item_id} has another outcome"
                )
                history.states.append(event.state)
            case ev.UserMessage():
                history = self.items.setdefault(event.item_id, ItemHistory())
                history.shown += 1
                assert history.shown == 1, f"{entry.seq}: a message is shown twice"
            case ev.TurnEnd():
                self._open_approvals.clear()
            case ev.Rewound():
                self.visible = [one for one in self.visible if one.seq < event.first_seq]
            case _:
                pass

    def check_idle(self) -> None:
        """The log may lack the beginning or the end of anything: `Clients` asks the hub."""
