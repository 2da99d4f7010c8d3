"""One session as a person sees it: its blocks, what it waits for, its queue and its settings. Does no I/O."""

from __future__ import annotations

import time

from msgspec.structs import replace

from farsteer.cli.terminal.approval_prompt import ApprovalPrompt
from farsteer.cli.terminal.blocks import BlockList, MessageBlock, Speaker
from farsteer.cli.terminal.follower import Change
from farsteer.client.live_events import LiveEvent
from farsteer.core import events as ev
from farsteer.core.api import SessionView
from farsteer.core.events import Delta, Entry, SessionStatus
from farsteer.core.live_events import MessagesClearedEvent, SessionUpdatedEvent
from farsteer.core.queue import ItemState, QueueItem

_MAX_BLOCKS = 2000
_KEPT_BLOCKS = 1000


class Conversation:
    """The view model of an attached session. Pass every change of a `Follower` to `apply`."""

    def __init__(self, session: SessionView) -> None:
        self.session = session
        self.log = BlockList()
        self.prompts: dict[str, ApprovalPrompt] = {}
        """The open approvals, the oldest first."""
        self.working_since: float | None = None
        self._read(session)

    @property
    def prompt(self) -> ApprovalPrompt | None:
        """The approval to answer next."""
        return next(iter(self.prompts.values()), None)

    @property
    def working(self) -> bool:
        return self.working_since is not None

    @property
    def waiting(self) -> list[QueueItem]:
        """The messages that can still be cancelled, the next one first."""
        return [item for item in self.session.queue if item.state in (ItemState.ACCEPTED, ItemState.QUEUED)]

    @property
    def sent_texts(self) -> list[str]:
        """What people have said, as far as it is loaded, the last one last."""
        return [
            block.text
            for block in self.log.blocks
            if isinstance(block, MessageBlock) and block.speaker is Speaker.PERSON
        ]

    @property
    def state_text(self) -> str:
        """What the session does now, in a word or two."""
        status = self.session.status
        if status is SessionStatus.UNREACHABLE:
            return "machine not connected"
        if self.prompts:
            return "waits for you"
        if self.working_since is not None:
            return f"working {duration(time.time() - self.working_since)}"
        if self.session.in_terminal:
            return "open in a terminal"
        return status.value

    def apply(self, change: Change) -> None:
        """Take over what a `Follower` returned."""
        if isinstance(change, SessionView):
            self._read(change)
        elif isinstance(change, Entry):
            self._add(change)
        elif isinstance(change, Delta):
            self.log.add_delta(change)
        else:
            self._handle_event(change)

    def trim(self) -> bool:
        """Remove old blocks if there are very many. Returns whether it did."""
        if len(self.log.blocks) <= _MAX_BLOCKS:
            return False
        self.log.trim(_KEPT_BLOCKS)
        return True

    def _read(self, session: SessionView) -> None:
        self.session = session
        self.prompts = {
            approval.id: self.prompts.get(approval.id) or ApprovalPrompt(approval)
            for approval in session.approvals
        }
        if not session.thinking:
            self.working_since = None
        elif self.working_since is None:
            self.working_since = time.time()

    def _add(self, entry: Entry) -> None:
        self.log.add(entry)
        content = entry.content
        is_new = entry.seq > self.session.seq
        match content:
            case ev.TurnStart() if is_new or content.turn_id == self.session.turn_id:
                self.working_since = entry.created_at / 1000
            case ev.TurnEnd() if is_new:
                self.working_since = None
                self.prompts.clear()
            case ev.ApprovalRequested() if is_new:
                self.prompts.setdefault(content.approval.id, ApprovalPrompt(content.approval))
            case ev.ApprovalResolved():
                self.prompts.pop(content.approval_id, None)
            case _:
                pass

    def _handle_event(self, event: LiveEvent) -> None:
        match event.content:
            case MessagesClearedEvent(data=clearing):
                self.log.remove(1, clearing.cleared_seq)
            case SessionUpdatedEvent(data=changes):
                # Approvals come with the log. `seq` stays that of the first view: entries behind it are new here.
                seen = self.session
                self.session = replace(changes.apply_to(seen), seq=seen.seq, approvals=seen.approvals)
            case _:
                # From a newer hub. What it says is in the log too.
                pass


def duration(seconds: float) -> str:
    """Return a time as `5s` or `3m 20s`."""
    whole = max(0, int(seconds))
    return f"{whole}s" if whole < 60 else f"{whole // 60}m {whole % 60:02}s"


def token_text(session: SessionView) -> str:
    """Return how many tokens the session has used, and how full the agent's context is."""
    usage = session.usage
    total = usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    if usage.context_used is not None and usage.context_size:
        return f"{_short(total)} tokens, context {100 * usage.context_used // usage.context_size}%"
    return f"{_short(total)} tokens" if total else ""


def _short(number: int) -> str:
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"
