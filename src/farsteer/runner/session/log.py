"""A session's log at its source: numbers events, derives the state, encodes once, commits, then publishes."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from farsteer.core import events as ev
from farsteer.core.clock import now_ms
from farsteer.core.events import Entry, SessionEvent, role_of
from farsteer.core.queue import Attachment, ItemState, QueueItem, without_data
from farsteer.core.session import SessionState, apply
from farsteer.core.wire import encode
from farsteer.link.messages import EncodedEntry
from farsteer.runner.journal import Journal, Payloads
from farsteer.runner.session.drafts import Draft, DraftDelta, DraftKey, Drafts

_KEEP_SETTLED = 500
_MAX_UNSAVED = 200
_LARGE = 64 * 1024
CONFIRMED_WITHIN = 0.05
"""Seconds; plain output that the hub has not confirmed by then goes into the journal."""
_DRAFT_DELAY = 0.25
"""Seconds; a message that is finished by then never costs a write of its own."""
_DRAFT_PAUSE = 1.0
"""Seconds between two writes that only a streaming message causes: what the death of a runner may cost of it."""
_log = logging.getLogger(__name__)


class Publisher(Protocol):
    """Where committed events go: the link."""

    def publish(self, state: SessionState, items: Sequence[EncodedEntry], *, changed: bool) -> None: ...

    def fragments(self, session: str, deltas: list[ev.Delta]) -> None: ...


@dataclass(slots=True)
class _Due:
    """What is to be written down in one commit."""

    items: list[EncodedEntry] = field(default_factory=list[EncodedEntry])
    settled: list[str] = field(default_factory=list[str])
    payloads: Payloads = field(default_factory=dict[str, tuple[Attachment, ...]])
    finished: list[DraftKey] = field(default_factory=list[DraftKey])

    def take_over(self, new: _Due) -> None:
        self.items += new.items
        self.settled += new.settled
        self.payloads |= new.payloads
        self.finished += new.finished


class SessionLog:
    """The one writer of one session's log."""

    def __init__(
        self,
        state: SessionState,
        journal: Journal,
        publisher: Publisher,
        settled: Iterable[str] = (),
        payloads: Payloads | None = None,
        drafts: Sequence[Draft] = (),
    ) -> None:
        self.state = state
        self._journal = journal
        self._publisher = publisher
        self._pending = _Due()
        """Added, and not yet flushed."""
        self._due = _Due()
        """Flushed, and not in the journal: plain output waits here for the hub to confirm it."""
        self._settled = OrderedDict.fromkeys(settled)
        self._payloads: Payloads = dict(payloads or {})
        self._drafts = Drafts(drafts)
        self._drafted_at = 0.0
        self._drafting: asyncio.TimerHandle | None = None
        self._draft_task: asyncio.Future[None] | None = None
        self._committed = state
        self._shown = _essence(state)
        self._saves = asyncio.Lock()
        self._saving: asyncio.TimerHandle | None = None
        self._unconfirmed_since = 0.0
        self._save_task: asyncio.Future[None] | None = None

    def add(self, event: SessionEvent, *, local_id: str | None = None) -> None:
        """Take `event` into the log; it counts from the next `flush`."""
        seq = self.state.seq + 1
        entry = Entry(
            id=f"{self.state.id}:{seq}",
            seq=seq,
            role=role_of(event),
            created_at=now_ms(),
            content=event,
            local_id=local_id,
        )
        self.state = msgspec.structs.replace(apply(self.state, event), seq=seq)
        kind = type(event).__struct_config__.tag
        self._pending.items.append(EncodedEntry(seq, str(kind), msgspec.Raw(encode(entry))))
        self._pending.finished += self._drafts.note(event)
        if isinstance(event, ev.QueueUpdate) and event.state.final:
            self._settled[event.item_id] = None
            self._pending.settled.append(event.item_id)
            self._payloads.pop(event.item_id, None)
            if len(self._settled) > _KEEP_SETTLED:
                self._settled.popitem(last=False)

    def enqueue(self, item: QueueItem) -> None:
        """Queue `item` unless it is known. What is attached to it is kept aside: the log has names and sizes only."""
        if self.knows(item.id):
            return
        self.add(ev.QueueUpdate(item_id=item.id, state=ItemState.QUEUED, item=without_data(item)))
        if item.attachments:
            self._payloads[item.id] = self._pending.payloads[item.id] = item.attachments

    def attachments(self, item: QueueItem) -> tuple[Attachment, ...]:
        """What is attached to a waiting item, with its data."""
        return self._payloads.get(item.id, item.attachments)

    def patch(self, **changes: object) -> None:
        """Change what is no event: the native id's registration, the worktree."""
        self.state = msgspec.structs.replace(self.state, **changes)

    def knows(self, item_id: str) -> bool:
        """This item is in the queue or has had its outcome."""
        return item_id in self._settled or any(item.id == item_id for item in self.state.queue)

    def catch_up(self, held: int) -> None:
        """The hub has more of this log than our journal: what it had confirmed and we had not written down yet.

        That was plain output, which changes nothing but the numbers (`flush`).
        """
        if held > self.state.seq:
            self.patch(seq=held)

    async def flush(self) -> None:
        """Publish what was added. Nothing is shown to a client that is not on the hub's disk.

        Whatever decides what we do next is on our own disk before anybody hears of it. What only an agent said goes up
        at once, and is written down here if the hub does not confirm it soon; but a message of which the journal has a
        draft takes the draft's place first, or a crash would leave us with both.
        """
        if self.state is self._committed:
            return
        state, new = self.state, self._pending
        self._pending = _Due()
        self._committed = state
        essence = _essence(state)
        changed = essence != self._shown
        self._shown = essence
        if not self._due.items:
            self._unconfirmed_since = asyncio.get_running_loop().time()
        self._due.take_over(new)
        if changed or new.finished:
            await self._save()
        self._publisher.publish(state, new.items, changed=changed)
        if len(self._due.items) > _MAX_UNSAVED or any(len(item.body) > _LARGE for item in new.items):
            await self.save()
        elif self._due.items and self._saving is None:
            self._save_within(CONFIRMED_WITHIN)

    def confirmed(self, seq: int) -> None:
        """The hub has everything up to `seq` on its disk."""
        self._due.items = [item for item in self._due.items if item.seq > seq]

    async def save(self) -> None:
        """Write down what the hub has not confirmed."""
        if self._due.items:
            await self._save()

    async def close(self) -> None:
        for timer in (self._saving, self._drafting):
            if timer is not None:
                timer.cancel()
        await self.flush()
        await self._save()

    def _save_within(self, seconds: float) -> None:
        self._saving = asyncio.get_running_loop().call_later(seconds, self._overdue)

    def _overdue(self) -> None:
        """One timer for a stream of messages: it looks for the oldest that the hub has not confirmed."""
        self._saving = None
        if self._due.items:
            left = self._unconfirmed_since + CONFIRMED_WITHIN - asyncio.get_running_loop().time()
            if left > 0:
                self._save_within(left)
            else:
                self._save_task = asyncio.ensure_future(self.save())

    async def _save(self) -> None:
        """One at a time, and each takes all there is: what belongs together is never written apart."""
        async with self._saves:
            due, self._due = self._due, _Due()
            drafts = self._drafts.take()
            if drafts:
                self._drafted_at = asyncio.get_running_loop().time()
            await self._commit(self._committed, due, drafts)

    async def _commit(self, state: SessionState, due: _Due, drafts: Sequence[DraftDelta]) -> None:
        """A full or failing disk holds the session up until it is mended; it loses nothing."""
        delay = 0.1
        while True:
            try:
                return await self._journal.append(
                    state, due.items, due.settled, due.payloads, drafts, due.finished
                )
            except sqlite3.Error:
                _log.exception(
                    "session %s: the journal cannot be written; trying again in %.1f s", state.id, delay
                )
                await asyncio.sleep(delay)
                delay = min(delay * 2, 10.0)

    # -- what is not finished

    def stream(self, deltas: list[ev.Delta]) -> None:
        after = self.state.seq
        placed = [msgspec.structs.replace(delta, after=after) for delta in deltas]
        self._publisher.fragments(self.state.id, placed)
        if self.state.turn_id is not None:
            self._drafts.hear(deltas)
            if self._drafting is None and self._drafts.unsaved:
                loop = asyncio.get_running_loop()
                due = max(loop.time() + _DRAFT_DELAY, self._drafted_at + _DRAFT_PAUSE)
                self._drafting = loop.call_at(due, self._draft_overdue)

    def _draft_overdue(self) -> None:
        self._drafting = None
        if self._drafts.unsaved:
            self._draft_task = asyncio.ensure_future(self._save_drafts())

    async def _save_drafts(self) -> None:
        if self._drafts.unsaved:
            await self._save()

    def add_left_drafts(self) -> None:
        """Say what an earlier life of the runner heard of messages that nobody will finish."""
        for event in self._drafts.left():
            self.add(event)


def _essence(state: SessionState) -> SessionState:
    """What a session list shows; a message alone does not change it."""
    return msgspec.structs.replace(state, seq=0, last_message=None)
