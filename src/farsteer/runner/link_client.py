"""The runner's end of the link to the hub: sends what is committed, deletes what is confirmed, answers calls."""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol

from msgspec.structs import replace

from farsteer import __version__
from farsteer.core.capabilities import MachineInfo
from farsteer.core.clock import now_ms
from farsteer.core.errors import ErrorCode, FarsteerError, NotCapable, TooLarge, Unauthorized
from farsteer.core.events import Delta, Notice, make_entry
from farsteer.core.wire import encode
from farsteer.link.identity import MachineKey
from farsteer.link.messages import (
    IDLE_TIMEOUT_SECONDS,
    MAX_FRAME,
    OLDEST_PROTOCOL,
    PING_SECONDS,
    PROTOCOL,
    TRANSFER_PROTOCOL,
    Ack,
    Call,
    Challenge,
    Deltas,
    EncodedEntry,
    Events,
    Goodbye,
    Hello,
    IdentityClaimed,
    Ping,
    Proof,
    Refused,
    Reply,
    ToHub,
    ToRunner,
    UnknownCall,
    UnknownMessage,
    Unsupported,
    Welcome,
    encode_entry,
)
from farsteer.link.transfers import UnfinishedTransfers
from farsteer.link.transport import LARGEST_BATCH, IdleTimeoutReceiver, LinkClosed, Transport
from farsteer.runner.journal import Journal
from farsteer.runner.lease import RunnerLease
from farsteer.runner.outbox import Outbox, SessionOutbox

_logger = logging.getLogger(__name__)

_FIRST_DELAY = 0.2
_LONGEST_DELAY = 30.0
_CONFIRM_SECONDS = 0.25
_RETRY_SECONDS = 5.0
_END_SECONDS = 3.0
_MAX_FILLED = 1000
_SLOWEST_LINK = 10_000
"""Bytes per second that a link has at least. A hub answers a long `Hello` when it has arrived."""
_ENTRY_LOST = Notice(
    text="An entry was lost here: the hub was set back to an earlier state.",
    level="warning",
    code="entry_lost",
)

LinkTransport = Transport[ToHub, ToRunner]
Connect = Callable[[], Awaitable[LinkTransport]]


class LinkHandler(Protocol):
    """What a link client passes to its owner, the runner."""

    async def handle(self, call: Call) -> Reply:
        """Answer a call of the hub. Never raises."""
        ...

    async def handle_welcome(self, welcome: Welcome) -> None:
        """Bring the sessions in line with what the hub holds, before anything is sent."""
        ...

    def models(self) -> dict[str, tuple[str, ...]]:
        """Return the models of each agent, as far as they are known now."""
        ...


class LinkClient:
    """Keeps the link. What the hub has not confirmed is sent again over the next one."""

    def __init__(
        self, journal: Journal, outbox: Outbox, handler: LinkHandler, lease: RunnerLease | None = None
    ) -> None:
        self._journal = journal
        self._outbox = outbox
        self._handler = handler
        self._lease = lease or RunnerLease()
        self._protocol = OLDEST_PROTOCOL
        """The protocol of the current link."""
        self._told_models: dict[str, tuple[str, ...]] = {}
        """What the hub knows of the models of agents."""
        self._ending = False
        self._down = asyncio.Event()
        """Set while there is no link."""
        self._down.set()
        self._confirmed: dict[str, int] = {}
        self._acked = asyncio.Event()
        self._unfinished = UnfinishedTransfers(max_bytes=MAX_FRAME)
        self.connected = asyncio.Event()
        """Set while a hub has accepted this machine."""

    async def run(self, connect: Connect, machine: MachineInfo, key: MachineKey) -> None:
        """Keep a link to the hub until cancelled or ended. Reconnects with growing, jittered delays."""
        delay = _FIRST_DELAY
        while not self._ending:
            try:
                transport = await connect()
                delay = await self._serve(transport, machine, key, delay)
            except (LinkClosed, OSError, FarsteerError) as error:
                _logger.warning(
                    "cannot connect to the hub (%s); next attempt in %.1f s",
                    error or type(error).__name__,
                    delay,
                )
                if isinstance(error, Unauthorized):
                    delay = _LONGEST_DELAY
            except Exception:
                # A lack of memory, for example. The next link begins with what the hub has.
                _logger.exception("the link to the hub failed; next attempt in %.1f s", delay)
            if _is_being_cancelled():
                # A task group that ends with an error at that moment does not pass it on.
                raise asyncio.CancelledError
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311
            delay = min(delay * 2, _LONGEST_DELAY)

    def begin_end(self) -> None:
        """The runner ends: calls are not answered any more, as if the link was down. The hub repeats them later."""
        self._ending = True

    async def end(self) -> None:
        """Send what is left and tell the hub that this runner ends. Takes a bounded time."""
        self._outbox.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await self._down.wait()

    async def _serve(
        self, transport: LinkTransport, machine: MachineInfo, key: MachineKey, delay: float
    ) -> float:
        """Use one link until it is closed. Returns the delay before the next one."""
        receiver = IdleTimeoutReceiver(transport, IDLE_TIMEOUT_SECONDS)
        try:
            welcome = await self._shake_hands(transport, receiver, machine, key)
            if isinstance(welcome, Refused):
                return await self._handle_refusal(welcome)
            await self._handler.handle_welcome(welcome)
            self._confirm_later(welcome.acked)
            self._outbox.open(welcome.acked, welcome.foreign)
            self.connected.set()
            self._down.clear()
            delay = _FIRST_DELAY
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._send_outbox(transport, tasks))
                tasks.create_task(self._send_pings(transport))
                tasks.create_task(self._delete_confirmed())
                tasks.create_task(receiver.watch())
                await self._receive(receiver, transport, tasks)
        except* (LinkClosed, OSError, sqlite3.Error, FarsteerError) as group:
            if not self._ending:
                _logger.warning("the link to the hub is down: %s", group.exceptions[0] or "closed")
        finally:
            self.connected.clear()
            self._down.set()
            self._outbox.close()
            await transport.close()
        return delay

    async def _shake_hands(
        self,
        transport: LinkTransport,
        receiver: IdleTimeoutReceiver[ToRunner],
        machine: MachineInfo,
        key: MachineKey,
    ) -> Welcome | Refused:
        """Prove to the hub which machine this is. Returns what the hub says to it."""
        lease = self._lease
        self._told_models = self._handler.models()
        known = {agent.name: agent.models for agent in machine.agents} | self._told_models
        agents = tuple(replace(agent, models=known[agent.name]) for agent in machine.agents)
        machine = replace(machine, agents=agents)
        hello = Hello(
            machine=machine, sessions=self._outbox.last_seqs(), key=key.public, protocol=OLDEST_PROTOCOL,
            newest=PROTOCOL, confirmed=self._outbox.confirmed_seqs(), held=self._outbox.held_items(),
            instance=lease.instance, place=lease.place, boot=lease.boot, lease=lease.generation,
        )  # fmt: skip
        await transport.send(hello)
        answer = await receiver.receive_first(extra=len(encode(hello)) / _SLOWEST_LINK)
        if isinstance(answer, Challenge):
            self._protocol = _checked_protocol(answer)
            signature = key.sign(answer, machine.id, transport.token_digest)
            await transport.send(Proof(signature=signature))
            if answer.protocol >= TRANSFER_PROTOCOL:
                await transport.start_transfers(self._unfinished, "hub")
            answer = await self._receive_welcome(receiver, transport)
            if isinstance(answer, Welcome):
                return answer
        if isinstance(answer, Refused):
            return answer
        raise LinkClosed(f"the hub answered with {type(answer).__name__} in the handshake")

    async def _handle_refusal(self, refused: Refused) -> float:
        """Returns the delay before the next attempt."""
        if refused.code == ErrorCode.IDENTITY_IN_USE:
            await self._lease.refuse(refused.reason)
        else:
            _logger.error("the hub refuses this machine: %s", refused.reason)
        return min(refused.retry_after, _LONGEST_DELAY) or _LONGEST_DELAY

    async def _receive_welcome(
        self, receiver: IdleTimeoutReceiver[ToRunner], transport: LinkTransport
    ) -> ToRunner:
        """Return the answer to the proof, with all its parts. Pings show the hub that a long one is being received."""
        pings = asyncio.create_task(self._send_pings(transport))
        try:
            answer = await receiver.receive_first()
            while isinstance(answer, Welcome) and answer.more:
                part = await receiver.receive_first()
                if not isinstance(part, Welcome):
                    raise LinkClosed(f"the hub answered with {type(part).__name__} in the handshake")
                answer = replace(answer, restored=[*answer.restored, *part.restored], more=part.more)
            return answer
        finally:
            pings.cancel()
            await asyncio.gather(pings, return_exceptions=True)

    async def _receive(
        self, receiver: IdleTimeoutReceiver[ToRunner], transport: LinkTransport, tasks: asyncio.TaskGroup
    ) -> None:
        while True:
            message = await receiver.receive()
            match message:
                case Ack():
                    self._outbox.confirm(message.session, message.seq)
                    self._confirmed[message.session] = message.seq
                    self._acked.set()
                case Call() | UnknownCall() if self._ending:
                    pass
                case Call():
                    tasks.create_task(self._answer(transport, message))
                case UnknownCall():
                    await transport.send(_unknown_command(message))
                case IdentityClaimed():
                    _logger.warning(
                        "another runner with the identity of this machine, on host %s, was refused by the hub",
                        message.host,
                    )
                case UnknownMessage():
                    _logger.warning("the hub sent an unknown message: %s", message.kind)
                    if self._protocol >= 3:
                        await transport.send(Unsupported(kind=message.kind))
                case Unsupported():
                    _logger.warning("the hub does not know messages %s", message.kind)
                case Refused():
                    raise LinkClosed(message.reason)
                case _:
                    pass

    async def _answer(self, transport: LinkTransport, call: Call) -> None:
        reply = await self._handler.handle(call)
        if self._handler.models() != self._told_models:
            # Before the answer: a client that has it may ask for the models.
            await self._ping(transport)
        try:
            await transport.send(reply)
        except TooLarge as error:
            await transport.send(Reply(id=call.id, error=error.record(), seq=reply.seq))

    async def _send_outbox(self, transport: LinkTransport, tasks: asyncio.TaskGroup) -> None:
        while True:
            session = await self._outbox.next()
            if session is None:
                await self._say_goodbye(transport)
                return
            deltas = session.pop_deltas()
            events = await self._next_events(session, transport.batch_bytes)
            sending = self._send_session(transport, session, deltas, events)
            if transport.batch_bytes == LARGEST_BATCH or _size(deltas, events) <= transport.batch_bytes:
                await sending
            else:
                # The other sessions need not wait for it.
                session.sending = True
                tasks.create_task(sending)

    async def _say_goodbye(self, transport: LinkTransport) -> None:
        """Everything was sent. A hub of protocol 3 closes the link when it has stored that."""
        if self._protocol >= 3:
            await transport.send(Goodbye())
        else:
            await transport.close()

    async def _next_events(self, session: SessionOutbox, max_bytes: int) -> Events | None:
        """Return the session's next entries, or None. The state goes along with its last entry."""
        if session.sent >= session.state.seq and not session.state_due:
            return None
        id = session.state.id
        entries = session.pop_buffer(max_bytes)
        if not entries and session.sent < session.state.seq:
            await session.source.save()
            last = session.state.seq
            stored = await self._journal.unconfirmed(id, session.sent)
            session.refill(fill_gap(id, session.sent, last, stored))
            entries = session.pop_buffer(max_bytes)
        last = entries[-1].seq if entries else session.sent
        state, keeps_commands = None, False
        # A large entry goes alone, so that it is the same message over the next link.
        is_large = len(entries) == 1 and len(entries[0].body) > max_bytes
        if session.state_due and last == session.state.seq and not is_large:
            state, keeps_commands = session.pop_state(may_keep_commands=self._protocol >= 3)
        session.sent = last
        return Events(session=id, entries=entries, state=state, keeps_commands=keeps_commands)

    async def _send_session(
        self,
        transport: LinkTransport,
        session: SessionOutbox,
        deltas: list[Delta],
        events: Events | None,
    ) -> None:
        if deltas:
            await transport.send(Deltas(session=session.state.id, deltas=deltas))
        if events is not None:
            try:
                await transport.send(events)
            except TooLarge as error:
                await transport.send(replace_large_entries(events, error))
                session.repeat_state()
        session.sending = False
        self._outbox.requeue(session)

    async def _send_pings(self, transport: LinkTransport) -> None:
        while True:
            await asyncio.sleep(PING_SECONDS)
            await self._ping(transport)

    async def _ping(self, transport: LinkTransport) -> None:
        models = self._handler.models()
        news = {name: names for name, names in models.items() if self._told_models.get(name) != names}
        self._told_models = models
        await transport.send(Ping(problem=self._journal.problem or "", models=news))

    async def _delete_confirmed(self) -> None:
        while True:
            await self._acked.wait()
            # Deleting may come late: one commit for many acknowledgements, and none in the way of the next message.
            await asyncio.sleep(_CONFIRM_SECONDS)
            self._acked.clear()
            confirmed, self._confirmed = self._confirmed, {}
            try:
                await self._journal.confirm(confirmed)
            except sqlite3.Error as error:
                # A full disk, for example. That is no reason to give up the link.
                _logger.warning("cannot delete what the hub has: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._confirm_later(confirmed)

    def _confirm_later(self, confirmed: Mapping[str, int]) -> None:
        for session, seq in confirmed.items():
            self._confirmed[session] = max(seq, self._confirmed.get(session, 0))
        self._acked.set()


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _checked_protocol(challenge: Challenge) -> int:
    """Raises LinkClosed if the hub has chosen a protocol that this version does not speak."""
    if OLDEST_PROTOCOL <= challenge.protocol <= PROTOCOL:
        return challenge.protocol
    raise LinkClosed(
        f"the hub wants link protocol {challenge.protocol}, but this runner (farsteer {__version__}) speaks"
        f" {OLDEST_PROTOCOL} to {PROTOCOL}: update farsteer on the older one of the two"
    )


def _unknown_command(call: UnknownCall) -> Reply:
    error = NotCapable(
        f"the runner of this machine (farsteer {__version__}) does not understand this: update farsteer there"
        f" ({call.reason})"
    )
    return Reply(id=call.id, error=error.record())


def _size(deltas: list[Delta], events: Events | None) -> int:
    """Return about how many bytes these are on the link."""
    size = sum(len(delta.text) for delta in deltas)
    if events is not None:
        size += sum(len(entry.body) for entry in events.entries)
        size += 0 if events.state is None else len(encode(events.state))
    return size


def replace_large_entries(events: Events, error: TooLarge) -> Events:
    """Return the same with a notice in place of the entries, which a link cannot carry."""
    _logger.error("session %s: an entry is too large for the link: %s", events.session, error)
    now = now_ms()
    return Events(
        session=events.session,
        entries=[
            encode_entry(
                make_entry(
                    events.session,
                    entry.seq,
                    Notice(
                        text=f"An entry of {len(entry.body)} bytes is missing here: {error.message}.",
                        level="warning",
                        code="entry_too_large",
                    ),
                    now,
                )
            )
            for entry in events.entries
        ],
    )


def fill_gap(session: str, sent: int, last: int, entries: list[EncodedEntry]) -> list[EncodedEntry]:
    """Return `entries` with a notice in place of each entry that is missing before or between them.

    A hub that was restored from a backup lacks entries that it had confirmed. The journal has deleted them, or never
    got them: plain output that is confirmed soon is not saved. A log has no gaps, so each of them is replaced by an
    `entry_lost` notice; the hub would not accept any later entry otherwise.

    Args:
        session: The session's id.
        sent: The last entry that the hub has.
        last: The end of the log.
        entries: What the journal has after `sent`.
    """
    end = entries[-1].seq if entries else last
    if len(entries) == end - sent:
        return entries
    end = min(end, sent + len(entries) + _MAX_FILLED)
    known = {entry.seq: entry for entry in entries}
    missing = [seq for seq in range(sent + 1, end + 1) if seq not in known]
    _logger.error(
        "session %s: neither hub nor runner has %d entries between %d and %d",
        session,
        len(missing),
        missing[0],
        end,
    )
    now = now_ms()
    for seq in missing:
        known[seq] = encode_entry(make_entry(session, seq, _ENTRY_LOST, now))
    return [known[seq] for seq in range(sent + 1, end + 1)]
