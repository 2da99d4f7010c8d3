"""A runner whose answers a test scripts, connected to a hub by an in-memory link; and a recorder of the feed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.capabilities import AgentInfo, Capabilities, MachineInfo
from farsteer.core.commands import Command, Create, Send
from farsteer.core.errors import FarsteerError
from farsteer.core.events import SessionEvent, SessionStatus
from farsteer.core.ids import new_id
from farsteer.core.queue import ItemState
from farsteer.hub import Caller, Hub, Scope
from farsteer.hub.auth.caller import ALL_SCOPES
from farsteer.hub.feed import SyncEvent
from farsteer.hub.store.conformance.harness import LogBuilder
from farsteer.link.identity import MachineKey
from farsteer.link.messages import (
    PROTOCOL,
    Ack,
    Call,
    Deltas,
    Events,
    IdentityClaimed,
    LogLine,
    Ping,
    Pong,
    Refused,
    Reply,
    ToHub,
    ToRunner,
    Welcome,
)
from farsteer.link.transport import LinkClosed, MemoryTransport, memory_pair
from tests.support.handshake import key_of, make_hello, shake_hands

DEADLINE = 10.0
CAN = Capabilities(resume=True, rewind=True, fork=True, steer=True)


def caller(namespace: str = "default", *scopes: Scope, **fields: Any) -> Caller:
    return Caller(
        namespace=namespace,
        scopes=frozenset(scopes) or ALL_SCOPES,
        expires_at=2**53,
        **{"token_id": "test", "label": namespace, **fields},
    )


def machine(id: str | None = None, **fields: Any) -> MachineInfo:
    demo = AgentInfo(name="demo", title="Demo", available=True, version="1", capabilities=CAN)
    return MachineInfo(
        id=id or new_id(), host="box", platform="linux", version="0", **{"agents": (demo,), **fields}
    )


class ScriptedRunner:
    """Connects in `async with`. Answers each call with success, unless `answers` has a function for its command."""

    def __init__(
        self,
        hub: Hub,
        namespace: str = "default",
        info: MachineInfo | None = None,
        logs: dict[str, LogBuilder] | None = None,
        protocol: int = PROTOCOL,
        token_id: str | None = None,
        key: MachineKey | None = None,
    ) -> None:
        self.hub = hub
        self.namespace = namespace
        self.info = info or machine()
        self.logs = {} if logs is None else logs
        self.protocol = protocol
        self.token_id = token_id
        self.key = key or key_of(self.info.id)
        self.calls: list[Call] = []
        self.acked: dict[str, int] = {}
        self.pongs = 0
        self.answers: dict[type[Command], Callable[[Call], Reply | None]] = {Create: self._created}
        self.welcome: Welcome | None = None
        self.more: list[Welcome] = []
        """The further parts of the welcome."""
        self.refused: str | None = None
        self.confirms_messages = True
        self._changed = asyncio.Event()
        self._hub_end: MemoryTransport[ToRunner, ToHub]
        self._end: MemoryTransport[ToHub, ToRunner]
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.connect()
        assert self.welcome is not None, self.refused
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.disconnect()

    async def connect(self) -> None:
        """Send hello and receive the hub's answer."""
        self._end, self._hub_end = memory_pair()
        serving = self.hub.link.serve(self._hub_end, self.namespace, token_id=self.token_id)
        self._tasks = [asyncio.create_task(serving, name="serve")]
        seqs = {id: log.state.seq for id, log in self.logs.items()}
        hello = replace(make_hello(self.info, seqs, key=self.key), protocol=self.protocol)
        answer = await shake_hands(self._end, hello, self.key)
        if isinstance(answer, Refused):
            self.refused = answer.reason
        elif isinstance(answer, Welcome):
            self.welcome = answer
            self._tasks.append(asyncio.create_task(self._run(), name="runner"))

    async def disconnect(self) -> None:
        await self._end.close()
        await self.wait_closed()

    async def wait_closed(self) -> None:
        """Wait until the hub has closed the link."""
        async with asyncio.timeout(DEADLINE):
            await asyncio.gather(*self._tasks)

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a message from the hub makes `condition` true."""
        async with asyncio.timeout(DEADLINE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def wait_for(self, kind: type[Command], count: int = 1) -> list[Any]:
        """Wait for `count` commands of this kind and return them."""
        await self.wait_until(lambda: len(self.commands(kind)) >= count)
        return self.commands(kind)

    def commands(self, kind: type[Command]) -> list[Any]:
        return [call.command for call in self.calls if isinstance(call.command, kind)]

    async def append(self, session_id: str, *events: SessionEvent, ack: bool = True) -> None:
        """Append events to a log, send them with the state after them, and wait for the acknowledgement."""
        log = self.logs[session_id]
        items = [log.add(event) for event in events]
        await self.send(Events(session=session_id, entries=items, state=log.state))
        if ack:
            await self.wait_until(lambda: self.acked.get(session_id, 0) >= log.state.seq)

    async def send_deltas(self, session_id: str, *deltas: ev.Delta) -> None:
        await self.send(Deltas(session=session_id, deltas=list(deltas)))

    async def ping(self) -> None:
        """Wait until the hub has received everything sent before."""
        before = self.pongs
        await self.send(Ping())
        await self.wait_until(lambda: self.pongs > before)

    async def send(self, message: ToHub) -> None:
        await self._end.send(message)

    async def _run(self) -> None:
        while True:
            try:
                message = await self._end.receive()
            except LinkClosed:
                self._changed.set()
                return
            match message:
                case Ack():
                    self.acked[message.session] = message.seq
                case Pong():
                    self.pongs += 1
                case IdentityClaimed():
                    pass
                case Welcome():
                    self.more.append(message)
                case Call():
                    self.calls.append(message)
                    await self._answer(message)
                case _:
                    raise AssertionError(f"unexpected {message}")
            self._changed.set()

    async def _answer(self, call: Call) -> None:
        answer = self.answers.get(type(call.command))
        reply = Reply(id=call.id) if answer is None else answer(call)
        if reply is None:
            return
        try:
            if isinstance(call.command, Send) and reply.error is None and self.confirms_messages:
                item = call.command.item
                await self.append(
                    call.session,
                    ev.QueueUpdate(item_id=item.id, state=ItemState.QUEUED, item=item),
                    ack=False,
                )
            await self.send(reply)
        except LinkClosed:
            return

    def _created(self, call: Call) -> Reply:
        assert isinstance(call.command, Create)
        spec = call.command.spec
        log = self.logs[call.session] = LogBuilder(
            call.session, status=SessionStatus.IDLE, permission_mode=spec.permission_mode, title=spec.title,
            seq=spec.fork.copied if spec.fork else 0,
        )  # fmt: skip
        return Reply(id=call.id, logs=[LogLine(1, "launch", "demo is ready")], state=log.state)


def refuse(error: FarsteerError, logs: Sequence[LogLine] = ()) -> Callable[[Call], Reply]:
    return lambda call: Reply(id=call.id, error=error.record(), logs=list(logs))


def silent(call: Call) -> None:
    return None


class FeedRecorder:
    """Records every event that the feed publishes."""

    def __init__(self, hub: Hub) -> None:
        self.events: list[SyncEvent] = []
        self._changed = asyncio.Event()
        self.stop = hub.feed.listen(self._record)

    def _record(self, events: list[SyncEvent]) -> None:
        self.events += events
        self._changed.set()

    def of(self, type: str) -> list[dict[str, Any]]:
        return [json.loads(event.data) for event in self.events if event.type == type]

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()
