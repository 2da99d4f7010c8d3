"""One runner's link, seen from the hub: events go to the store, fragments to the feed, calls to the runner."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import sys

from msgspec import Struct

from farsteer.core.commands import Command, Create, Delete
from farsteer.core.errors import ErrorCode, MachineOffline, Unavailable
from farsteer.core.wire import encode
from farsteer.hub.feed import Feed, sync_event
from farsteer.hub.metrics import Metrics
from farsteer.hub.store.base import AppendResult, AppendStatus, ConnectedMachine, Store
from farsteer.link.messages import (
    Ack,
    Call,
    Deltas,
    EncodedEntry,
    Events,
    Hello,
    Ping,
    Pong,
    Reply,
    ToHub,
    ToRunner,
    Welcome,
)
from farsteer.link.transport import IdleTimeoutReceiver, LinkClosed, Transport

_log = logging.getLogger(__name__)

_MAX_FRAMES = 256
_MAX_BYTES = 32 * 1024 * 1024
"""What is taken from a runner and not yet committed; beyond that we read no more from it."""

LinkTransport = Transport[ToRunner, ToHub]


class _Batch(Struct, frozen=True):
    """Events on their way to the disk."""

    session: str
    size: int
    appended: asyncio.Future[AppendResult]


class _Waiting(Struct):
    """A call of ours: its answer, and the runner's reply once it is here."""

    session: str
    answer: asyncio.Future[Reply]
    reply: Reply | None = None


class RunnerLink:
    def __init__(
        self,
        transport: LinkTransport,
        namespace: str,
        machine_id: str,
        *,
        store: Store,
        feed: Feed,
        metrics: Metrics,
        silence: float,
    ) -> None:
        self.number = secrets.randbits(62) + 1
        self.welcomed = False
        self._transport = transport
        self._namespace = namespace
        self._machine_id = machine_id
        self._store = store
        self._feed = feed
        self._metrics = metrics
        self._silence = silence
        self._ear = IdleTimeoutReceiver(transport, silence)
        self._sending = asyncio.Lock()
        self._calls: dict[int, _Waiting] = {}
        self._held: dict[str, int] = {}
        """The last event of each session that is on the disk."""
        self._ids = itertools.count(1)
        self._ours: set[str] = set()
        """Sessions whose fragments are passed on."""
        self._ended: set[str] = set()
        """Sessions the runner was told to end."""
        self._uncommitted: asyncio.Queue[_Batch] = asyncio.Queue(_MAX_FRAMES)
        self._uncommitted_bytes = 0
        self._room = asyncio.Event()

    async def welcome(self, connected: ConnectedMachine) -> None:
        self._ours.update(connected.stored_seqs)
        self._held.update(connected.stored_seqs)
        await self._send(
            Welcome(acked=connected.stored_seqs, deleted=connected.deleted, foreign=connected.unknown)
        )
        self.welcomed = True

    async def live(self) -> None:
        """Until the link ends, for whatever reason; raises that reason."""
        tasks = [
            asyncio.create_task(work) for work in (self._receive(), self._ear.watch(), self._acknowledge())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def close(self, reason: str) -> None:
        """Idempotent."""
        _log.debug("machine %s: closing the link: %s", self._machine_id, reason)
        self.welcomed = False
        for waiting in self._calls.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(MachineOffline())
        await self._transport.close()

    # -- to the runner

    async def call(self, session_id: str, command: Command, timeout: float) -> Reply:
        if not self.welcomed:
            raise MachineOffline
        if isinstance(command, Delete):
            self._ours.discard(session_id)
            self._ended.add(session_id)
        id = next(self._ids)
        waiting = self._calls[id] = _Waiting(session_id, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(timeout):
                await self._send(Call(id=id, session=session_id, command=command))
                reply = await waiting.answer
        except TimeoutError:
            raise Unavailable(
                f"the machine did not answer within {timeout:g} s", code=ErrorCode.TIMEOUT
            ) from None
        except LinkClosed:
            raise MachineOffline from None
        finally:
            del self._calls[id]
        if isinstance(command, Create) and reply.error is None:
            self._ours.add(session_id)
        return reply

    async def _send(self, message: ToRunner) -> None:
        """One at a time. A runner that does not read is as dead as a silent one."""
        try:
            async with self._sending, asyncio.timeout(self._silence):
                await self._transport.send(message)
        except TimeoutError:
            await self._transport.close()
            raise LinkClosed("the runner does not read") from None

    # -- from the runner

    async def _receive(self) -> None:
        while True:
            message = await self._ear.receive()
            match message:
                case Events():
                    await self._take_in(message)
                case Deltas():
                    self._pass_on(message)
                case Reply():
                    waiting = self._calls.get(message.id)
                    if waiting is not None:
                        waiting.reply = message
                        self._answer(waiting)
                case Ping():
                    await self._send(Pong())
                case Hello():
                    raise LinkClosed("the runner said hello twice")

    async def _take_in(self, message: Events) -> None:
        """Hand a batch to the store and read on, unless too much is on its way already."""
        _check_text(message.entries)
        appended = await self._store.append_entries(
            self._namespace,
            self._machine_id,
            message.session,
            message.entries,
            message.state,
            link_id=self.number,
        )
        size = sum(len(item.body) for item in message.entries)
        self._uncommitted_bytes += size
        await self._uncommitted.put(_Batch(message.session, size, appended))
        while self._uncommitted_bytes > _MAX_BYTES:
            self._room.clear()
            await self._room.wait()

    def _answer(self, waiting: _Waiting) -> None:
        """Whoever asked for a change finds it when they look: the answer waits for the commit of what it caused."""
        reply = waiting.reply
        if (
            reply is not None
            and not waiting.answer.done()
            and reply.seq <= self._held.get(waiting.session, 0)
        ):
            waiting.answer.set_result(reply)

    def _answer_all(self, session: str) -> None:
        for waiting in self._calls.values():
            if waiting.session == session:
                self._answer(waiting)

    def _pass_on(self, message: Deltas) -> None:
        """Fragments overtake the disk. Those of a session that is not this machine's go nowhere."""
        session = message.session
        if session not in self._ours:
            return
        self._metrics.deltas += len(message.deltas)
        self._feed.publish(
            [
                sync_event(
                    self._namespace, "message-delta", session, encode(delta),
                    merge_key=f"{session}:{delta.message_id}",
                )
                for delta in message.deltas
            ]
        )  # fmt: skip

    async def _acknowledge(self) -> None:
        """Tell the runner what is on the disk: once for all that one commit brought."""
        while True:
            acks: dict[str, int] = {}
            await self._settle(await self._uncommitted.get(), acks)
            while not self._uncommitted.empty():
                batch = self._uncommitted.get_nowait()
                if not batch.appended.done():
                    await self._send_acks(acks)
                await self._settle(batch, acks)
            await self._send_acks(acks)

    async def _settle(self, batch: _Batch, acks: dict[str, int]) -> None:
        session, appended = batch.session, await batch.appended
        self._uncommitted_bytes -= batch.size
        self._room.set()
        if appended.status is AppendStatus.STALE_LINK:
            raise LinkClosed("another link of the same machine took its place")
        if appended.status is AppendStatus.GAP:
            raise LinkClosed(f"session {session}: events are missing after {appended.last_seq}")
        if appended.status is AppendStatus.STORED:
            self._ours.add(session)
            self._metrics.events_stored += appended.stored
            acks[session] = self._held[session] = appended.last_seq
            self._answer_all(session)
            return
        self._ours.discard(session)
        self._held[session] = sys.maxsize
        self._answer_all(session)
        if appended.status is AppendStatus.DELETED and session not in self._ended:
            self._ended.add(session)
            _log.info("machine %s: session %s is deleted; ending it", self._machine_id, session)
            await self._send(Call(id=next(self._ids), session=session, command=Delete()))

    async def _send_acks(self, acks: dict[str, int]) -> None:
        for session, seq in acks.items():
            await self._send(Ack(session=session, seq=seq))
        acks.clear()


def _check_text(items: list[EncodedEntry]) -> None:
    """Entries are passed on as they are; one that is no UTF-8 would cut off everybody who listens."""
    try:
        for item in items:
            str(item.body, "utf-8")
    except UnicodeDecodeError:
        raise LinkClosed("an event is not UTF-8") from None
