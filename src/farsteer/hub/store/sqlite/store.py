"""The store on SQLite: one thread writes with group commit, a few threads read."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from farsteer.core.api import (
    DraftView,
    MachineView,
    MessagesCleared,
    SessionView,
    UsageGrouping,
    UsageResponse,
)
from farsteer.core.capabilities import AgentModels, MachineInfo
from farsteer.core.clock import Clock, now_ms
from farsteer.core.errors import IdentityInUse
from farsteer.core.foreign import HeldSession
from farsteer.core.queue import ItemState, QueueItem
from farsteer.core.retention import SessionRemoval
from farsteer.core.session import SessionSpec, SessionState
from farsteer.hub.feed import Feed
from farsteer.hub.rules.lease import PROTOCOL_2, LeaseClaim, LeaseRefusal
from farsteer.hub.rules.queue import QueueLimits
from farsteer.hub.rules.quota import NamespaceTotals
from farsteer.hub.rules.view import SessionRow
from farsteer.hub.store.base import (
    AcceptedItem,
    AppendResult,
    AppendStatus,
    Claim,
    ConnectedMachine,
    CopyProgress,
    FeedBounds,
    FeedPage,
    KnownSessions,
    LogPage,
    PrioritizedItem,
    Resolution,
    RetainedSession,
    RewindPoint,
    RewindResult,
    SeqRange,
    SessionFilter,
    StoredBytes,
    StoredResponse,
    UnloggedOutcome,
    UsageFilter,
)
from farsteer.hub.store.drafts import NewDraft
from farsteer.hub.store.sqlite import (
    copies,
    drafts,
    entries,
    foreign,
    items,
    log,
    machines,
    retention,
    sessions,
    usage,
)
from farsteer.hub.store.sqlite.access import AccessDatabase
from farsteer.hub.store.sqlite.epoch import (
    OpenedEpoch,
    open_epoch,
    read_last_seen,
    start_epoch,
)
from farsteer.hub.store.sqlite.schema import MIGRATIONS
from farsteer.hub.store.sqlite.transaction import Transaction, last_cursor
from farsteer.hub.tasks import BackgroundTasks
from farsteer.link.messages import EncodedEntry
from farsteer.storage.failures import storage_error
from farsteer.storage.free_space import read_space, size_of
from farsteer.storage.readers import Readers
from farsteer.storage.writer import Writer

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_NOTHING: Mapping[str, int] = {}


class SqliteStore(AccessDatabase):
    """Use `SqliteStore.open`."""

    def __init__(
        self, path: Path, writer: Writer, readers: Readers, feed: Feed, epoch: OpenedEpoch, clock: Clock,
        limits: QueueLimits,
    ) -> None:  # fmt: skip
        super().__init__(path, writer, readers, feed, epoch, clock)
        self._limits = limits
        self._purges = BackgroundTasks()
        self._purging = asyncio.Lock()
        self._links: dict[tuple[str, str], int] = {}
        """The link of each connected machine. In memory, since only this process uses the database.

        Set by transactions, so that nothing of an earlier link is stored after its machine has connected again."""

    @classmethod
    async def open(
        cls, path: Path, feed: Feed, *, clock: Clock = now_ms, limits: QueueLimits | None = None
    ) -> SqliteStore:
        """Open or create the database, and end what an earlier run of the hub left unfinished.

        Raises Unavailable if the file cannot be opened, with code `database_damaged` if it is no whole database.
        """
        try:
            writer = await Writer.open(path, MIGRATIONS)
        except sqlite3.Error as error:
            raise storage_error(error, path) from error
        try:
            seen = await asyncio.to_thread(read_last_seen, path)
            epoch = await writer.run(lambda db: open_epoch(db, path, seen))
            store = cls(path, writer, Readers(path), feed, epoch, clock, limits or QueueLimits())
            highest = await writer.run(last_cursor)
            feed.start_at(highest)
            store._epoch_file.write(epoch.epoch, highest)
            await store._recover_after_restart()
        except sqlite3.Error as error:
            await writer.close()
            raise storage_error(error, path) from error
        except BaseException:
            await writer.close()
            raise
        return store

    async def _recover_after_restart(self) -> None:
        """End what an earlier run left unfinished. This hub is the only one, so everything unfinished is its own."""

        def recover(tx: Transaction) -> list[str]:
            machines.recover(tx)
            return sessions.recover(tx)

        for session_id in await self._change(recover):
            self._start_purge(session_id)

    async def close(self) -> None:
        """Wait for what was submitted. Purges that are not finished continue when the store is opened again."""
        await self._purges.close(grace_seconds=0)
        await self._readers.close()
        await self._writer.close()
        await self._epoch_file.close()

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
        return await self._read(
            lambda db: log.read_feed(
                db, self._epoch, namespace, cursor, session_id=session_id, types=types, limit=limit
            )
        )

    async def feed_bounds(self, namespace: str) -> FeedBounds:
        return await self._read(log.bounds)

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
        def append(tx: Transaction) -> AppendResult:
            if self._links.get((namespace, machine_id), link_id) != link_id:
                return AppendResult(AppendStatus.STALE_LINK)
            return log.append(
                tx, namespace, machine_id, session_id, entries, state, keeps_commands=keeps_commands
            )

        return await self._submit(append)

    async def read_page(
        self, namespace: str, session_id: str, *, limit: int, before: int | None, after: int | None
    ) -> LogPage:
        return await self._read(
            lambda db: entries.page(db, namespace, session_id, limit=limit, before=before, after=after)
        )

    async def find_rewind_point(self, namespace: str, session_id: str, seq: int) -> RewindPoint:
        return await self._read(lambda db: entries.rewind_point(db, namespace, session_id, seq))

    async def find_rewind_result(
        self, namespace: str, session_id: str, first_seq: int, since: int
    ) -> RewindResult:
        return await self._read(lambda db: entries.rewind_result(db, namespace, session_id, first_seq, since))

    async def clear_messages(self, namespace: str, session_id: str, keep: int) -> MessagesCleared:
        return await self._change(lambda tx: entries.clear(tx, namespace, session_id, keep))

    # -- sessions

    async def begin_session(self, namespace: str, spec: SessionSpec, *, limit: int | None = None) -> None:
        await self._change(lambda tx: sessions.begin(tx, namespace, spec, limit))

    async def visible_ranges(self, namespace: str, session_id: str, upto: int | None) -> list[SeqRange]:
        return await self._read(lambda db: entries.visible_ranges(db, namespace, session_id, upto))

    async def copy_entries(
        self,
        namespace: str,
        source_id: str,
        target_id: str,
        ranges: Sequence[SeqRange],
        progress: CopyProgress,
    ) -> CopyProgress:
        rows, copied = await self._read(
            lambda db: copies.read(db, namespace, source_id, target_id, ranges, progress)
        )
        await self._change(lambda tx: copies.write(tx, target_id, rows))
        return copied

    async def finish_copy(self, spec: SessionSpec, progress: CopyProgress) -> None:
        await self._change(lambda tx: copies.finish(tx, spec, progress))

    async def finish_session(
        self,
        session_id: str,
        state: SessionState | None,
        *,
        first_message: QueueItem | None = None,
        response: StoredResponse | None = None,
    ) -> SessionView:
        return await self._change(
            lambda tx: sessions.finish(tx, session_id, state, first_message, response, self._limits)
        )

    async def discard_session(self, session_id: str, *, keep_tombstone: bool = False) -> None:
        if await self._change(lambda tx: sessions.discard(tx, session_id, keep_tombstone=keep_tombstone)):
            self._start_purge(session_id)

    async def get_session(
        self, namespace: str, session_id: str, *, whole_approvals: bool = False
    ) -> SessionRow:
        return await self._read(
            lambda db: sessions.read(db, namespace, session_id, whole_approvals=whole_approvals)
        )

    async def list_sessions(
        self, namespace: str, where: SessionFilter, *, limit: int, after: tuple[int, str] | None
    ) -> list[SessionRow]:
        return await self._read(lambda db: sessions.select(db, namespace, where, limit=limit, after=after))

    async def list_sessions_with_approvals(self, namespace: str) -> list[SessionRow]:
        return await self._read(lambda db: sessions.select_with_approvals(db, namespace))

    async def delete_session(self, namespace: str, session_id: str) -> str:
        machine_id = await self._change(lambda tx: sessions.delete(tx, namespace, session_id))
        self._start_purge(session_id)
        return machine_id

    def _start_purge(self, session_id: str) -> None:
        self._purges.spawn_until_done(lambda: self._purge(session_id), f"purge of session {session_id}")

    async def _purge(self, session_id: str) -> None:
        # One at a time: the steps of many would be committed together, and nothing else could be written meanwhile.
        async with self._purging:
            while not await self._change(lambda tx: sessions.purge(tx, session_id)):
                pass
        await self._writer.erase()

    # -- size

    async def list_namespaces(self) -> list[str]:
        return await self._read(retention.namespaces)

    async def list_retained(self, namespace: str) -> list[RetainedSession]:
        return await self._read(lambda db: retention.select(db, namespace))

    async def measure_session(self, session_id: str) -> int:
        return await self._read(lambda db: retention.measure(db, session_id))

    async def remove_unused(self, removal: SessionRemoval) -> str | None:
        machine_id = await self._change(lambda tx: retention.remove(tx, removal))
        if machine_id is not None:
            self._start_purge(removal.session_id)
        return machine_id

    async def measure(self) -> StoredBytes:
        space = await self._read(read_space)
        return StoredBytes(size_of(self._path), space.free_bytes, self._purges.is_running, not space.shrinks)

    async def compact(self) -> None:
        self._purges.spawn_until_done(self._compact, "compaction")

    async def _compact(self) -> None:
        async with self._purging:
            await (await self._writer.erase())

    # -- drafts

    async def read_draft(self, namespace: str, session_id: str) -> DraftView:
        def read(db: sqlite3.Connection) -> DraftView:
            sessions.find(db, namespace, session_id)
            return drafts.read(db, session_id)

        return await self._read(read)

    async def write_draft(
        self, namespace: str, session_id: str, draft: NewDraft, seen: int | None
    ) -> DraftView:
        def write(tx: Transaction) -> DraftView:
            sessions.find(tx.db, namespace, session_id)
            return drafts.write(tx, namespace, session_id, draft, seen)

        return await self._change(write)

    # -- approvals and requests

    async def find_resolution(self, namespace: str, session_id: str, approval_id: str) -> Resolution | None:
        return await self._read(lambda db: sessions.resolution(db, namespace, session_id, approval_id))

    async def find_response(self, namespace: str, key: str) -> StoredResponse | None:
        return await self._read(lambda db: sessions.response(db, namespace, key))

    async def is_session_id_unused(self, session_id: str) -> bool:
        return await self._read(lambda db: sessions.is_id_unused(db, session_id))

    async def report_usage(
        self, namespace: str, where: UsageFilter, group_by: UsageGrouping, limit: int
    ) -> UsageResponse:
        return await self._read(lambda db: usage.report(db, namespace, where, group_by, limit))

    # -- sessions that only their machines know

    async def list_foreign_sessions(self, namespace: str, machine_id: str) -> list[str]:
        return await self._read(lambda db: foreign.select(db, namespace, machine_id))

    async def adopt_session(self, namespace: str, held: HeldSession, *, limit: int | None = None) -> None:
        await self._change(lambda tx: machines.adopt_session(tx, namespace, held, limit))

    async def end_foreign_session(self, namespace: str, machine_id: str, session_id: str) -> None:
        await self._change(lambda tx: machines.end_session(tx, namespace, machine_id, session_id))

    # -- queue items

    async def accept_item(
        self, namespace: str, session_id: str, item: QueueItem, claim: Claim | None = None
    ) -> AcceptedItem:
        return await self._change(
            lambda tx: items.accept(tx, namespace, session_id, item, self._limits, claim)
        )

    async def read_queue(self, namespace: str, session_id: str) -> tuple[QueueItem, ...]:
        return await self._read(lambda db: sessions.read_queue(db, namespace, session_id))

    async def claim_items(
        self, session_id: str, link_id: int, *, again: bool = False, limit: int | None = None
    ) -> list[QueueItem]:
        return await self._change(lambda tx: items.claim(tx, session_id, link_id, again=again, limit=limit))

    async def fail_item(self, session_id: str, item_id: str, reason: str) -> None:
        await self._change(lambda tx: items.fail(tx, session_id, item_id, reason))

    async def settle_item(self, session_id: str, item_id: str, state: ItemState) -> bool:
        return await self._change(lambda tx: items.settle(tx, session_id, item_id, state))

    async def list_unlogged_outcomes(self, namespace: str, machine_id: str) -> list[UnloggedOutcome]:
        return await self._read(lambda db: items.unlogged(db, namespace, machine_id))

    async def cancel_item(self, namespace: str, session_id: str, item_id: str) -> bool:
        return await self._change(lambda tx: items.cancel(tx, namespace, session_id, item_id))

    async def prioritize_item(
        self, namespace: str, session_id: str, item_id: str, *, ignore_claim: bool = False
    ) -> PrioritizedItem:
        return await self._change(
            lambda tx: items.prioritize(tx, namespace, session_id, item_id, ignore_claim=ignore_claim)
        )

    async def list_sessions_with_accepted_items(self, namespace: str, machine_id: str) -> list[str]:
        return await self._read(lambda db: items.sessions_with_accepted_items(db, namespace, machine_id))

    # -- machines

    async def enrol_machine(
        self, namespace: str, machine: MachineInfo, key: bytes, *, limit: int | None = None
    ) -> None:
        await self._change(lambda tx: machines.enrol(tx, namespace, machine, key, limit))

    async def connect_machine(
        self,
        namespace: str,
        machine: MachineInfo,
        sessions: Mapping[str, int],
        held: Mapping[str, Collection[str]] | None = None,
        *,
        link_id: int,
        claim: LeaseClaim = PROTOCOL_2,
        confirmed: Mapping[str, int] = _NOTHING,
    ) -> ConnectedMachine:
        def connect(tx: Transaction) -> ConnectedMachine | LeaseRefusal:
            # Before the lease is given, which is a newer one.
            saw_more = machines.has_seen_more(tx.db, namespace, machine.id, confirmed, claim.last)
            lease = machines.claim_lease(tx, namespace, machine.id, claim)
            if isinstance(lease, LeaseRefusal):
                return lease
            self._links[namespace, machine.id] = link_id
            if saw_more and not self._epoch_is_final:
                _logger.warning(
                    "machine %s has seen more than this database has, which was set back: a new epoch begins",
                    machine.id,
                )
                tx.begin_epoch(start_epoch(tx.db))
            return machines.connect(tx, namespace, machine, sessions, held, lease)

        connected = await self._change(connect)
        if isinstance(connected, LeaseRefusal):
            raise IdentityInUse(connected.reason, retry_after=connected.retry_after, is_new=connected.is_new)
        return connected

    async def read_known_sessions(self, namespace: str, session_ids: Sequence[str]) -> KnownSessions:
        return await self._read(lambda db: sessions.read_known(db, namespace, session_ids))

    async def disconnect_machine(
        self, namespace: str, machine_id: str, *, link_id: int, released: bool = False
    ) -> None:
        def disconnect(tx: Transaction) -> None:
            if self._links.get((namespace, machine_id)) == link_id:
                machines.disconnect(tx, namespace, machine_id, released=released)

        await self._change(disconnect)
        if self._links.get((namespace, machine_id)) == link_id:
            del self._links[namespace, machine_id]

    async def release_machine(self, namespace: str, machine_id: str) -> None:
        await self._change(lambda tx: machines.release(tx, namespace, machine_id))

    async def set_agent_models(self, namespace: str, machine_id: str, models: AgentModels) -> None:
        await self._change(lambda tx: machines.set_models(tx, namespace, machine_id, models))

    async def set_machine_problem(self, namespace: str, machine_id: str, problem: str | None) -> None:
        await self._change(lambda tx: machines.set_problem(tx, namespace, machine_id, problem))

    async def list_machines(self, namespace: str) -> list[MachineView]:
        return await self._read(lambda db: machines.select(db, namespace))

    async def get_machine(self, namespace: str, machine_id: str) -> MachineView:
        return await self._read(lambda db: machines.read(db, namespace, machine_id))

    async def remove_machine(self, namespace: str, machine_id: str) -> None:
        await self._change(lambda tx: machines.remove(tx, namespace, machine_id))

    async def count_totals(self, namespace: str) -> NamespaceTotals:
        return await self._read(
            lambda db: NamespaceTotals(
                sessions.count(db, namespace),
                machines.count(db, namespace),
                items.queued_bytes(db, namespace),
            )
        )
