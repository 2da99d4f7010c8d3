"""The hub's side of the link: one `RunnerLink` for each connected runner."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Awaitable, Callable

from msgspec import Struct

from farsteer.core.commands import Command, Create, Delete
from farsteer.core.errors import ErrorCode, Forbidden, MachineOffline, Unavailable
from farsteer.core.ids import is_uuid
from farsteer.core.wire import encode
from farsteer.hub.feed import Feed, sync_event
from farsteer.hub.machines import Machines
from farsteer.hub.metrics import Metrics
from farsteer.hub.store.base import Appended, Connected, Store
from farsteer.hub.tasks import Tasks
from farsteer.link.messages import (
    PROTOCOL,
    SILENCE_SECONDS,
    Ack,
    Call,
    Deltas,
    Events,
    Hello,
    Item,
    Ping,
    Pong,
    Refused,
    Reply,
    ToHub,
    ToRunner,
    Welcome,
)
from farsteer.link.transport import LinkClosed, Transport

_log = logging.getLogger(__name__)

_MAX_FRAMES = 256
_MAX_BYTES = 32 * 1024 * 1024
"""What is taken from a runner and not yet committed; beyond that we read no more from it."""

LinkTransport = Transport[ToRunner, ToHub]


class _Batch(Struct, frozen=True):
    """Events on their way to the disk."""

    session: str
    size: int
    appended: asyncio.Future[Appended]


class RunnerLink:
    """One link: takes events to the store and deltas to the feed, and carries calls to the runner."""

    def __init__(
        self, transport: LinkTransport, namespace: str, hello: Hello, store: Store, feed: Feed, metrics: Metrics,
        silence: float,
    ) -> None:  # fmt: skip
        self.number = secrets.randbits(62) + 1
        self._transport = transport
        self._namespace = namespace
        self._machine_id = hello.machine.id
        self._store = store
        self._feed = feed
        self._metrics = metrics
        self._silence = silence
        self._sending = asyncio.Lock()
        self._calls: dict[int, asyncio.Future[Reply]] = {}
        self._ids = itertools.count(1)
        self.welcomed = False
        self._ours: set[str] = set()
        """Sessions whose fragments are passed on."""
        self._ended: set[str] = set()
        """Sessions the runner was told to end."""
        self._uncommitted: asyncio.Queue[_Batch] = asyncio.Queue(_MAX_FRAMES)
        self._uncommitted_bytes = 0
        self._room = asyncio.Event()

    async def welcome(self, connected: Connected) -> None:
        self._ours.update(connected.acked)
        await self._send(Welcome(acked=connected.acked, unknown=connected.unknown))
        self.welcomed = True

    async def live(self) -> None:
        """Until the link ends, for whatever reason; raises that reason."""
        tasks = [asyncio.create_task(work) for work in (self._receive(), self._acknowledge())]
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
            if not waiting.done():
                waiting.set_exception(MachineOffline())
        await self._transport.close()

    # -- to the runner

    async def call(self, session_id: str, command: Command, timeout: float) -> Reply:
        if not self.welcomed:
            raise MachineOffline
        if isinstance(command, Delete):
            self._ours.discard(session_id)
            self._ended.add(session_id)
        id = next(self._ids)
        answer = self._calls[id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                await self._send(Call(id=id, session=session_id, command=command))
                reply = await answer
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
            message = await receive(self._transport, self._silence)
            match message:
                case Events():
                    await self._take_in(message)
                case Deltas():
                    self._pass_on(message)
                case Reply():
                    waiting = self._calls.get(message.id)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(message)
                case Ping():
                    await self._send(Pong())
                case Hello():
                    raise LinkClosed("the runner said hello twice")

    async def _take_in(self, message: Events) -> None:
        """Hand a batch to the store and read on, unless too much is on its way already."""
        _check_text(message.items)
        appended = await self._store.append(
            self._namespace, self._machine_id, message.session, message.items, message.state
        )
        size = sum(len(item.body) for item in message.items)
        self._uncommitted_bytes += size
        await self._uncommitted.put(_Batch(message.session, size, appended))
        while self._uncommitted_bytes > _MAX_BYTES:
            self._room.clear()
            await self._room.wait()

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
        if appended.gap:
            raise LinkClosed(f"session {session}: events are missing after {appended.held}")
        if appended.known:
            self._ours.add(session)
            self._metrics.events_stored += appended.stored
            acks[session] = appended.held
            return
        self._ours.discard(session)
        if session not in self._ended:
            self._ended.add(session)
            _log.info("machine %s: session %s is not known here; ending it", self._machine_id, session)
            await self._send(Call(id=next(self._ids), session=session, command=Delete()))

    async def _send_acks(self, acks: dict[str, int]) -> None:
        for session, seq in acks.items():
            await self._send(Ack(session=session, seq=seq))
        acks.clear()


def _check_text(items: list[Item]) -> None:
    """Entries are passed on as they are; one that is no UTF-8 would cut off everybody who listens."""
    try:
        for item in items:
            str(item.body, "utf-8")
    except UnicodeDecodeError:
        raise LinkClosed("an event is not UTF-8") from None


async def receive(transport: LinkTransport, silence: float) -> ToHub:
    try:
        async with asyncio.timeout(silence):
            return await transport.receive()
    except TimeoutError:
        raise LinkClosed(f"silent for {silence:g} s") from None


class LinkServer:
    """Serves every runner that connects."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        machines: Machines,
        metrics: Metrics,
        tasks: Tasks,
        on_revoke: Callable[[Callable[[str], None]], object],
        on_connect: Callable[[str, str], Awaitable[None]],
        silence: float = SILENCE_SECONDS,
    ) -> None:
        self._store = store
        self._feed = feed
        self._machines = machines
        self._metrics = metrics
        self._tasks = tasks
        self._on_connect = on_connect
        self._silence = silence
        self._serving: dict[asyncio.Task[None], str | None] = {}
        self._closing = False
        on_revoke(self._revoked)

    async def serve(self, transport: LinkTransport, namespace: str, *, token_id: str | None = None) -> None:
        """One runner's life here; returns when its link ended. `token_id`: end it when that token is revoked."""
        # A task of ours, so that a face that is cancelled leaves no half-ended machine behind.
        life = self._tasks.spawn(self._serve(transport, namespace), "link")
        self._serving[life] = token_id
        life.add_done_callback(lambda ended: self._serving.pop(ended, None))
        try:
            await asyncio.wait([life])
        except asyncio.CancelledError:
            life.cancel()
            raise

    async def close(self) -> None:
        """End all links and refuse new ones."""
        self._closing = True
        lives = [*self._serving]
        for life in lives:
            life.cancel()
        if lives:
            await asyncio.wait(lives)

    def _revoked(self, token_id: str) -> None:
        for life, used in self._serving.items():
            if used == token_id:
                _log.info("a link ends: its token was revoked")
                life.cancel()

    async def _serve(self, transport: LinkTransport, namespace: str) -> None:
        try:
            hello = await self._hello(transport)
            if hello is not None:
                await self._live(transport, namespace, hello)
        except LinkClosed as closed:
            _log.info("a link ended: %s", closed)
        except Exception:  # noqa: BLE001
            # A runner that is cut off comes back and sends again what was not acknowledged.
            _log.exception("a link failed")
        finally:
            await transport.close()

    async def _hello(self, transport: LinkTransport) -> Hello | None:
        hello = await receive(transport, self._silence)
        if not isinstance(hello, Hello):
            raise LinkClosed("the runner did not say hello")
        if self._closing:
            raise LinkClosed("the hub is closing")
        if hello.protocol != PROTOCOL:
            reason = f"this hub speaks link protocol {PROTOCOL}, the runner {hello.protocol}"
        elif not is_uuid(hello.machine.id):
            reason = "a machine's id must be a UUID"
        else:
            return hello
        await transport.send(Refused(reason=reason))
        return None

    async def _live(self, transport: LinkTransport, namespace: str, hello: Hello) -> None:
        machine = hello.machine
        link = RunnerLink(transport, namespace, hello, self._store, self._feed, self._metrics, self._silence)
        try:
            connected = await self._machines.connect(link, namespace, machine, hello.sessions)
            await link.welcome(connected)
            _log.info("machine %s (%s) is connected", machine.id, machine.host)
            await self._on_connect(namespace, machine.id)
            await link.live()
        except Forbidden as error:
            await transport.send(Refused(reason=error.message))
        finally:
            ending = self._end(link, namespace, machine.id)
            await asyncio.shield(self._tasks.spawn(ending, f"end of the link of {machine.id}"))

    async def _end(self, link: RunnerLink, namespace: str, machine_id: str) -> None:
        await self._machines.disconnect(link, namespace, machine_id)
        await link.close("it ended")
