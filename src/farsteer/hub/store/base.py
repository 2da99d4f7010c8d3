"""What the hub's services ask of their store. SQLite is one implementation; a cluster will have another.

Every change is one transaction together with the rows of the feed that tell of it, and the store publishes those rows
after the commit, in the order of their cursors. An object of another namespace does not exist: NotFound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from farsteer.core.api import MachineView, MessagesCleared, SessionView, UsageGrouping, UsageResponse
from farsteer.core.approvals import Outcome
from farsteer.core.capabilities import MachineInfo
from farsteer.core.events import Entry, SessionStatus
from farsteer.core.queue import QueueItem
from farsteer.core.session import SessionSpec, SessionState
from farsteer.hub.feed import SyncEvent
from farsteer.hub.view import SessionRow
from farsteer.link.messages import EncodedEntry


class FeedPage(Struct, frozen=True):
    """A stretch of the feed, in order."""

    events: list[SyncEvent]
    next: int
    """Everything up to this cursor is in the page, or did not match."""
    more: bool


class FeedBounds(Struct, frozen=True):
    """Catch-up is whole for a cursor with `lowest <= cursor <= highest`; anything else is a gap."""

    lowest: int
    highest: int


class Appended(Struct, frozen=True):
    """What became of a batch of a session's log."""

    held: int
    """The last event the store has of this session."""
    stored: int = 0
    """How many of the batch were new."""
    known: bool = True
    """False: no such session on that machine, or no more. Nothing was stored."""
    gone: bool = False
    """It was there, and is deleted."""
    gap: bool = False
    """The batch does not continue at `held`. Nothing was stored."""


class LogPage(Struct, frozen=True):
    """Encoded entries, oldest first."""

    bodies: list[bytes]
    first: int | None
    last: int | None
    older: bool
    newer: bool


class Place(Struct, frozen=True):
    """A visible entry of a log, and what going on from before it means."""

    entry: Entry
    first_seq: int
    """Where the turn begins that the entry began, or the entry itself."""
    cut_at: str | None
    """The last anchor before it."""
    answered: bool
    """The agent has said something before it, whether or not that has an anchor."""
    held: int
    """How many entries the log has."""


class RewoundLog(Struct, frozen=True):
    seq: int
    """The entry that says so."""
    cancelled: list[str]
    """Messages that waited and do no more."""


class Copied(Struct, frozen=True):
    """How far a copy of a log is."""

    count: int = 0
    at: int = 0
    """The last entry of the source that was looked at."""
    time: int = 0
    turn: str | None = None
    """The turn that is open in the copy."""
    anchor: str | None = None
    """The last one in the copy."""
    answered: bool = False
    """The agent has said something in it."""
    last_message: str | None = None
    whole: bool = False


class Connected(Struct, frozen=True):
    acked: dict[str, int]
    unknown: list[str]
    """Deleted here: the runner is to forget them."""
    strangers: list[str]
    """Never heard of: they belong to another hub, or to what this one has lost."""


class Accepted(Struct, frozen=True):
    item: QueueItem
    position: int
    """How many open messages of the session are before it."""
    repeated: bool
    """It was there already, known by its local id."""
    machine_id: str


class Hurried(Struct, frozen=True):
    machine_id: str
    offered: bool
    """A runner may have it, and must be asked."""


class Resolved(Struct, frozen=True):
    outcome: Outcome
    by: str | None


class Recalled(Struct, frozen=True):
    """The remembered answer to a request with an Idempotency-Key."""

    digest: bytes
    response: bytes


class TokenRow(Struct, frozen=True):
    id: str
    digest: bytes
    label: str
    namespace: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None = None
    last_used_at: int | None = None


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


class Store(Protocol):
    @property
    def epoch(self) -> str:
        """Names this store in cursors, see `feed.cursor_text`."""
        ...

    async def close(self) -> None: ...

    # -- the feed

    async def feed_after(
        self,
        namespace: str,
        cursor: int,
        *,
        session_id: str | None = None,
        types: Collection[str] | None = None,
        limit: int = 1000,
    ) -> FeedPage: ...

    async def feed_bounds(self) -> FeedBounds: ...

    # -- logs

    async def append(
        self,
        namespace: str,
        machine_id: str,
        session_id: str,
        items: Sequence[EncodedEntry],
        state: SessionState | None,
    ) -> asyncio.Future[Appended]:
        """Queue the batch and return at once; the future has its end. Idempotent by (session, seq)."""
        ...

    async def page(
        self, namespace: str, session_id: str, *, limit: int, before: int | None, after: int | None
    ) -> LogPage:
        """The newest `limit` entries below `before`, or the oldest above `after`, of those that are visible."""
        ...

    async def place(self, namespace: str, session_id: str, seq: int) -> Place:
        """NotFound for an entry that is not there or not visible."""
        ...

    async def rewound(self, namespace: str, session_id: str, first_seq: int, since: int) -> RewoundLog:
        """What a rewind came to that began when the log had `since` entries."""
        ...

    async def clear(self, namespace: str, session_id: str, keep: int) -> MessagesCleared: ...

    # -- sessions

    async def begin_session(self, namespace: str, spec: SessionSpec) -> None:
        """Store a session in creation: it takes events, and nobody sees it."""
        ...

    async def visible(self, namespace: str, session_id: str, upto: int | None) -> list[tuple[int, int]]:
        """The visible stretches of a log as they are now, oldest first, up to and with an entry."""
        ...

    async def copy(
        self,
        namespace: str,
        source: str,
        target: str,
        stretches: Sequence[tuple[int, int]],
        so_far: Copied,
    ) -> Copied:
        """Copy a bounded part of a conversation into a session in creation; again, until it is whole."""
        ...

    async def seal_copy(self, spec: SessionSpec, copied: Copied) -> None:
        """The session in creation begins with what was copied, and is the one of `spec`."""
        ...

    async def finish_session(
        self,
        session_id: str,
        state: SessionState | None,
        *,
        item: QueueItem | None,
        remember: tuple[str, Recalled] | None,
    ) -> SessionView:
        """Make it visible, together with its first message and the answer remembered under an idempotency key."""
        ...

    async def discard_session(self, session_id: str, *, there: bool = False) -> None:
        """Forget a session whose creation failed; `there`: its runner may have it all the same."""
        ...

    async def session(self, namespace: str, session_id: str) -> SessionRow: ...

    async def sessions(
        self, namespace: str, where: SessionFilter, *, limit: int, after: tuple[int, str] | None
    ) -> list[SessionRow]:
        """Newest change first, continuing after (updated_at, id)."""
        ...

    async def sessions_waiting(self, namespace: str) -> list[SessionRow]:
        """Sessions with open approvals."""
        ...

    async def delete_session(self, namespace: str, session_id: str) -> str:
        """Leave a tombstone; a long log takes a while to go. Returns the machine it lived on."""
        ...

    async def count_sessions(self) -> dict[str, int]:
        """Sessions of all namespaces by status, for metrics."""
        ...

    async def resolved(self, namespace: str, session_id: str, approval_id: str) -> Resolved | None: ...

    async def recall(self, namespace: str, key: str) -> Recalled | None: ...

    async def unused_id(self, session_id: str) -> bool:
        """No session has this id, nor had it."""
        ...

    async def usage(
        self, namespace: str, where: UsageFilter, group_by: UsageGrouping, limit: int
    ) -> UsageResponse:
        """At most `limit` groups: the newest days and turns, or who spent most."""
        ...

    # -- messages on their way

    async def accept(self, namespace: str, session_id: str, item: QueueItem) -> Accepted: ...

    async def offer(self, session_id: str, link: int) -> list[QueueItem]:
        """Accepted items not offered on this link yet, in order, whole. From here on the runner may have them."""
        ...

    async def fail(self, session_id: str, item_id: str, reason: str) -> None:
        """Give an accepted item its outcome: the runner refuses it."""
        ...

    async def take_back(self, namespace: str, session_id: str, item_id: str) -> bool:
        """Cancel an item no runner has seen. False: the runner must be asked. Conflict: it has another outcome."""
        ...

    async def hurry(self, namespace: str, session_id: str, item_id: str, *, unseen: bool = False) -> Hurried:
        """Have an item that no runner has seen go first. `unseen`: one that was offered was not seen either.

        NotFound, or Conflict if the agent has it or it has an outcome.
        """
        ...

    async def sessions_to_serve(self, namespace: str, machine_id: str) -> list[str]:
        """Sessions of this machine with accepted items."""
        ...

    # -- machines

    async def connect_machine(
        self, namespace: str, machine: MachineInfo, sessions: Mapping[str, int]
    ) -> Connected:
        """A link is up. Forbidden if the machine's id belongs to another namespace."""
        ...

    async def disconnect_machine(self, namespace: str, machine_id: str) -> None: ...

    async def machines(self, namespace: str) -> list[MachineView]: ...

    async def machine(self, namespace: str, machine_id: str) -> MachineView: ...

    # -- tokens

    async def tokens(self) -> list[TokenRow]: ...

    async def add_token(self, token: TokenRow) -> None: ...

    async def remove_token(self, token_id: str) -> None: ...

    async def token_used(self, token_id: str, at: int) -> None: ...
