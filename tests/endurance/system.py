"""A hub, a runner, a link and one session in one process and in virtual time. Each can be killed at any point."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Self
from unittest import mock

from farsteer.agents.registry import AgentRegistry
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.api import (
    CreateSession,
    ForkSession,
    ImportConversation,
    RewindSession,
    SendMessage,
    SessionCreated,
)
from farsteer.core.approvals import Answer
from farsteer.core.errors import FarsteerError
from farsteer.core.events import SessionStatus
from farsteer.core.queue import Delivery, ItemState
from farsteer.core.session import SessionState
from farsteer.hub import Hub
from farsteer.hub.auth.caller import ALL_SCOPES, Caller
from farsteer.link.messages import OLDEST_PROTOCOL, PROTOCOL, EncodedEntry, Hello, ToHub, ToRunner
from farsteer.link.transport import LinkClosed, MemoryTransport, memory_pair
from farsteer.runner.runner import Runner
from farsteer.runner.session.context import TimeLimits
from tests.endurance.agent import AgentMemory, RandomAdapter
from tests.endurance.databases import Backups, find_forgotten
from tests.endurance.log_checker import LogChecker
from tests.endurance.storage import InlineReaders, InlineWriter
from tests.endurance.tracked_session import TrackedSession
from tests.endurance.virtual_time import KillableTasks, VirtualLoop, create_task
from tests.support.agents import OnlyAgent

OWNER = "the-owners-token-of-these-tests"
CALLER = Caller(namespace="default", token_id="owner", scopes=ALL_SCOPES, expires_at=2**62)
LIMITS = TimeLimits(silence=600.0, restore=30.0)
IDLE_SECONDS = 1800.0


class SimulatedSystem:
    """Use as a context manager, outside of an event loop. Leaving it waits for the end of everything and checks it."""

    agent = RandomAdapter.name
    poll_seconds = 50.0
    """How long to wait between two checks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "project"
        self.loop = self.new_loop()
        self.loop.set_task_factory(create_task)  # pyright: ignore[reportArgumentType]
        self.memory = AgentMemory()
        self.memory.directory = str(self.project)
        self.session = ""
        """The session that a client steers."""
        self.sessions: dict[str, TrackedSession] = {}
        """Those that the hub has."""
        self.protocol = PROTOCOL
        """The newest that the runner offers."""
        self.hub_was_set_back = self.runner_was_set_back = False
        self._epoch_before = ""
        self._has_failed = False
        """A promise was broken: what is checked at the end would hide it."""
        self._epoch_must_change = False
        self.hub_backups = Backups(root / "hub" / "hub.db")
        self.runner_backups = Backups(root / "runner" / "runner.db")
        self.calls: set[asyncio.Task[Any]] = set()
        self.errors: list[str] = []
        self.hub: Hub | None = None
        self.runner: Runner | None = None
        self._hub_tasks = self._runner_tasks = KillableTasks(self.loop)
        self._link: MemoryTransport[ToHub, ToRunner] | None = None
        self._patches = self.patches()
        self._error_recorder = _ErrorRecorder(self.errors)

    def new_loop(self) -> asyncio.AbstractEventLoop:
        return VirtualLoop()

    def patches(self) -> list[Any]:
        return [
            mock.patch("farsteer.runner.journal.Writer", InlineWriter),
            mock.patch("farsteer.hub.store.sqlite.store.Writer", InlineWriter),
            mock.patch("farsteer.hub.store.sqlite.store.Readers", InlineReaders),
            mock.patch("random.uniform", lambda low, high: high),
        ]

    def registry(self) -> AgentRegistry:
        return OnlyAgent(RandomAdapter(self.memory))

    def processes(self) -> int:
        """Return the number of running agents of sessions that the hub has."""
        return sum(launch.plan.session_id in self.sessions for launch in self.memory.running)

    def all_processes(self) -> int:
        return len(self.memory.running)

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self._error_recorder)
        for patch in self._patches:
            patch.start()
        self.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.run(self._finish())
        finally:
            for patch in self._patches:
                patch.stop()
            logging.getLogger().removeHandler(self._error_recorder)
            self.loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    # -- starting and killing

    async def _start(self) -> None:
        self.project.mkdir()
        await self.start_hub()
        await self.start_runner()
        async with asyncio.timeout(60):
            assert self.runner is not None
            await self.runner.connected.wait()
        request = CreateSession(
            machine_id=(await self._machine()), directory=str(self.project), agent=self.agent
        )
        created = await self.in_hub(lambda hub: hub.sessions.create(CALLER, request))
        assert isinstance(created, SessionCreated), created
        self.session = self.first_session = created.session_id
        self._open_db()
        self.hub_backups.make()
        self.runner_backups.make()
        self.check()

    def _open_db(self) -> None:
        self.db = sqlite3.connect(self.root / "hub" / "hub.db", isolation_level=None)

    async def _machine(self) -> str:
        assert self.hub is not None
        return (await self.hub.machines.list(CALLER)).machines[0].id

    @property
    def tracked(self) -> TrackedSession:
        return self.sessions[self.session]

    @property
    def checker(self) -> LogChecker:
        return self.tracked.checker

    @property
    def names(self) -> dict[str, str]:
        return self.tracked.names

    @property
    def local_ids(self) -> dict[str, str]:
        return self.tracked.local_ids

    async def start_hub(self) -> None:
        if self.hub is None:
            self._hub_tasks = KillableTasks(self.loop)
            self.hub = await self._hub_tasks.spawn(Hub.open(self.root / "hub", OWNER))

    async def kill_hub(self, *, lose: bool) -> None:
        hub, self.hub = self.hub, None
        if hub is None:
            return
        store: Any = hub.store
        store._writer.crash(lose=lose)
        store._readers.crash()
        await self._hub_tasks.kill()
        hub.presence.close()
        hub.tokens.close()
        hub._lock.release()
        await self.cut_link()

    async def start_runner(self) -> None:
        if self.runner is None:
            self._runner_tasks = KillableTasks(self.loop)
            opening = Runner.open(self.root / "runner", limits=LIMITS, agents=self.registry())
            self.runner = runner = await self._runner_tasks.spawn(opening)
            _PublicationChecker(runner)
            self._runner_tasks.spawn(runner.run(self._connect))

    async def kill_runner(self, *, lose: bool, linger: int) -> None:
        """Kill the runner. Its agents see the end of their input `linger` turns of the loop later."""
        runner, self.runner = self.runner, None
        if runner is None:
            return
        writer: Any = runner._journal._writer
        writer.crash(lose=lose)
        await self._runner_tasks.kill()
        runner._journal._reader.close()
        runner._lock.release()
        await self.cut_link()
        for _ in range(linger):
            await asyncio.sleep(0)
        for launch in [*self.memory.running]:
            launch.kill(1, "its input ended")
        await asyncio.sleep(0)

    # -- databases that are set back or lost

    async def restore_runner(self, back: int | None) -> None:
        """Replace the journal of a runner that was killed by one of the last copies, or delete it (None)."""
        assert self.runner is None
        self.runner_was_set_back = True
        if back is None:
            self.runner_backups.remove()
        else:
            self.runner_backups.restore(back)
        self.hub_backups.discard()
        self.memory.generations.clear()
        self._note_set_back()

    async def restore_hub(self, back: int) -> None:
        """Replace the database of a hub that was killed by one of the last copies."""
        assert self.hub is None
        self.hub_was_set_back = True
        (last,) = self.db.execute("SELECT max(cursor) FROM log").fetchone()
        self._epoch_before = self._epoch()
        self.db.close()
        self.hub_backups.restore(back)
        self.runner_backups.discard()
        self._open_db()
        (restored,) = self.db.execute("SELECT max(cursor) FROM log").fetchone()
        self._epoch_must_change = last != restored
        left = {id for (id,) in self.db.execute("SELECT id FROM sessions WHERE phase = 'live'")}
        for id in [id for id in self.sessions if id not in left]:
            del self.sessions[id]
        for tracked in self.sessions.values():
            tracked.set_back = True
            tracked.read_from_start(self.db)
            tracked.forget_lost_names(self.db)
        if self.session not in left:
            self.session = self.first_session
        self._note_set_back()

    def check_epoch(self) -> None:
        """Check that cursors of before the hub was set back say `gap`."""
        if self._epoch_must_change and self.hub is not None:
            assert self._epoch() != self._epoch_before, "old cursors do not say gap"

    def _epoch(self) -> str:
        (epoch,) = self.db.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()
        return epoch

    def _note_set_back(self) -> None:
        """From now on hub and runner have to compare what they have, which needs the newest protocol."""
        self.protocol = PROTOCOL
        hub, runner = self.root / "hub" / "hub.db", self.root / "runner" / "runner.db"
        journal = runner if runner.exists() else Path(":memory:")
        self.memory.may_repeat |= find_forgotten(hub, journal, self.memory.received)

    @property
    def was_set_back(self) -> bool:
        return self.hub_was_set_back or self.runner_was_set_back

    def back_up(self, *, hub: bool) -> None:
        (self.hub_backups if hub else self.runner_backups).make()

    # -- the link

    async def cut_link(self) -> None:
        if self._link is not None:
            await self._link.close()
            self._link = None

    async def _connect(self) -> MemoryTransport[ToHub, ToRunner]:
        hub = self.hub
        if hub is None:
            raise LinkClosed("no hub")
        ends: tuple[MemoryTransport[ToHub, ToRunner], MemoryTransport[ToRunner, ToHub]] = memory_pair()
        self._link = ends[0]
        if self.protocol < PROTOCOL:
            _speak_older_protocol(ends[0])
        self._hub_tasks.spawn(hub.link.serve(ends[1], "default"))
        return ends[0]

    # -- requests of a client

    async def in_hub(self, call: Any) -> Any:
        """Make a request. It ends when the hub is killed."""
        assert self.hub is not None
        return await self._hub_tasks.spawn(call(self.hub))

    def request(self, call: Any) -> None:
        """Make a request without waiting for it. Does nothing while the hub is down."""
        if self.hub is None:
            return
        hub = self.hub

        async def requested() -> None:
            try:
                await call(hub)
            except FarsteerError as error:
                if error.status == 500:
                    raise

        task = self._hub_tasks.spawn(requested())
        self.calls.add(task)

    def command(self, command: commands.Command, session: str | None = None) -> None:
        session = session or self.session

        async def call(hub: Hub) -> None:
            row = await hub.store.get_session("default", session)
            await hub.links.call("default", row.machine_id, session, command)

        self.request(call)

    def send(self, name: str, script: str, delivery: Delivery) -> None:
        """Send a message. The same name again repeats the message, as a client does that got no answer."""
        tracked = self.tracked
        text = tracked.local_ids.setdefault(name, f"{name} {script}")

        async def call(hub: Hub) -> None:
            request = SendMessage(text=text, local_id=name, delivery=delivery)
            accepted = await hub.messages.send(CALLER, tracked.id, request)
            known = tracked.names.setdefault(name, accepted.id)
            assert known == accepted.id, f"{name} was accepted twice"

        self.request(call)

    def cancel(self, item: str) -> None:
        session = self.session
        self.request(lambda hub: hub.messages.cancel(CALLER, session, item))

    def send_now(self, item: str) -> None:
        session = self.session
        self.request(lambda hub: hub.messages.send_now(CALLER, session, item))

    def respond(self, approval: str, answer: Answer) -> None:
        session = self.session
        self.request(lambda hub: hub.approvals.answer(CALLER, session, approval, answer))

    def rewind(self, back: int, *, files: bool) -> None:
        """Rewind to before one of the last visible messages."""
        visible = [entry for entry in self.checker.visible if isinstance(entry.content, ev.UserMessage)]
        if not visible:
            return
        request = RewindSession(seq=visible[-1 - back % len(visible)].seq, restore_files=files)
        session = self.session
        self.request(lambda hub: hub.rewinds.rewind(CALLER, session, request))

    def fork(self, back: int | None) -> None:
        """Fork the session, as it is now or at one of its last visible entries."""
        visible = self.checker.visible
        seq = None if back is None or not visible else visible[-1 - back % len(visible)].seq
        session = self.session
        self.request(lambda hub: hub.forks.fork(CALLER, session, ForkSession(seq=seq)))

    def import_conversation(self, native_id: str) -> None:
        request = ImportConversation(agent=self.agent, native_id=native_id)

        async def call(hub: Hub) -> None:
            await hub.imports.import_conversation(CALLER, await self._machine(), request)

        self.request(call)

    def delete(self) -> None:
        """Delete the session, unless it is the first one."""
        session = self.session
        if session != self.first_session:
            self.request(lambda hub: hub.sessions.delete(CALLER, session))

    # -- time

    async def ticks(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # -- checks

    def check(self) -> None:
        """Check the promises on one snapshot of the store. Called after every step."""
        self.db.execute("BEGIN")
        try:
            self._check()
        except AssertionError:
            self._has_failed = True
            raise
        finally:
            self.db.execute("COMMIT")

    def _check(self) -> None:
        live = [id for (id,) in self.db.execute("SELECT id FROM sessions WHERE phase = 'live'")]
        for id in [id for id in self.sessions if id not in live]:
            del self.sessions[id]  # a client has deleted it
        if self.session not in live:
            self.session = self.first_session
        for id in live:
            if id not in self.sessions:
                self.sessions[id] = TrackedSession(self.db, id, set_back=self.hub_was_set_back)
            self.sessions[id].checker.runner_set_back = self.runner_was_set_back
            self.sessions[id].check(self.db)
        assert not self.memory.violations, self.memory.violations
        self.check_processes()
        assert not self.errors, self.errors
        for task in [task for task in self.calls if task.done()]:
            self.calls.discard(task)
            if not task.cancelled():
                task.result()

    def check_processes(self) -> None:
        """No session has two (see `RandomLaunch`)."""

    def hub_state(self) -> SessionState:
        return self.tracked.stored_state(self.db)

    # -- at the end

    async def _finish(self) -> None:
        try:
            if not self._has_failed:
                await self._wait_until_idle()
                await self._stop()
                self._check_deliveries()
        finally:
            await self._close()

    async def _wait_until_idle(self) -> None:
        """Start everything again. Everything must have an outcome in bounded time."""
        self.memory.starts.clear()
        if self.protocol < PROTOCOL:
            # It is updated. Before, the hub could not tell it the outcomes that the log lacks.
            await self.kill_runner(lose=False, linger=0)
            self.protocol = PROTOCOL
        await self.start_hub()
        await self.start_runner()
        deadline = self.loop.time() + IDLE_SECONDS
        while True:
            await asyncio.sleep(self.poll_seconds)
            self.check()
            busy = {id: why for id, tracked in self.sessions.items() if (why := tracked.why_busy(self.db))}
            if not busy and not self.calls:
                break
            assert self.loop.time() < deadline, f"not idle: {busy}, {len(self.calls)} requests"
            for session in busy:
                self.command(commands.Abort(), session)
        for tracked in self.sessions.values():
            tracked.checker.check_idle()
            tracked.checker.check_stored_state(tracked.stored_state(self.db))

    async def _stop(self) -> None:
        for session in self.sessions:
            self.command(commands.Stop(), session)
        async with asyncio.timeout(60):
            while self.calls:
                await asyncio.sleep(self.poll_seconds / 10)
                self.check()
        await asyncio.sleep(self.poll_seconds / 10)
        self.check()
        assert not self.processes(), "a process runs after its stop"
        for tracked in self.sessions.values():
            state = tracked.stored_state(self.db)
            assert state.status in (SessionStatus.STOPPED, SessionStatus.FAILED), state.status
            assert not state.queue, f"what waits after a stop: {state.queue}"
            assert not state.approvals, f"approvals that are open after a stop: {state.approvals}"
            tracked.checker.check_stored_state(state)

    def _check_deliveries(self) -> None:
        """The agent has received what the log says, and no message is lost."""
        for tracked in self.sessions.values():
            tracked.check_names(self.db)
            states = tracked.item_states(self.db)
            by_local_id = tracked.items_by_local_id(self.db)
            self.check_agent(tracked, {name: states[item_id] for name, item_id in by_local_id.items()})

    def check_agent(self, tracked: TrackedSession, outcomes: dict[str, ItemState]) -> None:
        received = self.memory.received
        for name, state in outcomes.items():
            if name in self.memory.may_repeat:
                continue
            if state is ItemState.DELIVERED:
                assert received[name] == 1, (
                    f"{name} is delivered, and the agent has it {received[name]} times"
                )
            elif state is not ItemState.UNKNOWN:
                assert received[name] == 0, f"{name} is {state}, and the agent has it"
        self._check_memory(tracked)

    def _check_memory(self, tracked: TrackedSession) -> None:
        """The agent's conversation is the visible one, unless the log says otherwise."""
        checker = tracked.checker
        if checker.forgotten or tracked.set_back or self.memory.wiped:
            return
        state = tracked.stored_state(self.db)
        records = self.memory.conversations.get(state.native_id or tracked.id, [])
        remembered = {record.name for record in records if record.by_user}
        seen = {
            entry.content.text.split()[0]: checker.items.get(entry.content.item_id)
            for entry in checker.visible
            if isinstance(entry.content, ev.UserMessage)
        }
        if checker.runner_set_back:
            # The journal that had the text was lost; the log has only the outcome.
            by_local_id = tracked.items_by_local_id(self.db)
            remembered -= {name for name in remembered if checker.is_unknown(by_local_id.get(name, ""))}
        if state.cut_at is None:
            assert remembered <= set(seen), f"the agent remembers what was removed: {remembered - set(seen)}"
        if not checker.rewound:
            delivered = {name for name, item in seen.items() if item and item.outcome is ItemState.DELIVERED}
            assert delivered <= remembered, f"the agent has forgotten {delivered - remembered}"

    async def _close(self) -> None:
        if self.runner is not None:
            await self._runner_tasks.spawn(self.runner.close())
        if self.hub is not None:
            await self._hub_tasks.spawn(self.hub.close())
        left = self.all_processes()
        for launch in [*self.memory.running]:
            launch.kill()
        await self._runner_tasks.kill()
        await self._hub_tasks.kill()
        self.db.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        assert not left, "a process runs after the end of its runner"


def _speak_older_protocol(transport: MemoryTransport[ToHub, ToRunner]) -> None:
    """Let the runner say what one of protocol 2 would say. The hub chooses that protocol."""
    send = transport.send

    async def send_older(message: ToHub) -> None:
        if isinstance(message, Hello):
            message = Hello(message.machine, message.sessions, message.key, protocol=OLDEST_PROTOCOL)
        await send(message)

    transport.send = send_older


class _PublicationChecker:
    """Checks that what a runner publishes is numbered without a gap."""

    def __init__(self, runner: Runner) -> None:
        outbox: Any = runner._outbox
        self._publish = outbox.publish
        self._remove_session = outbox.remove_session
        self._last: dict[str, int] = {}
        outbox.publish = self.publish
        outbox.remove_session = self.remove_session

    def publish(self, state: SessionState, entries: Sequence[EncodedEntry], *, state_changed: bool) -> None:
        for entry in entries:
            last = self._last.get(state.id)
            assert last is None or entry.seq == last + 1, f"published {entry.seq} after {last}"
            self._last[state.id] = entry.seq
        assert not entries or entries[-1].seq == state.seq
        self._publish(state, entries, state_changed=state_changed)

    def remove_session(self, session: str) -> None:
        """A hub that is set back to before the deletion gives the session back as it was then."""
        self._last.pop(session, None)
        self._remove_session(session)


class _ErrorRecorder(logging.Handler):
    """Records logged errors, except the defects that an agent was told to have."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "asyncio":
            return  # it logs during garbage collection, which belongs to no step
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, RuntimeError) and str(error) == "a defect of the adapter":
            return
        if record.msg.startswith("session %s: neither hub nor runner has"):
            return  # `LogChecker` knows where entries may be lost
        self._errors.append(self.format(record))
