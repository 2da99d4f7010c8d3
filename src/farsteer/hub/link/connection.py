"""One runner's connection, on the hub's side: events go to the store, deltas to the feed, calls to the runner."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from farsteer.core.capabilities import AgentModels
from farsteer.core.clock import now_ms
from farsteer.core.commands import Command, Create, Delete, Send
from farsteer.core.errors import ErrorCode, FarsteerError, MachineOffline, Unavailable
from farsteer.core.ids import is_uuid
from farsteer.core.queue import QueueItem
from farsteer.core.text import clean_line
from farsteer.core.wire import encode
from farsteer.hub.feed import Feed, sync_event
from farsteer.hub.metrics import Metrics
from farsteer.hub.rules.bounds import bounded_models, bounded_reply, bounded_state
from farsteer.hub.rules.entry_check import check_deltas, check_entries
from farsteer.hub.store.base import AppendResult, AppendStatus, ConnectedMachine, Store
from farsteer.link.messages import (
    Ack,
    Call,
    Deltas,
    EncodedEntry,
    Events,
    Goodbye,
    Hello,
    IdentityClaimed,
    Ping,
    Pong,
    Proof,
    Reply,
    ToHub,
    ToRunner,
    UnknownMessage,
    Unsupported,
    Welcome,
)
from farsteer.link.transport import IdleTimeoutReceiver, LinkClosed, Transport

_logger = logging.getLogger(__name__)

_MAX_BATCHES = 256
_MAX_BYTES = 32 * 1024 * 1024
"""How much may wait for its commit. Above it no more is read from the runner."""
_REPORT_SECONDS = 60.0
_MAX_PROBLEM = 500

_SHORT_TEXT = 1000
_DEADLINE_SECONDS = 1.0
"""How often it is checked which offers were not answered in time."""

_CHECKED_BYTES = 256 * 1024
"""How much of a batch is checked at a time."""

RunnerTransport = Transport[ToRunner, ToHub]


class _Batch(Struct, frozen=True):
    """Events that were handed to the store and are not known to be committed."""

    session_id: str
    size: int
    appended: asyncio.Future[AppendResult]


class _PendingCall(Struct):
    session_id: str
    result: asyncio.Future[Reply]
    reply: Reply | None = None
    """The runner's reply while the events that it refers to are not committed."""
    timeout: float = math.inf
    deadline: float = math.inf
    """When an offer fails. Whoever waits for the reply to a call has a timeout of their own."""


class _Order(Struct):
    """Lets the messages of a session be sent one after the other."""

    lock: asyncio.Lock
    tasks: set[asyncio.Task[None]] = msgspec.field(default_factory=set[asyncio.Task[None]])


class RunnerConnection:
    """Implements `MachineLink` for a runner that is connected to this process."""

    def __init__(
        self,
        transport: RunnerTransport,
        namespace: str,
        machine_id: str,
        *,
        protocol: int,
        store: Store,
        feed: Feed,
        metrics: Metrics,
        idle_timeout: float,
    ) -> None:
        self.id = secrets.randbits(62) + 1
        self.protocol = protocol
        self.ready = False
        self._welcomed = asyncio.Event()
        """Set when the runner accepts calls, or never will."""
        self.released = False
        self._has_unknown = False
        """A message that one of the two ends does not know was sent, and logged."""
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._namespace = namespace
        self._machine_id = machine_id
        self._store = store
        self._feed = feed
        self._metrics = metrics
        self._idle_timeout = idle_timeout
        self._receiver = IdleTimeoutReceiver(transport, idle_timeout)
        self._calls: dict[int, _PendingCall] = {}
        self._replied: dict[str, list[_PendingCall]] = {}
        """By session: calls whose reply waits for the commit of its events."""
        self._call_ids = itertools.count(1)
        self._orders: dict[str, _Order] = {}
        self._stored_seq: dict[str, int] = {}
        """The last committed event of each session."""
        self._sessions: set[str] = set()
        """Sessions of this machine. Only their deltas are published."""
        self._deletes_sent: set[str] = set()
        self._uncommitted: asyncio.Queue[_Batch] = asyncio.Queue(_MAX_BATCHES)
        self._uncommitted_bytes = 0
        self._committed = asyncio.Event()
        self._invalid_entries = 0
        """Entries that were replaced since the last report in the log."""
        self._next_report = 0.0
        self._problem = ""

    async def send_welcome(self, connected: ConnectedMachine, reported: Mapping[str, int]) -> None:
        """Tell the runner what the hub has stored. From now on the runner accepts calls.

        The states of sessions that are behind follow in parts of bounded size.
        """
        self._sessions.update(connected.stored_seqs)
        self._stored_seq.update(connected.stored_seqs)
        welcome = Welcome(
            acked=connected.stored_seqs,
            deleted=connected.deleted,
            foreign=connected.unknown,
            lease=connected.lease,
            items=connected.items,
        )
        behind = connected.behind
        while behind:
            page = await self._store.read_known_sessions(self._namespace, behind)
            behind = page.rest
            restored = [one for one in page.sessions if one.state.seq > reported.get(one.spec.id, -1)]
            welcome = replace(welcome, restored=restored, more=bool(behind))
            if behind:
                await self._receiver.watched(self._send(welcome))
                welcome = Welcome(acked={})
        await self._receiver.watched(self._send(welcome))
        self.ready = True
        self._welcomed.set()

    async def run(self) -> None:
        """Serve the runner until the connection ends. Raises LinkClosed, or what made it fail."""
        tasks = [
            asyncio.create_task(work)
            for work in (
                self._receive(),
                self._receiver.watch(),
                self._acknowledge(),
                self._check_deadlines(),
            )
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
        """Fail the pending calls with MachineOffline and close the transport. Idempotent."""
        _logger.debug("machine %s: closing the link: %s", self._machine_id, reason)
        self.ready = False
        self._welcomed.set()
        for call in self._calls.values():
            if not call.result.done():
                call.result.set_exception(MachineOffline())
        await self._transport.close()

    # Hub to runner.

    async def call(self, session_id: str, command: Command, timeout: float) -> Reply:
        """Return the runner's reply, once the events that the command caused are committed.

        The timeout begins when the command was sent, and does not count while the reply, or what it waits for, arrives.
        Raises MachineOffline if the connection is not ready or ends, and Unavailable (`timeout`) if no reply arrives.
        """
        if not self.ready:
            # Clients may see the machine as active a moment before it has its welcome.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._welcomed.wait(), timeout)
        if not self.ready:
            raise MachineOffline
        if isinstance(command, Delete):
            self._sessions.discard(session_id)
            self._deletes_sent.add(session_id)
        id = next(self._call_ids)
        call = self._calls[id] = _PendingCall(session_id, self._loop.create_future())
        try:
            await self._send(Call(id=id, session=session_id, command=command))
            reply = await self._reply(id, call, timeout)
        except LinkClosed:
            raise MachineOffline from None
        finally:
            del self._calls[id]
        if isinstance(command, Create) and reply.error is None:
            self._sessions.add(session_id)
        return reply

    def offer(self, session_id: str, item: QueueItem, timeout: float) -> asyncio.Future[Reply]:
        """Send a person's message, after the earlier ones of its session. Returns the runner's reply, as `call` does.

        There may be thousands in a second, so a short one needs neither a task nor a timer.
        """
        id = next(self._call_ids)
        result: asyncio.Future[Reply] = self._loop.create_future()
        result.add_done_callback(lambda _: self._calls.pop(id, None))
        call = self._calls[id] = _PendingCall(session_id, result, timeout=timeout)
        message = Call(id=id, session=session_id, command=Send(item=item))
        is_short = not item.attachments and len(item.text) <= _SHORT_TEXT
        if not self.ready:
            result.set_exception(MachineOffline())
        elif is_short and session_id not in self._orders and self._transport.send_soon(message):
            call.deadline = self._loop.time() + timeout
        else:
            order = self._orders.setdefault(session_id, _Order(asyncio.Lock()))
            order.tasks.add(self._loop.create_task(self._send_in_order(message, call, order)))
        return result

    async def _send_in_order(self, message: Call, call: _PendingCall, order: _Order) -> None:
        """Send a person's message after the earlier ones of the session: a short one would overtake a long one."""
        try:
            async with order.lock:
                await self._send(message)
            call.deadline = self._loop.time() + call.timeout
        except Exception as error:  # noqa: BLE001
            if not call.result.done():
                call.result.set_exception(MachineOffline() if isinstance(error, LinkClosed) else error)
        finally:
            task = asyncio.current_task()
            assert task is not None
            order.tasks.discard(task)
            if not order.tasks:
                del self._orders[call.session_id]

    async def _check_deadlines(self) -> NoReturn:
        """Let messages fail that were offered and not answered in time, unless something still arrives."""
        while True:
            await asyncio.sleep(_DEADLINE_SECONDS)
            now = self._loop.time()
            for id, call in self._calls.items():
                if call.deadline <= now and not call.result.done() and not self._is_arriving(id, call):
                    call.result.set_exception(_no_answer(call.timeout))

    def _is_arriving(self, id: int, call: _PendingCall) -> bool:
        """Return whether the reply to a call, or what it waits for, has made progress lately."""
        awaited = id if call.reply is None else None
        return self._transport.is_arriving(awaited, self._loop.time() - self._idle_timeout)

    async def report_claim(self, host: str) -> None:
        """Tell the runner that another one with its identity was refused."""
        if self.ready and self.protocol >= 3:
            await self._send(IdentityClaimed(host=host))

    async def _reply(self, id: int, call: _PendingCall, timeout: float) -> Reply:
        while True:
            try:
                async with asyncio.timeout(timeout):
                    return await call.result
            except TimeoutError:
                if not self._is_arriving(id, call):
                    raise _no_answer(timeout) from None
            if not self.ready:
                raise MachineOffline
            call.result = self._loop.create_future()  # the timeout has cancelled the other one
            self._complete(call)

    async def _send(self, message: ToRunner) -> None:
        """Send a message. A runner that reads nothing within the idle timeout is disconnected, see `run`."""
        await self._transport.send(message)

    # Runner to hub.

    async def _receive(self) -> None:
        while True:
            message = await self._receiver.receive()
            match message:
                case Events():
                    await self._store_events(message)
                case Deltas():
                    self._publish_deltas(message)
                case Reply():
                    call = self._calls.get(message.id)
                    if call is not None:
                        call.reply = bounded_reply(message, call.session_id)
                        self._complete(call)
                case Ping():
                    await self._send(Pong())
                    await self._record_problem(message.problem)
                    await self._record_models(message.models)
                case Goodbye():
                    self.released = True
                    raise LinkClosed("the runner has ended")
                case UnknownMessage() | Unsupported():
                    await self._handle_unknown(message)
                case Hello() | Proof():
                    raise LinkClosed("the runner began a second handshake")

    async def _record_problem(self, problem: str) -> None:
        """Show what the runner says keeps it from working, when that changes."""
        if problem == self._problem:
            return
        self._problem = problem
        text = clean_line(problem, _MAX_PROBLEM)
        _logger.warning("machine %s: %s", self._machine_id, text or "it works again")
        try:
            await self._store.set_machine_problem(self._namespace, self._machine_id, text or None)
        except FarsteerError as error:
            _logger.warning("machine %s: its problem was not stored: %s", self._machine_id, error)

    async def _record_models(self, models: AgentModels) -> None:
        """Show the models that agents of the machine have listed since it connected."""
        if not models:
            return
        try:
            await self._store.set_agent_models(self._namespace, self._machine_id, bounded_models(models))
        except FarsteerError as error:
            _logger.warning("machine %s: its models were not stored: %s", self._machine_id, error)

    async def _handle_unknown(self, message: UnknownMessage | Unsupported) -> None:
        """One end is newer than the other. The link goes on without what only one of them knows."""
        if not self._has_unknown:
            self._has_unknown = True
            who = "the hub" if isinstance(message, UnknownMessage) else "the runner"
            _logger.warning("machine %s: %s does not know message %r", self._machine_id, who, message.kind)
        if isinstance(message, UnknownMessage) and self.protocol >= 3:
            await self._send(Unsupported(kind=message.kind))

    async def _store_events(self, message: Events) -> None:
        """Hand a batch to the store. Waits while too much is uncommitted, which stops reading from the runner."""
        session_id = message.session
        if session_id not in self._sessions and not is_uuid(session_id):
            raise LinkClosed("the runner sent events of a session whose id is not a UUID")
        entries = await self._checked(session_id, message.entries)
        appended = await self._store.append_entries(
            self._namespace,
            self._machine_id,
            session_id,
            entries,
            None if message.state is None else bounded_state(message.state),
            link_id=self.id,
            keeps_commands=message.keeps_commands,
        )
        size = sum(len(entry.body) for entry in entries)
        self._uncommitted_bytes += size
        await self._uncommitted.put(_Batch(session_id, size, appended))
        while self._uncommitted_bytes > _MAX_BYTES:
            self._committed.clear()
            await self._committed.wait()

    async def _checked(self, session_id: str, entries: list[EncodedEntry]) -> list[EncodedEntry]:
        """Return the entries as they may be stored. Other tasks run while many or long ones are checked."""
        checked: list[EncodedEntry] = []
        start = size = 0
        for end, entry in enumerate(entries, 1):
            size += len(entry.body)
            if size < _CHECKED_BYTES and end < len(entries):
                continue
            result = check_entries(session_id, entries[start:end], now_ms())
            if result.faults:
                self._report_invalid(session_id, result.faults)
            checked += result.entries
            start, size = end, 0
            if end < len(entries):
                await asyncio.sleep(0)
        return checked

    def _report_invalid(self, session_id: str, faults: Sequence[str]) -> None:
        """Log that entries were replaced, at most once a minute."""
        self._invalid_entries += len(faults)
        now = time.monotonic()
        if now < self._next_report:
            return
        self._next_report = now + _REPORT_SECONDS
        _logger.warning(
            "machine %s: %d entries that are not valid were replaced by notices; in session %s: %s",
            self._machine_id, self._invalid_entries, session_id, faults[0],
        )  # fmt: skip
        self._invalid_entries = 0

    def _publish_deltas(self, message: Deltas) -> None:
        """Publish deltas at once, before the events sent earlier are committed. Ignores sessions of other machines."""
        session_id = message.session
        if session_id not in self._sessions:
            return
        deltas = check_deltas(message.deltas)
        self._metrics.deltas += len(deltas)
        self._feed.publish(
            [
                sync_event(
                    self._namespace, "message-delta", session_id, encode(delta),
                    merge_key=f"{session_id}:{delta.message_id}",
                )
                for delta in deltas
            ]
        )  # fmt: skip

    async def _acknowledge(self) -> None:
        """Send acknowledgements for committed batches, one per session for all batches of a commit."""
        while True:
            acks: dict[str, int] = {}
            await self._finish_batch(await self._uncommitted.get(), acks)
            while not self._uncommitted.empty():
                batch = self._uncommitted.get_nowait()
                if not batch.appended.done():
                    await self._send_acks(acks)
                await self._finish_batch(batch, acks)
            await self._send_acks(acks)

    async def _finish_batch(self, batch: _Batch, acks: dict[str, int]) -> None:
        """Wait for the commit of a batch, note its acknowledgement and complete the calls that waited for it."""
        session_id, result = batch.session_id, await batch.appended
        self._uncommitted_bytes -= batch.size
        self._committed.set()
        if result.status is AppendStatus.STALE_LINK:
            raise LinkClosed("the machine has a newer connection")
        if result.status is AppendStatus.GAP:
            raise LinkClosed(f"session {session_id}: events are missing after {result.last_seq}")
        if result.status is AppendStatus.STORED:
            self._sessions.add(session_id)
            self._metrics.events_stored += result.stored
            acks[session_id] = self._stored_seq[session_id] = result.last_seq
            self._complete_calls(session_id)
            return
        self._sessions.discard(session_id)
        # Nothing more of this session will be stored, so its calls wait for no commit.
        if result.status is AppendStatus.DELETED or self._has_calls(session_id):
            self._stored_seq[session_id] = sys.maxsize
            self._complete_calls(session_id)
        if result.status is AppendStatus.DELETED and session_id not in self._deletes_sent:
            self._deletes_sent.add(session_id)
            _logger.info(
                "machine %s: deleting session %s, which was deleted on the hub", self._machine_id, session_id
            )
            await self._send(Call(id=next(self._call_ids), session=session_id, command=Delete()))

    async def _send_acks(self, acks: dict[str, int]) -> None:
        for session_id, seq in acks.items():
            await self._send(Ack(session=session_id, seq=seq))
        acks.clear()

    def _has_calls(self, session_id: str) -> bool:
        return any(call.session_id == session_id for call in self._calls.values())

    def _complete_calls(self, session_id: str) -> None:
        for call in self._replied.pop(session_id, ()):
            self._complete(call)

    def _complete(self, call: _PendingCall) -> None:
        """Return the reply to the caller if its events are committed, so that the caller can read what it changed."""
        reply = call.reply
        if reply is None or call.result.done():
            return
        if reply.seq <= self._stored_seq.get(call.session_id, 0):
            call.result.set_result(reply)
        else:
            self._replied.setdefault(call.session_id, []).append(call)


def _no_answer(seconds: float) -> Unavailable:
    return Unavailable(f"the machine did not answer within {seconds:g} s", code=ErrorCode.TIMEOUT)
