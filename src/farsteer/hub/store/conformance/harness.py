"""What the contracts are written with: a store, its feed, a machine, and the logs of its sessions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.capabilities import MachineInfo
from farsteer.core.events import SessionEvent, make_entry
from farsteer.core.ids import new_id
from farsteer.core.queue import QueueItem
from farsteer.core.session import Fork, SessionSpec, SessionState, append
from farsteer.hub.feed import Feed, SyncEvent
from farsteer.hub.store.base import AppendResult, CopyProgress, LogPage, Store
from farsteer.link.messages import EncodedEntry, encode_entry

NAMESPACE = "default"
OTHER_NAMESPACE = "other"
LINK = 1
NEXT_LINK = 2
KEY = b"1" * 32
OTHER_KEY = b"2" * 32


class StoreFactory(Protocol):
    """Opens the store under test. Whatever one factory opens is the same store, one at a time."""

    async def open(self, feed: Feed) -> Store:
        """Open the store, creating it the first time."""
        ...

    async def crash(self, store: Store) -> None:
        """End the store as a kill of its process would: nothing is finished, nothing committed is lost."""
        ...


class LogBuilder:
    """A session's log as its runner writes it."""

    def __init__(self, session_id: str, **state: Any) -> None:
        """`state` are fields of SessionState that the log begins with."""
        self.session_id = session_id
        self.state = SessionState(id=session_id, agent="demo", directory="/work", **state)
        self.entries: list[EncodedEntry] = []

    def add(self, event: SessionEvent) -> EncodedEntry:
        seq = self.state.seq + 1
        self.state = append(self.state, event)
        self.entries.append(encode_entry(make_entry(self.session_id, seq, event, seq)))
        return self.entries[-1]

    def add_messages(self, count: int) -> list[EncodedEntry]:
        return [self.add(ev.AgentMessage(message_id=str(n), text=f"text {n}")) for n in range(count)]

    def add_turn(
        self, text: str, *, anchor: str | None = None, thought_anchor: str | None = None
    ) -> list[EncodedEntry]:
        """Add a person's message and its answer: five entries."""
        return [
            self.add(ev.TurnStart(turn_id=text, item_id=text)),
            self.add(ev.UserMessage(item_id=text, text=text)),
            self.add(ev.AgentThought(message_id="t", text="hm", anchor=thought_anchor)),
            self.add(ev.AgentMessage(message_id="m", text=f"to {text}", anchor=anchor)),
            self.add(ev.TurnEnd(turn_id=text, reason=ev.TurnEndReason.END_TURN)),
        ]

    def add_rewind(self, first_seq: int) -> EncodedEntry:
        skipped = ev.FilesRestored(status=ev.FileRestore.SKIPPED)
        return self.add(ev.Rewound(first_seq=first_seq, files=skipped))


class StoreHarness:
    """An open store with one connected machine, and everything that was published. Use `StoreHarness.open`."""

    def __init__(self, factory: StoreFactory, machine: MachineInfo) -> None:
        self.factory = factory
        self.machine = machine
        self.store: Store
        self.feed: Feed
        self.published: list[SyncEvent] = []
        """What was published since the store was opened."""

    @classmethod
    async def open(cls, factory: StoreFactory) -> StoreHarness:
        harness = cls(factory, new_machine())
        await harness._open()
        await harness.connect()
        return harness

    async def _open(self) -> None:
        self.published = []
        self.feed = Feed()
        self.feed.listen(self.published.extend)
        self.store = await self.factory.open(self.feed)

    async def reopen(self) -> None:
        """Close the store and open it again, without connecting the machine."""
        await self.store.close()
        await self._open()

    async def crash(self) -> None:
        """Crash the store and open it again, without connecting the machine."""
        await self.factory.crash(self.store)
        await self._open()

    # -- machine and sessions

    async def connect(self, link_id: int = LINK, confirmed: dict[str, int] | None = None) -> None:
        """Connect the machine. `confirmed` are its sessions, with the last entry that a hub has confirmed."""
        seen = confirmed or {}
        await self.store.enrol_machine(NAMESPACE, self.machine, KEY)
        await self.store.connect_machine(NAMESPACE, self.machine, seen, link_id=link_id, confirmed=seen)

    async def connect_another(self, link_id: int = NEXT_LINK, namespace: str = NAMESPACE) -> MachineInfo:
        """Connect a second machine and return it."""
        machine = new_machine()
        await self.store.enrol_machine(namespace, machine, OTHER_KEY)
        await self.store.connect_machine(namespace, machine, {}, link_id=link_id)
        return machine

    async def disconnect(self, link_id: int = LINK) -> None:
        await self.store.disconnect_machine(NAMESPACE, self.machine.id, link_id=link_id)

    def new_spec(self) -> SessionSpec:
        return SessionSpec(id=new_id(), machine_id=self.machine.id, directory="/work")

    async def begin_session(self) -> LogBuilder:
        """Begin a session and leave it in creation."""
        spec = self.new_spec()
        await self.store.begin_session(NAMESPACE, spec)
        return LogBuilder(spec.id)

    async def create_session(self, entries: int = 0) -> LogBuilder:
        """Create a session whose log has that many messages."""
        log = await self.begin_session()
        await self.store.finish_session(log.session_id, log.state)
        if entries:
            await self.append(log, log.add_messages(entries))
        return log

    async def begin_fork(
        self, source: LogBuilder, upto: int | None = None
    ) -> tuple[LogBuilder, CopyProgress]:
        """Begin a session, copy a log into it and leave it in creation."""
        spec = self.new_spec()
        await self.store.begin_session(NAMESPACE, spec)
        ranges = await self.store.visible_ranges(NAMESPACE, source.session_id, upto)
        progress = CopyProgress()
        while not progress.done:
            progress = await self.store.copy_entries(NAMESPACE, source.session_id, spec.id, ranges, progress)
        fork = Fork(
            session_id=source.session_id, seq=upto or source.state.seq, native_id="n", copied=progress.count
        )
        await self.store.finish_copy(replace(spec, fork=fork), progress)
        return LogBuilder(spec.id, seq=progress.count), progress

    async def fork(self, source: LogBuilder, upto: int | None = None) -> tuple[LogBuilder, CopyProgress]:
        """Create a session that begins with a copy of a log; its own first entry is a `launch_start`."""
        log, progress = await self.begin_fork(source, upto)
        await self.append(log, [log.add(ev.LaunchStart(generation=1, resumed=False))], state=True)
        await self.store.finish_session(log.session_id, log.state)
        return log, progress

    # -- logs

    async def append(
        self, log: LogBuilder, entries: Sequence[EncodedEntry], *, state: bool = False, link_id: int = LINK,
        keeps_commands: bool = False,
    ) -> AppendResult:  # fmt: skip
        """Append a batch, with the log's state if `state`, which is without commands if `keeps_commands`."""
        submitted = self.submit(log, entries, state=state, link_id=link_id, keeps_commands=keeps_commands)
        return await (await submitted)

    async def submit(
        self, log: LogBuilder, entries: Sequence[EncodedEntry], *, state: bool = False, link_id: int = LINK,
        keeps_commands: bool = False,
    ) -> asyncio.Future[AppendResult]:  # fmt: skip
        given = log.state if state else None
        if given is not None and keeps_commands:
            given = replace(given, commands=())
        return await self.store.append_entries(
            NAMESPACE, self.machine.id, log.session_id, entries, given, link_id=link_id,
            keeps_commands=keeps_commands,
        )  # fmt: skip

    async def page(
        self, log: LogBuilder, limit: int = 200, before: int | None = None, after: int | None = None
    ) -> LogPage:
        return await self.store.read_page(NAMESPACE, log.session_id, limit=limit, before=before, after=after)

    async def seqs(
        self, log: LogBuilder, limit: int = 200, before: int | None = None, after: int | None = None
    ) -> list[int]:
        return [entry["seq"] for entry in await self.read(log, limit, before, after)]

    async def read(
        self, log: LogBuilder, limit: int = 200, before: int | None = None, after: int | None = None
    ) -> list[Any]:
        """Return a page of a log as decoded JSON."""
        return [json.loads(body) for body in (await self.page(log, limit, before, after)).bodies]

    # -- feed

    def published_about(self, subject: str, type: str | None = None) -> list[SyncEvent]:
        return [event for event in self.published if event.subject == subject and type in (None, event.type)]

    def updates_of(self, session_id: str) -> list[Any]:
        """Return the data of each `session-updated` that was published."""
        return [
            json.loads(event.data)["data"] for event in self.published_about(session_id, "session-updated")
        ]

    async def read_feed(self, limit: int = 1000, **where: Any) -> list[SyncEvent]:
        """Return the stored feed of the namespace from its start, read page by page."""
        events: list[SyncEvent] = []
        position, more = 0, True
        while more:
            page = await self.store.read_feed(NAMESPACE, position, limit=limit, **where)
            events += page.events
            position, more = page.next, page.more
        return events

    async def wait_until_purged(self, session_id: str) -> list[SyncEvent]:
        """Wait until a deleted session's entries are gone, and return what the feed has left of it."""
        async with asyncio.timeout(10):
            while True:
                left = await self.read_feed(session_id=session_id)
                if not any(event.type == "message-received" for event in left):
                    return left
                await asyncio.sleep(0.01)


def new_machine() -> MachineInfo:
    return MachineInfo(id=new_id(), host="box", platform="linux", version="0")


def new_item(text: str = "hello", **fields: Any) -> QueueItem:
    return QueueItem(id=new_id(), text=text, created_at=1, **fields)


class StoreContracts:
    """What a suite needs from whoever runs it."""

    def factory(self, directory: Path) -> StoreFactory:
        """Return a factory for a new, empty store, which may keep its files in `directory`."""
        raise NotImplementedError("define which store to check")


Contract = Callable[[Any, StoreHarness], Coroutine[Any, Any, None]]


def contract(check: Contract) -> Callable[[Any, Path], None]:
    """Make a test of a coroutine function that takes an open store. It needs no plugin of pytest."""

    async def run(suite: StoreContracts, directory: Path) -> None:
        harness = await StoreHarness.open(suite.factory(directory))
        try:
            await check(suite, harness)
        finally:
            await harness.store.close()

    def test(self: StoreContracts, tmp_path: Path) -> None:
        asyncio.run(run(self, tmp_path))

    test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
    return test
