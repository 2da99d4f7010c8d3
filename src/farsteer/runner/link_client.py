"""The runner's end of the link to the hub: sends what is committed, deletes what is confirmed, answers calls."""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Protocol

from farsteer.core.capabilities import MachineInfo
from farsteer.core.clock import now_ms
from farsteer.core.errors import FarsteerError, Unauthorized
from farsteer.core.events import Notice, make_entry
from farsteer.link.identity import MachineKey
from farsteer.link.messages import (
    IDLE_TIMEOUT_SECONDS,
    PING_SECONDS,
    PROTOCOL,
    Ack,
    Call,
    Challenge,
    Deltas,
    EncodedEntry,
    Events,
    Hello,
    Ping,
    Proof,
    Refused,
    Reply,
    ToHub,
    ToRunner,
    Welcome,
    encode_entry,
)
from farsteer.link.transport import IdleTimeoutReceiver, LinkClosed, Transport
from farsteer.runner.journal import Journal
from farsteer.runner.outbox import Outbox, SessionOutbox

_logger = logging.getLogger(__name__)

_FIRST_DELAY = 0.2
_LONGEST_DELAY = 30.0
_CONFIRM_SECONDS = 0.25
_MAX_FILLED = 1000
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


class LinkClient:
    """Keeps the link. What the hub has not confirmed is sent again over the next one."""

    def __init__(self, journal: Journal, outbox: Outbox, handler: LinkHandler) -> None:
        self._journal = journal
        self._outbox = outbox
        self._handler = handler
        self._confirmed: dict[str, int] = {}
        self._acked = asyncio.Event()
        self.connected = asyncio.Event()
        """Set while a hub has accepted this machine."""

    async def run(self, connect: Connect, machine: MachineInfo, key: MachineKey) -> None:
        """Keep a link to the hub until cancelled. Reconnects with growing, jittered delays."""
        delay = _FIRST_DELAY
        while True:
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
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311
            delay = min(delay * 2, _LONGEST_DELAY)

    async def _serve(
        self, transport: LinkTransport, machine: MachineInfo, key: MachineKey, delay: float
    ) -> float:
        """Use one link until it is closed. Returns the delay before the next one."""
        receiver = IdleTimeoutReceiver(transport, IDLE_TIMEOUT_SECONDS)
        try:
            welcome = await self._shake_hands(transport, receiver, machine, key)
            if welcome is None:
                return _LONGEST_DELAY
            await self._handler.handle_welcome(welcome)
            await self._journal.confirm(welcome.acked)
            self._outbox.open(welcome.acked, welcome.foreign)
            self.connected.set()
            delay = _FIRST_DELAY
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._send_outbox(transport))
                tasks.create_task(self._send_pings(transport))
                tasks.create_task(self._delete_confirmed())
                tasks.create_task(receiver.watch())
                await self._receive(receiver, transport, tasks)
        except* (LinkClosed, OSError, sqlite3.Error, FarsteerError) as group:
            _logger.warning("the link to the hub is down: %s", group.exceptions[0] or "closed")
        finally:
            self.connected.clear()
            self._outbox.close()
            await transport.close()
        return delay

    async def _shake_hands(
        self,
        transport: LinkTransport,
        receiver: IdleTimeoutReceiver[ToRunner],
        machine: MachineInfo,
        key: MachineKey,
    ) -> Welcome | None:
        """Prove to the hub which machine this is. Returns None if the hub refuses it."""
        sessions = self._outbox.last_seqs()
        await transport.send(Hello(machine=machine, sessions=sessions, key=key.public, protocol=PROTOCOL))
        answer = await receiver.receive_first()
        if isinstance(answer, Challenge):
            signature = key.sign(answer.nonce, machine.id, transport.token_digest)
            await transport.send(Proof(signature=signature))
            answer = await receiver.receive_first()
            if isinstance(answer, Welcome):
                return answer
        if isinstance(answer, Refused):
            _logger.error("the hub refuses this machine: %s", answer.reason)
            return None
        raise LinkClosed(f"the hub answered with {type(answer).__name__} in the handshake")

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
                case Call():
                    tasks.create_task(self._answer(transport, message))
                case Refused():
                    raise LinkClosed(message.reason)
                case _:
                    pass

    async def _answer(self, transport: LinkTransport, call: Call) -> None:
        await transport.send(await self._handler.handle(call))

    async def _send_outbox(self, transport: LinkTransport) -> None:
        while True:
            session = await self._outbox.next()
            await self._send_session(transport, session)
            self._outbox.requeue(session)

    async def _send_session(self, transport: LinkTransport, session: SessionOutbox) -> None:
        """Send the session's deltas and its next entries. The state goes along with its last entry."""
        id = session.state.id
        deltas = session.pop_deltas()
        if deltas:
            await transport.send(Deltas(session=id, deltas=deltas))
        if session.sent >= session.state.seq and not session.state_due:
            return
        entries = session.pop_buffer()
        if not entries and session.sent < session.state.seq:
            await session.source.save()
            last = session.state.seq
            stored = await self._journal.unconfirmed(id, session.sent)
            entries = fill_gap(id, session.sent, last, stored)
        last = entries[-1].seq if entries else session.sent
        state = None
        if session.state_due and last == session.state.seq:
            state, session.state_due = session.state, False
        session.sent = last
        await transport.send(Events(session=id, entries=entries, state=state))

    async def _send_pings(self, transport: LinkTransport) -> None:
        while True:
            await asyncio.sleep(PING_SECONDS)
            await transport.send(Ping())

    async def _delete_confirmed(self) -> None:
        while True:
            await self._acked.wait()
            # Deleting may come late: one commit for many acknowledgements, and none in the way of the next message.
            await asyncio.sleep(_CONFIRM_SECONDS)
            self._acked.clear()
            confirmed, self._confirmed = self._confirmed, {}
            await self._journal.confirm(confirmed)


def fill_gap(session: str, sent: int, last: int, entries: list[EncodedEntry]) -> list[EncodedEntry]:
    """Return `entries` if they continue `sent`; otherwise a notice for each entry that is missing before them.

    A hub that was restored from a backup lacks entries that it had confirmed and the journal has deleted. A log has no
    gaps, so each of them is replaced by an `entry_lost` notice; the hub would not accept any later entry otherwise.

    Args:
        session: The session's id.
        sent: The last entry that the hub has.
        last: The end of the log.
        entries: What the journal has after `sent`.
    """
    first = entries[0].seq if entries else last + 1
    missing = range(sent + 1, min(first, sent + 1 + _MAX_FILLED))
    if not missing:
        return entries
    _logger.error("session %s: neither hub nor runner has entries %d to %d", session, sent + 1, first - 1)
    now = now_ms()
    return [encode_entry(make_entry(session, seq, _ENTRY_LOST, now)) for seq in missing]
