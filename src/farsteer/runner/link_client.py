"""The runner's end of the link: sends what is committed, confirms what the hub has, and takes the hub's calls."""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable

import msgspec

from farsteer.core.capabilities import MachineInfo
from farsteer.core.errors import FarsteerError, Unauthorized
from farsteer.core.events import Entry, Notice, role_of
from farsteer.core.wire import encode
from farsteer.link.messages import (
    IDLE_TIMEOUT_SECONDS,
    PING_SECONDS,
    Ack,
    Call,
    Deltas,
    EncodedEntry,
    Events,
    Hello,
    Ping,
    Refused,
    Reply,
    ToHub,
    ToRunner,
    Welcome,
)
from farsteer.link.transport import IdleTimeoutReceiver, LinkClosed, Transport
from farsteer.runner.journal import Journal
from farsteer.runner.outbox import Outbox, SessionOutbox

_log = logging.getLogger(__name__)

_FIRST_DELAY = 0.2
_LONGEST_DELAY = 30.0
_CONFIRM_SECONDS = 0.25

LinkTransport = Transport[ToHub, ToRunner]
Connect = Callable[[], Awaitable[LinkTransport]]
Handler = Callable[[Call], Awaitable[Reply]]
Welcomed = Callable[[Welcome], Awaitable[None]]


class LinkClient:
    def __init__(self, journal: Journal, lanes: Outbox, handle: Handler, welcomed: Welcomed) -> None:
        self._journal = journal
        self._lanes = lanes
        self._handle = handle
        self._welcomed = welcomed
        self._confirmed: dict[str, int] = {}
        self._acked = asyncio.Event()
        self.connected = asyncio.Event()
        """Set while a hub has welcomed us."""

    async def run(self, connect: Connect, machine: MachineInfo) -> None:
        """Keep a link to the hub until cancelled; a lost one comes back with growing, jittered pauses."""
        delay = _FIRST_DELAY
        while True:
            try:
                transport = await connect()
                delay = await self._live(transport, machine, delay)
            except (LinkClosed, OSError, FarsteerError) as error:
                _log.warning(
                    "no link to the hub (%s); next try in %.1f s", error or type(error).__name__, delay
                )
                if isinstance(error, Unauthorized):
                    delay = _LONGEST_DELAY
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311
            delay = min(delay * 2, _LONGEST_DELAY)

    async def _live(self, transport: LinkTransport, machine: MachineInfo, delay: float) -> float:
        """One life of the link. Returns the pause before the next."""
        ear = IdleTimeoutReceiver(transport, IDLE_TIMEOUT_SECONDS)
        try:
            await transport.send(Hello(machine=machine, sessions=self._lanes.last_seqs()))
            welcome = await ear.receive_first()
            if isinstance(welcome, Refused):
                _log.error("the hub refuses this machine: %s", welcome.reason)
                return _LONGEST_DELAY
            if not isinstance(welcome, Welcome):
                raise LinkClosed(f"expected a welcome, got {type(welcome).__name__}")
            await self._welcomed(welcome)
            await self._journal.confirm(welcome.acked)
            self._lanes.open(welcome.acked, welcome.foreign)
            self.connected.set()
            delay = _FIRST_DELAY
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._send(transport))
                tasks.create_task(self._ping(transport))
                tasks.create_task(self._confirm())
                tasks.create_task(ear.watch())
                await self._receive_all(ear, transport, tasks)
        except* (LinkClosed, OSError, sqlite3.Error, FarsteerError) as group:
            _log.warning("the link to the hub is down: %s", group.exceptions[0] or "closed")
        finally:
            self.connected.clear()
            self._lanes.close()
            await transport.close()
        return delay

    async def _receive_all(
        self, ear: IdleTimeoutReceiver[ToRunner], transport: LinkTransport, tasks: asyncio.TaskGroup
    ) -> None:
        while True:
            message = await ear.receive()
            match message:
                case Ack():
                    self._lanes.confirmed(message.session, message.seq)
                    self._confirmed[message.session] = message.seq
                    self._acked.set()
                case Call():
                    tasks.create_task(self._reply(transport, message))
                case Refused():
                    raise LinkClosed(message.reason)
                case _:
                    pass

    async def _reply(self, transport: LinkTransport, call: Call) -> None:
        await transport.send(await self._handle(call))

    async def _send(self, transport: LinkTransport) -> None:
        while True:
            lane = await self._lanes.next()
            await self._send_lane(transport, lane)
            self._lanes.again(lane)

    async def _send_lane(self, transport: LinkTransport, lane: SessionOutbox) -> None:
        session = lane.state.id
        deltas = lane.take_deltas()
        if deltas:
            await transport.send(Deltas(session=session, deltas=deltas))
        if lane.sent >= lane.state.seq and not lane.state_due:
            return
        items = lane.take_buffer()
        if not items and lane.sent < lane.state.seq:
            await lane.source.save()
            last = lane.state.seq
            items = filled(session, lane.sent, last, await self._journal.outbox(session, lane.sent))
        last = items[-1].seq if items else lane.sent
        state = None
        if lane.state_due and last == lane.state.seq:
            state, lane.state_due = lane.state, False
        lane.sent = last
        await transport.send(Events(session=session, entries=items, state=state))

    async def _ping(self, transport: LinkTransport) -> None:
        while True:
            await asyncio.sleep(PING_SECONDS)
            await transport.send(Ping())

    async def _confirm(self) -> None:
        while True:
            await self._acked.wait()
            # What is confirmed may be forgotten late: one commit for many, off the path of the next message.
            await asyncio.sleep(_CONFIRM_SECONDS)
            self._acked.clear()
            confirmed, self._confirmed = self._confirmed, {}
            await self._journal.confirm(confirmed)


_MOST = 1000
_LOST = Notice(text="An entry is lost here: the hub was set back.", level="warning", code="entry_lost")
_log = logging.getLogger(__name__)


def filled(session: str, sent: int, last: int, items: list[EncodedEntry]) -> list[EncodedEntry]:
    """`items`, or if they do not continue `sent`, what stands for the missing ones; `last` is the log's end."""
    first = items[0].seq if items else last + 1
    missing = range(sent + 1, min(first, sent + 1 + _MOST))
    if not missing:
        return items
    _log.error("session %s: the hub lacks entries %d to %d, and so do we", session, sent + 1, first - 1)
    now = time.time_ns() // 1_000_000
    return [_item(session, seq, now) for seq in missing]


def _item(session: str, seq: int, now: int) -> EncodedEntry:
    entry = Entry(id=f"{session}:{seq}", seq=seq, role=role_of(_LOST), created_at=now, content=_LOST)
    return EncodedEntry(seq, str(Notice.__struct_config__.tag), msgspec.Raw(encode(entry)))
