"""The store on SQLite: one thread writes with group commit, a few threads read."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from farsteer.core.api import MachineView, MessagesCleared, SessionView, UsageGrouping, UsageResponse
from farsteer.core.capabilities import MachineInfo
from farsteer.core.clock import Clock, now_ms
from farsteer.core.errors import Unavailable
from farsteer.core.queue import QueueItem
from farsteer.core.session import SessionSpec, SessionState
from farsteer.hub.feed import Feed, SyncEvent
from farsteer.hub.rules.queue import QueueLimits
from farsteer.hub.rules.quota import NamespaceTotals
from farsteer.hub.rules.view import SessionRow
from farsteer.hub.store.base import (
    AcceptedItem,
    AppendResult,
    AppendStatus,
    ConnectedMachine,
    CopyProgress,
    FeedBounds,
    FeedPage,
    LogPage,
    PrioritizedItem,
    Resolution,
    RewindPoint,
    RewindResult,
    SeqRange,
    SessionFilter,
    StoredResponse,
    TokenRow,
    UsageFilter,
)
from farsteer.hub.store.sqlite import copies, entries, items, log, machines, sessions, tokens, usage
from farsteer.hub.store.sqlite.schema import MIGRATIONS
from farsteer.hub.store.sqlite.transaction import Transaction, last_cursor
from farsteer.link.messages import EncodedEntry
from farsteer.storage.readers import Readers
from farsteer.storage.writer import Writer

T = TypeVar("T")


class SqliteStore:
    """Use `SqliteStore.open`."""

    def __init__(
        self, writer: Writer, readers: Readers, feed: Feed, epoch: str, clock: Clock, limits: QueueLimits
    ) -> None:
        self._writer = writer
        self._readers = readers
        self._feed = feed
        self._epoch = epoch
        self._clock = clock
        self._limits = limits
        self._purges: set[asyncio.Task[None]] = set()
        self._links: dict[tuple[str, str], int] = {}
        """The link of each connected machine. In memory, since only this process uses the database."""

    @classmethod
    async def open(
        cls, path: Path, feed: Feed, *, clock: Clock = now_ms, limits: QueueLimits | None = None
    ) -> SqliteStore:
        """Open or create the database, and end what an earlier run of the hub left unfinished.

        Raises Unavailable if the file cannot be opened.
        """
        try:
            writer = await Writer.open(path, MIGRATIONS)
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"{path} cannot be opened: {error}") from error
        try:
            store = cls(
                writer, Readers(path), feed, await writer.run(_read_epoch), clock, limits or QueueLimits()
            )
            feed.start_at(await writer.run(last_cursor))
            await store._recover_after_restart()
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
        for task in self._purges:
            task.cancel()
        if self._purges:
            await asyncio.wait(self._purges)
        await self._readers.close()
        await self._writer.close()

    @property
    def epoch(self) -> str:
        return self._epoch

    async def _submit(self, work: Callable[[Transaction], T]) -> asyncio.Future[T]:
        published: list[SyncEvent] = []

        def job(db: sqlite3.Connection) -> T:
            published.clear()
            return work(Transaction(db, self._epoch, self._clock(), published))

        def publish(_: T) -> None:
            if published:
                self._feed.publish(published)

        return await self._writer.submit(job, publish)

    async def _change(self, work: Callable[[Transaction], T]) -> T:
        try:
            return await (await self._submit(work))
        except sqlite3.OperationalError as error:
            raise Unavailable(f"the hub cannot write to its database: {error}") from error

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._readers.run(work)

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
    ) -> asyncio.Future[AppendResult]:
        if self._links.get((namespace, machine_id), link_id) != link_id:
            refused = asyncio.get_running_loop().create_future()
            refused.set_result(AppendResult(AppendStatus.STALE_LINK))
            return refused
        return await self._submit(
            lambda tx: log.append(tx, namespace, machine_id, session_id, entries, state)
        )

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
        task = asyncio.create_task(self._purge(session_id), name=f"purge of {session_id}")
        self._purges.add(task)
        task.add_done_callback(self._purges.discard)

    async def _purge(self, session_id: str) -> None:
        while not await self._change(lambda tx: sessions.purge(tx, session_id)):
            pass
        await self._writer.erase()

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

    # -- queue items

    async def accept_item(self, namespace: str, session_id: str, item: QueueItem) -> AcceptedItem:
        return await self._change(lambda tx: items.accept(tx, namespace, session_id, item, self._limits))

    async def read_queue(self, namespace: str, session_id: str) -> tuple[QueueItem, ...]:
        return await self._read(lambda db: sessions.read_queue(db, namespace, session_id))

    async def claim_items(self, session_id: str, link_id: int) -> list[QueueItem]:
        return await self._change(lambda tx: items.claim(tx, session_id, link_id))

    async def fail_item(self, session_id: str, item_id: str, reason: str) -> None:
        await self._change(lambda tx: items.fail(tx, session_id, item_id, reason))

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
        self, namespace: str, machine: MachineInfo, sessions: Mapping[str, int], *, link_id: int
    ) -> ConnectedMachine:
        self._links[namespace, machine.id] = link_id
        return await self._change(lambda tx: machines.connect(tx, namespace, machine, sessions))

    async def disconnect_machine(self, namespace: str, machine_id: str, *, link_id: int) -> None:
        if self._links.get((namespace, machine_id)) != link_id:
            return
        del self._links[namespace, machine_id]
        await self._change(lambda tx: machines.disconnect(tx, namespace, machine_id))

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

    # -- tokens

    async def list_tokens(self) -> list[TokenRow]:
        return await self._read(tokens.select)

    async def add_token(self, token: TokenRow) -> None:
        await self._change(partial(tokens.insert, token=token))

    async def delete_token(self, token_id: str) -> list[str]:
        return await self._change(partial(tokens.delete, token_id=token_id))

    async def record_token_use(self, token_id: str, at: int) -> None:
        await self._change(partial(tokens.record_use, token_id=token_id, at=at))


def _read_epoch(db: sqlite3.Connection) -> str:
    """Return the epoch, choosing one for a new database."""
    db.execute("INSERT OR IGNORE INTO meta (key, value) VALUES ('epoch', ?)", (secrets.token_hex(6),))
    return str(db.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()[0])
