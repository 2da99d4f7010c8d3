"""The interface between the hub's services and their store, and the values it takes and returns.

`farsteer.hub.store.sqlite` implements it. `farsteer.hub.store.conformance` checks any implementation.

Every method that changes something is one transaction, and the events of the feed that report the change are part of
it. After the commit the store publishes these events to the `Feed` it was opened with, in the order of their cursors.

An object of another namespace does not exist: methods that name one raise NotFound.

**A service must not assume that its hub is the only one.** Whatever depends on that is decided in the store:

- A store is opened for one hub. Opening it ends what an earlier run of *that* hub left unfinished: machines whose link
  that hub held are disconnected, sessions it was creating are discarded, deletions are continued. Rows that belong to
  other hubs are left alone. A SQLite database has one hub, so there all rows belong to it.
- The store chooses cursors, inside the transaction that stores the event, and it tells the feed where each namespace
  stands. A service never computes a cursor.
- A machine has one link, the one that connected last, on whichever hub. `link_id` identifies a link among all hubs.
  What an earlier link still sends is refused (`AppendStatus.STALE_LINK`) and its end disconnects nothing.
- An item is claimed for a link, so that no two links deliver it unknowingly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from farsteer.core.api import MachineView, MessagesCleared, SessionView, UsageGrouping, UsageResponse
from farsteer.core.approvals import Outcome
from farsteer.core.capabilities import AgentModels, MachineInfo
from farsteer.core.errors import FarsteerError
from farsteer.core.events import SessionStatus
from farsteer.core.identity import Identity
from farsteer.core.queue import QueueItem
from farsteer.core.retention import SessionRemoval
from farsteer.core.session import SessionSpec, SessionState
from farsteer.hub.feed import SyncEvent
from farsteer.hub.rules.fork import CopyProgress
from farsteer.hub.rules.lease import PROTOCOL_2, LeaseClaim
from farsteer.hub.rules.log import AppendResult, AppendStatus
from farsteer.hub.rules.quota import NamespaceTotals
from farsteer.hub.rules.rewind import RewindPoint, RewindResult
from farsteer.hub.rules.session import ConnectedMachine
from farsteer.hub.rules.view import SessionRow
from farsteer.hub.rules.visibility import SeqRange
from farsteer.hub.store.drafts import DraftStore
from farsteer.hub.store.foreign import ForeignSessionStore
from farsteer.hub.store.recovery import KnownSessions, RecoveryStore, UnloggedOutcome
from farsteer.hub.store.tokens import NewDevice, PairingRow, TokenRow, TokenStore
from farsteer.link.messages import EncodedEntry

# Everything a caller or an implementation needs; what the rules return is defined with the rules.
__all__ = [
    "AcceptedItem", "AppendResult", "AppendStatus", "ConnectedMachine", "CopyProgress", "FeedBounds", "FeedPage",
    "KnownSessions", "LogPage", "NewDevice", "PairingRow", "PrioritizedItem", "Resolution", "RetainedSession",
    "RewindPoint", "RewindResult", "SeqRange", "SessionFilter", "SessionRow", "Store", "StoredBytes", "StoredResponse",
    "TokenRow", "UnloggedOutcome", "UsageFilter",
]  # fmt: skip


class FeedPage(Struct, frozen=True):
    """Consecutive events of the feed, oldest first."""

    events: list[SyncEvent]
    next: int
    """The cursor to continue from: every matching event up to it is in this page."""
    more: bool


class FeedBounds(Struct, frozen=True):
    """A client can catch up from any cursor with `lowest <= cursor <= highest`; any other has a gap."""

    lowest: int
    highest: int


class LogPage(Struct, frozen=True):
    """Encoded entries, oldest first."""

    bodies: list[bytes]
    first_seq: int | None
    last_seq: int | None
    has_older: bool
    has_newer: bool


class AcceptedItem(Struct, frozen=True):
    item: QueueItem
    """Its summary."""
    position: int
    """How many open messages of the session are before it."""
    repeated: bool
    """An item with the same local id was accepted before; `item` is that one."""
    machine_id: str
    claimed_by: int | None = None
    """The link for which it was claimed as it was accepted, or None."""


class Claim(Struct, frozen=True):
    """The link on which messages of a machine's sessions can be sent."""

    machine_id: str
    link_id: int


class PrioritizedItem(Struct, frozen=True):
    machine_id: str
    claimed: bool
    """The item was claimed for a link, so the runner may have it and must be asked. Nothing was changed."""


class Resolution(Struct, frozen=True):
    """How an approval ended."""

    outcome: Outcome
    by: str | None
    identity: Identity | None = None


class StoredResponse(Struct, frozen=True):
    """The response to a request that had an Idempotency-Key."""

    key: str
    digest: bytes
    """Of the request, so that the key is not reused for another one."""
    response: bytes


class SessionFilter(Struct, frozen=True):
    machine_id: str | None = None
    agent: str | None = None
    status: SessionStatus | None = None
    text: str | None = None


class UsageFilter(Struct, frozen=True):
    first_day: str | None = None
    """As YYYY-MM-DD, in UTC."""
    last_day: str | None = None
    session_id: str | None = None


class RetainedSession(Struct, frozen=True):
    """A session as the retention rules look at it."""

    id: str
    seq: int
    """Its last entry."""
    updated_at: int
    busy: bool
    """It works, starts, has messages that wait or asks somebody something."""


class StoredBytes(Struct, frozen=True):
    bytes: int
    """On the disk."""
    free_bytes: int
    """Of those, what nothing uses."""
    compacting: bool
    """What was deleted is being taken out of the files."""
    needs_rewrite: bool
    """It cannot give back space before it was rewritten."""


class Store(ForeignSessionStore, RecoveryStore, TokenStore, DraftStore, Protocol):
    @property
    def epoch(self) -> str:
        """Identifies the history that cursors belong to, see `feed.cursor_text`.

        A store that was set back to an earlier state has a new one (`Feed.on_new_epoch`), which is committed before
        anything is published under it.
        """
        ...

    async def close(self) -> None: ...

    async def failure(self) -> FarsteerError:
        """Wait until nothing can be stored any more for good, and return why."""
        ...

    # -- feed

    async def read_feed(
        self,
        namespace: str,
        cursor: int,
        *,
        session_id: str | None = None,
        types: Collection[str] | None = None,
        limit: int = 1000,
    ) -> FeedPage:
        """Return at most `limit` events after `cursor`, of one session and some types if these are given."""
        ...

    async def feed_bounds(self, namespace: str) -> FeedBounds: ...

    # -- logs

    async def append_entries(
        self,
        namespace: str,
        machine_id: str,
        session_id: str,
        entries: Sequence[EncodedEntry],
        state: SessionState | None,
        *,
        link_id: int,
        keeps_commands: bool = False,
    ) -> asyncio.Future[AppendResult]:
        """Queue a batch of a session's log and return at once; the future is resolved after the commit.

        Idempotent by (session, seq). `state` is the state after the last entry, or None if it did not change; a state
        that does not belong to the last stored entry is ignored. With `keeps_commands` the stored commands stay.
        """
        ...

    async def read_page(
        self, namespace: str, session_id: str, *, limit: int, before: int | None, after: int | None
    ) -> LogPage:
        """Return the newest `limit` visible entries below `before`, or the oldest ones above `after`."""
        ...

    async def find_rewind_point(self, namespace: str, session_id: str, seq: int) -> RewindPoint:
        """Raises NotFound if there is no such entry or it is not visible."""
        ...

    async def find_rewind_result(
        self, namespace: str, session_id: str, first_seq: int, since: int
    ) -> RewindResult:
        """Return what a rewind to `first_seq` did that began when the log had `since` entries."""
        ...

    async def clear_messages(self, namespace: str, session_id: str, keep: int) -> MessagesCleared:
        """Hide all but the newest `keep` visible entries."""
        ...

    # -- sessions

    async def begin_session(self, namespace: str, spec: SessionSpec, *, limit: int | None = None) -> None:
        """Store a session in creation: it accepts entries and is not visible.

        Raises Conflict if a session has this id or ever had it, and QuotaExceeded if there are `limit` sessions.
        """
        ...

    async def finish_session(
        self,
        session_id: str,
        state: SessionState | None,
        *,
        first_message: QueueItem | None = None,
        response: StoredResponse | None = None,
    ) -> SessionView:
        """Make a session visible, together with its first message and the response to remember.

        Raises NotFound if it is not in creation any more.
        """
        ...

    async def discard_session(self, session_id: str, *, keep_tombstone: bool = False) -> None:
        """Remove a session whose creation failed.

        Keep a tombstone if its runner may have created it: the runner is then told to delete it.
        """
        ...

    async def visible_ranges(self, namespace: str, session_id: str, upto: int | None) -> list[SeqRange]:
        """Return what is visible of a log now, up to and including an entry, oldest first."""
        ...

    async def copy_entries(
        self,
        namespace: str,
        source_id: str,
        target_id: str,
        ranges: Sequence[SeqRange],
        progress: CopyProgress,
    ) -> CopyProgress:
        """Copy a bounded part of a conversation into a session in creation. Call it until the copy is done.

        Raises NotFound if the source was deleted, or the target is not in creation any more.
        """
        ...

    async def finish_copy(self, spec: SessionSpec, progress: CopyProgress) -> None:
        """Let the log of a session in creation begin with its copy, and store the spec with the fork."""
        ...

    async def get_session(
        self, namespace: str, session_id: str, *, whole_approvals: bool = False
    ) -> SessionRow:
        """Return a session. Large approvals are summaries, unless `whole_approvals`."""
        ...

    async def list_sessions(
        self, namespace: str, where: SessionFilter, *, limit: int, after: tuple[int, str] | None
    ) -> list[SessionRow]:
        """Return the most recently updated first, continuing after (updated_at, id)."""
        ...

    async def list_sessions_with_approvals(self, namespace: str) -> list[SessionRow]:
        """Return the sessions that have open approvals, with whole approvals up to a bounded size."""
        ...

    async def delete_session(self, namespace: str, session_id: str) -> str:
        """Delete a session and return its machine. A tombstone stays, so that no late writer revives it.

        Its entries may take a while to go; nobody sees them meanwhile, except in the feed.
        """
        ...

    # -- size

    async def list_namespaces(self) -> list[str]:
        """Return the namespaces that have sessions."""
        ...

    async def list_retained(self, namespace: str) -> list[RetainedSession]:
        """Return all sessions of a namespace, those in creation excluded."""
        ...

    async def measure_session(self, session_id: str) -> int:
        """Return the bytes of a session's log."""
        ...

    async def remove_unused(self, removal: SessionRemoval) -> str | None:
        """Delete a session as `delete_session` does, if it has not been used since and is not busy.

        Returns its machine, or None if the session stays. `session-removed` carries the reason.
        """
        ...

    async def measure(self) -> StoredBytes: ...

    async def compact(self) -> None:
        """Give back all free space, in the background."""
        ...

    # -- approvals and requests

    async def find_resolution(
        self, namespace: str, session_id: str, approval_id: str
    ) -> Resolution | None: ...

    async def find_response(self, namespace: str, key: str) -> StoredResponse | None: ...

    async def is_session_id_unused(self, session_id: str) -> bool:
        """Whether no session of any namespace has this id or ever had it."""
        ...

    async def report_usage(
        self, namespace: str, where: UsageFilter, group_by: UsageGrouping, limit: int
    ) -> UsageResponse:
        """Return at most `limit` groups: the newest for days and turns, else the most expensive."""
        ...

    # -- queue items

    async def accept_item(
        self, namespace: str, session_id: str, item: QueueItem, claim: Claim | None = None
    ) -> AcceptedItem:
        """Store a message. Idempotent by its local id.

        With `claim` it is claimed for that link at once, unless an accepted item waits that this link has not claimed.

        Raises TooLarge, Conflict and RateLimited by the limits that the store was opened with (`rules.check_room`).
        """
        ...

    async def read_queue(self, namespace: str, session_id: str) -> tuple[QueueItem, ...]:
        """Return the whole messages that wait, without the data of their attachments."""
        ...

    async def claim_items(
        self, session_id: str, link_id: int, *, again: bool = False, limit: int | None = None
    ) -> list[QueueItem]:
        """Return the accepted items to send on this link, complete and in order, each once per link.

        From now on the runner may have them. At most `limit` are returned, and fewer if they are large, so that the
        next call may return more. With `again`, those that were claimed before count as not claimed.
        """
        ...

    async def fail_item(self, session_id: str, item_id: str, reason: str) -> None:
        """Give an accepted item the outcome `failed`. Does nothing if it is no longer accepted."""
        ...

    async def cancel_item(self, namespace: str, session_id: str, item_id: str) -> bool:
        """Cancel an item that was never claimed. Return False if the runner must be asked instead.

        That includes an item that only the runner has, because the store was set back. Raises NotFound, or Conflict if
        it has another outcome.
        """
        ...

    async def prioritize_item(
        self, namespace: str, session_id: str, item_id: str, *, ignore_claim: bool = False
    ) -> PrioritizedItem:
        """Let an item that was never claimed be delivered first, as one with delivery `now`.

        `ignore_claim` does so for a claimed one too, when its runner is known not to have it. Raises NotFound, or
        Conflict if the agent has the item or it has an outcome.
        """
        ...

    async def list_sessions_with_accepted_items(self, namespace: str, machine_id: str) -> list[str]: ...

    # -- machines

    async def enrol_machine(
        self, namespace: str, machine: MachineInfo, key: bytes, *, limit: int | None = None
    ) -> None:
        """Store a machine that is not known yet, with its public key. A known one must have this key.

        A machine that was stored by a version without keys takes the first key it comes with.

        Raises Forbidden if the machine has another key or belongs to another namespace; which of the two is not said.
        Raises QuotaExceeded for a new machine if the namespace has `limit` machines.
        """
        ...

    async def connect_machine(
        self,
        namespace: str,
        machine: MachineInfo,
        sessions: Mapping[str, int],
        held: Mapping[str, Collection[str]] | None = None,
        *,
        link_id: int,
        claim: LeaseClaim = PROTOCOL_2,
        confirmed: Mapping[str, int] = ...,
    ) -> ConnectedMachine:
        """Make `link_id` the machine's link; `sessions` are its own, with the last entry of each.

        `held` are the items that the runner has, by session; None if it does not say (protocol 2).

        `confirmed` has the last entry of each that a hub has confirmed. If the store has less, it was set back: a new
        epoch begins, at most once while the store is open.

        The caller has verified that the runner holds the machine's key. Raises NotFound if it is not enrolled, and
        IdentityInUse if another runner has the machine's lease (`rules.decide_lease`). That is noted and published.
        """
        ...

    async def disconnect_machine(
        self, namespace: str, machine_id: str, *, link_id: int, released: bool = False
    ) -> None:
        """Mark the machine as inactive. `released`: its runner has ended in order and gives the lease back.

        Does nothing if it has connected again by another link.
        """
        ...

    async def release_machine(self, namespace: str, machine_id: str) -> None:
        """Take the lease of a machine's runner back, which is gone for good. Raises Conflict if it is connected."""

    async def set_machine_problem(self, namespace: str, machine_id: str, problem: str | None) -> None:
        """Store what keeps a machine from working. Its next connection begins without one."""
        ...

    async def set_agent_models(self, namespace: str, machine_id: str, models: AgentModels) -> None: ...

    async def list_machines(self, namespace: str) -> list[MachineView]:
        """Return the active ones first."""
        ...

    async def get_machine(self, namespace: str, machine_id: str) -> MachineView: ...

    async def remove_machine(self, namespace: str, machine_id: str) -> None:
        """Forget a machine and its key. Raises Conflict if it is connected or has sessions."""
        ...

    async def count_totals(self, namespace: str) -> NamespaceTotals: ...
