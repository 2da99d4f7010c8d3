"""A session's log at its source: numbers events, derives the state, encodes once, commits, then publishes."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Protocol, TypedDict, Unpack

import msgspec

from farsteer.core import events as ev
from farsteer.core.clock import now_ms
from farsteer.core.errors import Conflict, ErrorCode, Unavailable
from farsteer.core.events import SessionEvent, make_entry
from farsteer.core.queue import ItemState, QueueItem, compact, contains, summarize
from farsteer.core.session import SessionSpec, SessionState, Worktree, append
from farsteer.core.wire import decode, encode
from farsteer.link.messages import EncodedEntry, encode_entry
from farsteer.runner.journal import ItemOutcome, Journal, JournalBatch, LogPosition, StoredSession
from farsteer.runner.session.drafts import Draft, DraftDelta, Drafts

_MAX_QUEUED_BYTES = 256 * 1024 * 1024
"""The limit of this machine for what waits in one session. The limit of a hub is lower."""
_CACHED_MESSAGES = 16
_CACHED_MESSAGE_BYTES = 64 * 1024
_MAX_UNSAVED = 200
_LARGE_ENTRY = 64 * 1024
CONFIRM_SECONDS = 0.05
"""Plain output that the hub has not confirmed within this time is written to the journal."""
_DRAFT_DELAY = 0.25
"""Seconds before a draft is written. A message that is finished earlier costs no write of its own."""
_DRAFT_INTERVAL = 1.0
"""Seconds between two writes that only drafts cause: the most text that the death of a runner may lose."""
_logger = logging.getLogger(__name__)


class Publisher(Protocol):
    """Where committed entries and live deltas go: the outbox of the link."""

    def publish(
        self, state: SessionState, entries: Sequence[EncodedEntry], *, state_changed: bool
    ) -> None: ...

    def publish_deltas(self, session: str, deltas: list[ev.Delta]) -> None: ...


class PrivateState(TypedDict, total=False):
    """The fields of `SessionState` that the runner changes without an event.

    Together they say which of the agent's conversations the next launch continues, and how. Changes come from the
    adapter and the launcher, and most of them concern nobody else: a prewarmed process uses up a generation and may
    rename the conversation although no client ever sees it. An event for each would be noise in every client's log.

    Some events set them too (`LaunchStart`, `Rewound`, a delivered `QueueUpdate`). All other fields are set when the
    session is created and changed only by events (`core.session.apply`), which number the log (`seq`) as well. A change
    is committed by the next flush like any other change of the state, and reaches the hub with the state.
    """

    native_id: str | None
    """The agent reported another id than the one it was given, or confirmed it."""
    registered: bool
    """The agent confirmed that it keeps the conversation, or reported that it has none."""
    generation: int
    """A prewarmed process was started."""
    fork_of: str | None
    """None when the forked conversation exists."""
    cut_at: str | None
    """None when the agent does not know the anchor, or has a fork of its own that ends there."""
    left_behind: tuple[str, ...]
    """The agent went on under another id."""
    transcript_at: str | None
    """More of the transcript is in the log. It is committed with the events that the records became."""
    worktree: Worktree | None
    """Its branch has another name."""
    digest_due: bool
    """The agent has been told what was handed over."""
    handed_off_to: tuple[str, ...]
    """Another session went on with this conversation."""


_PRIVATE_FIELDS = frozenset(PrivateState.__annotations__)


class SessionLog:
    """The only writer of a session's log.

    `add` appends an event in memory; `flush` commits and publishes what was added. An entry is first in `_added`, then
    flushed and in `_unsaved`, then in the journal until the hub confirms it.
    """

    def __init__(
        self,
        state: SessionState,
        journal: Journal,
        publisher: Publisher,
        message_sizes: Mapping[str, int] | None = None,
        drafts: Sequence[Draft] = (),
    ) -> None:
        self.state = state
        """The state after everything that was added."""
        self._journal = journal
        self._publisher = publisher
        self._added = JournalBatch()
        self._unsaved = JournalBatch()
        self._saving = JournalBatch()
        """What is being committed."""
        self._message_sizes = dict(message_sizes or {})
        self._cached_messages: dict[str, bytes] = {}
        """Small messages that have just begun to wait. The journal has all."""
        self._drafts = Drafts(drafts)
        self._drafts_saved_at = 0.0
        self._draft_timer: asyncio.TimerHandle | None = None
        self._draft_task: asyncio.Future[None] | None = None
        self._flushed_state = state
        self._published_state = _without_position(state)
        self._save_lock = asyncio.Lock()
        self._save_timer: asyncio.TimerHandle | None = None
        self._save_task: asyncio.Future[None] | None = None
        self._unconfirmed_since = 0.0

    # -- events

    def add(self, event: SessionEvent, *, local_id: str | None = None) -> None:
        """Append `event`. It is committed and published by the next `flush`."""
        seq = self.state.seq + 1
        entry = make_entry(self.state.id, seq, event, now_ms(), local_id)
        self.state = append(self.state, event)
        self._added.entries.append(encode_entry(entry))
        self._added.finished_drafts += self._drafts.finish(event)
        if isinstance(event, ev.CommandsUpdate):
            self._added.commands = encode(self.state.commands)
        if isinstance(event, ev.QueueUpdate) and event.state.final:
            self._added.outcomes.append(ItemOutcome(event.item_id, event.state, seq))
            self._cached_messages.pop(event.item_id, None)
            self._message_sizes.pop(event.item_id, None)

    def enqueue(self, item: QueueItem) -> None:
        """Queue a new item. The log has only its summary. Raises Conflict `queue_full`."""
        message = encode(compact(item))
        if sum(self._message_sizes.values()) + len(message) > _MAX_QUEUED_BYTES:
            raise Conflict("too many bytes wait in this session", code=ErrorCode.QUEUE_FULL)
        self.add(ev.QueueUpdate(item_id=item.id, state=ItemState.QUEUED, item=compact(summarize(item))))
        self._added.messages[item.id] = message
        self._message_sizes[item.id] = len(message)
        if len(message) <= _CACHED_MESSAGE_BYTES and len(self._cached_messages) < _CACHED_MESSAGES:
            self._cached_messages[item.id] = message

    def is_queued(self, item_id: str) -> bool:
        """Return whether this item is here and has no outcome yet."""
        return contains(self.state.queue, item_id)

    def find_outcome(self, item_id: str) -> ItemOutcome | None:
        """Return the outcome of an item, if it has one. Raises Unavailable if the journal cannot be read."""
        for batch in (self._added, self._unsaved, self._saving):
            for outcome in reversed(batch.outcomes):
                if outcome.item_id == item_id:
                    return outcome
        return self._journal.find_outcome(self.state.id, item_id)

    def has_message(self, item_id: str) -> bool:
        """Return whether the journal has the message of a waiting item."""
        return item_id in self._message_sizes

    async def read_message(self, item_id: str) -> QueueItem | None:
        """Return a waiting message whole. None if the journal does not have it."""
        for known in (self._cached_messages, self._added.messages, self._unsaved.messages):
            if item_id in known:
                return decode(known[item_id], QueueItem)
        stored = await self._journal.read_message(self.state.id, item_id)
        return None if stored is None else decode(stored, QueueItem)

    # -- state that no event carries

    def update_private_state(self, **changes: Unpack[PrivateState]) -> None:
        """Change fields of the state without an event. Raises TypeError for a field that is not in `PrivateState`."""
        derived = changes.keys() - _PRIVATE_FIELDS
        if derived:
            raise TypeError(f"only events change {', '.join(sorted(derived))}")
        self.state = msgspec.structs.replace(self.state, **changes)

    def catch_up(self, acked: int) -> None:
        """Continue the numbering after `acked`, the last entry that the hub holds.

        After a crash the hub may hold entries that the journal does not have: plain output, which `flush` publishes
        before it is saved. Those entries changed nothing but the number.
        """
        if acked > self.state.seq:
            self.state = msgspec.structs.replace(self.state, seq=acked)

    def differs(self, state: SessionState) -> bool:
        """Return whether `state`, which the hub has, is not only another position in the same output.

        Two states may be equal although turns lie between them; `journaled` tells them apart.
        """
        return state.journaled != self.state.journaled or _without_position(state) != _without_position(
            self.state
        )

    def restored(self, spec: SessionSpec, state: SessionState) -> StoredSession:
        """Return what the journal is to have if the session goes on with `state`, which the hub has.

        Messages and drafts stay only if they belong to it.
        """
        sizes = {ref.id: self._message_sizes[ref.id] for ref in state.queue if ref.id in self._message_sizes}
        same_turn = state.turn_id is not None and state.turn_id == self.state.turn_id
        return StoredSession(spec, state, sizes, self._drafts.stored if same_turn else (), state.seq)

    def position(self, acked: int) -> LogPosition:
        """Return where the log stands if the hub has the entries up to `acked`."""
        batches = (self._saving, self._unsaved, self._added)
        unsaved = next((batch.entries[0].seq for batch in batches if batch.entries), self.state.seq + 1)
        return LogPosition(self.state.id, acked, unsaved)

    # -- committing

    async def flush(self) -> None:
        """Commit and publish what was added.

        Whatever changes the session's state is in the journal before it is published, because it decides what the
        runner does next. Plain output is published at once and written to the journal only if the hub does not confirm
        it within CONFIRM_SECONDS. A finished message whose draft is in the journal is committed first as well: it
        replaces the draft in the same commit, so that a crash leaves one of the two. So is every outcome of a message,
        because a message that is offered again is looked up in the journal.
        """
        if self.state is self._flushed_state:
            return
        new, self._added = self._added, JournalBatch()
        comparable = _without_position(self.state)
        state_changed = comparable != self._published_state
        self._published_state = comparable
        if state_changed:
            self.state = msgspec.structs.replace(self.state, journaled=self.state.seq)
        self._flushed_state = state = self.state
        if not self._unsaved.entries:
            self._unconfirmed_since = asyncio.get_running_loop().time()
        self._unsaved.extend(new)
        if state_changed or new.finished_drafts or new.outcomes:
            await self._save()
        self._publisher.publish(state, new.entries, state_changed=state_changed)
        if len(self._unsaved.entries) > _MAX_UNSAVED or any(
            len(entry.body) > _LARGE_ENTRY for entry in new.entries
        ):
            await self.save()
        elif self._unsaved.entries and self._save_timer is None:
            self._start_save_timer(CONFIRM_SECONDS)

    def confirm(self, seq: int) -> None:
        """The hub has committed everything up to `seq`: it need not be written to the journal."""
        self._unsaved.entries = [entry for entry in self._unsaved.entries if entry.seq > seq]

    async def save(self) -> None:
        """Write flushed entries that the hub has not confirmed to the journal."""
        if self._unsaved.entries:
            await self._save()

    async def close(self) -> None:
        for timer in (self._save_timer, self._draft_timer):
            if timer is not None:
                timer.cancel()
        await self.flush()
        await self._save()

    def _start_save_timer(self, seconds: float) -> None:
        self._save_timer = asyncio.get_running_loop().call_later(seconds, self._save_if_unconfirmed)

    def _save_if_unconfirmed(self) -> None:
        """Save if the oldest unconfirmed entry is old enough. One timer serves a whole stream of entries."""
        self._save_timer = None
        if self._unsaved.entries:
            left = self._unconfirmed_since + CONFIRM_SECONDS - asyncio.get_running_loop().time()
            if left > 0:
                self._start_save_timer(left)
            else:
                self._save_task = asyncio.ensure_future(self.save())

    async def _save(self) -> None:
        """Commit everything unsaved. One commit at a time, so that a state is never older than its entries."""
        async with self._save_lock:
            batch, self._unsaved = self._unsaved, JournalBatch()
            self._saving = batch
            draft_deltas = self._drafts.pop_unsaved()
            if draft_deltas:
                self._drafts_saved_at = asyncio.get_running_loop().time()
            await self._commit(self._flushed_state, batch, draft_deltas)
            self._saving = JournalBatch()

    async def _commit(
        self, state: SessionState, batch: JournalBatch, draft_deltas: Sequence[DraftDelta]
    ) -> None:
        """Write to the journal. A full disk or a lack of memory delays the session until it works again.

        Nothing is lost. Raises Unavailable if the journal is closed.
        """
        delay = 0.1
        while True:
            try:
                return await self._journal.append(state, batch, draft_deltas)
            except Unavailable:
                raise
            except Exception as error:
                if isinstance(error, sqlite3.Error):
                    _logger.error("session %s waits: %s", state.id, self._journal.problem or error)
                else:
                    _logger.exception("session %s: cannot write to the journal", state.id)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 10.0)

    # -- deltas and drafts

    def publish_deltas(self, deltas: list[ev.Delta]) -> None:
        """Publish live deltas at once. Within a turn their text is also kept as a draft."""
        after = self.state.seq
        placed = [msgspec.structs.replace(delta, after=after) for delta in deltas]
        self._publisher.publish_deltas(self.state.id, placed)
        if self.state.turn_id is not None:
            self._drafts.add(deltas)
            if self._draft_timer is None and self._drafts.has_unsaved:
                loop = asyncio.get_running_loop()
                due = max(loop.time() + _DRAFT_DELAY, self._drafts_saved_at + _DRAFT_INTERVAL)
                self._draft_timer = loop.call_at(due, self._save_drafts_in_background)

    def _save_drafts_in_background(self) -> None:
        self._draft_timer = None
        if self._drafts.has_unsaved:
            self._draft_task = asyncio.ensure_future(self._save_drafts())

    async def _save_drafts(self) -> None:
        if self._drafts.has_unsaved:
            await self._save()

    def add_stored_drafts(self) -> None:
        """Log the drafts that the previous runner process left as partial messages."""
        for event in self._drafts.stored_events():
            self.add(event)


def _without_position(state: SessionState) -> SessionState:
    """The part of the state that a message alone does not change."""
    return msgspec.structs.replace(state, seq=0, journaled=0, last_message=None)
