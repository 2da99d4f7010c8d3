"""A hub, a runner, a link and one session in one process and in virtual time. Each can be killed at any point."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Self
from unittest import mock

from farsteer.agents import registry
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.api import CreateSession, RewindSession, SendMessage, SessionCreated
from farsteer.core.approvals import Answer
from farsteer.core.errors import FarsteerError
from farsteer.core.events import SessionStatus, decode_entry
from farsteer.core.queue import Delivery, ItemState
from farsteer.core.session import SessionState
from farsteer.core.wire import decode
from farsteer.hub import Hub
from farsteer.hub.auth.caller import ALL_SCOPES, Caller
from farsteer.link.messages import EncodedEntry, ToHub, ToRunner
from farsteer.link.transport import LinkClosed, MemoryTransport, memory_pair
from farsteer.runner.runner import Runner
from farsteer.runner.session.context import TimeLimits
from tests.endurance.agent import AgentMemory, RandomAdapter
from tests.endurance.log_checker import LogChecker
from tests.endurance.storage import InlineReaders, InlineWriter
from tests.endurance.virtual_time import KillableTasks, VirtualLoop, create_task

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
        self.adapter = RandomAdapter(self.memory)
        self.session = ""
        self.local_ids: dict[str, str] = {}
        """The texts that a client has sent, by local id. It may not know whether they arrived."""
        self.names: dict[str, str] = {}
        """The item of each local id, as far as the hub has answered."""
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
            mock.patch.object(registry, "adapter", return_value=self.adapter),
            mock.patch.object(registry, "names", return_value=(RandomAdapter.name,)),
            mock.patch("random.uniform", lambda low, high: high),
        ]

    def processes(self) -> int:
        """Return the number of running agents."""
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
        self.session = created.session_id
        self.db = sqlite3.connect(self.root / "hub" / "hub.db", isolation_level=None)
        self.checker = LogChecker(
            SessionState(id=self.session, agent=self.agent, directory=str(self.project))
        )
        self.check()

    async def _machine(self) -> str:
        assert self.hub is not None
        return (await self.hub.machines.list(CALLER)).machines[0].id

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
            opening = Runner.open(self.root / "runner", limits=LIMITS)
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
        runner._lock.release()
        await self.cut_link()
        for _ in range(linger):
            await asyncio.sleep(0)
        for launch in [*self.memory.running]:
            launch.kill(1, "its input ended")
        await asyncio.sleep(0)

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

    def command(self, command: commands.Command) -> None:
        async def call(hub: Hub) -> None:
            row = await hub.store.get_session("default", self.session)
            await hub.links.call("default", row.machine_id, self.session, command)

        self.request(call)

    def send(self, name: str, script: str, delivery: Delivery) -> None:
        """Send a message. The same name again repeats the message, as a client does that got no answer."""
        text = self.local_ids.setdefault(name, f"{name} {script}")

        async def call(hub: Hub) -> None:
            request = SendMessage(text=text, local_id=name, delivery=delivery)
            accepted = await hub.messages.send(CALLER, self.session, request)
            known = self.names.setdefault(name, accepted.id)
            assert known == accepted.id, f"{name} was accepted twice"

        self.request(call)

    def cancel(self, item: str) -> None:
        self.request(lambda hub: hub.messages.cancel(CALLER, self.session, item))

    def send_now(self, item: str) -> None:
        self.request(lambda hub: hub.messages.send_now(CALLER, self.session, item))

    def respond(self, approval: str, answer: Answer) -> None:
        self.request(lambda hub: hub.approvals.answer(CALLER, self.session, approval, answer))

    def rewind(self, back: int, *, files: bool) -> None:
        """Rewind to before one of the last visible messages."""
        visible = [entry for entry in self.checker.visible if isinstance(entry.content, ev.UserMessage)]
        if not visible:
            return
        request = RewindSession(seq=visible[-1 - back % len(visible)].seq, restore_files=files)
        self.request(lambda hub: hub.rewinds.rewind(CALLER, self.session, request))

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
        finally:
            self.db.execute("COMMIT")

    def _check(self) -> None:
        rows = self.db.execute(
            "SELECT seq, body FROM log WHERE subject = ? AND seq > ? ORDER BY seq", (self.session, self.checker.seq)
        ).fetchall()  # fmt: skip
        for seq, body in rows:
            entry = decode_entry(body)
            assert entry.seq == seq
            self.checker.check_entry(entry)
        assert not self.memory.violations, self.memory.violations
        assert self.processes() <= 1
        assert not self.errors, self.errors
        for task in [task for task in self.calls if task.done()]:
            self.calls.discard(task)
            if not task.cancelled():
                task.result()
        for item_id, state in self.item_states().items():
            history = self.checker.items.get(item_id)
            if history is not None and (history.outcome is not None or state.final):
                assert history.outcome is state, (
                    f"{item_id}: the log says {history.outcome}, the store {state}"
                )

    def item_states(self) -> dict[str, ItemState]:
        rows = self.db.execute("SELECT id, state FROM items WHERE session_id = ?", (self.session,))
        return {id: ItemState(state) for id, state in rows}

    def hub_state(self) -> SessionState:
        (state,) = self.db.execute("SELECT state FROM sessions WHERE id = ?", (self.session,)).fetchone()
        return decode(state, SessionState)

    # -- at the end

    async def _finish(self) -> None:
        try:
            await self._wait_until_idle()
            await self._stop()
            self._check_deliveries()
        finally:
            await self._close()

    async def _wait_until_idle(self) -> None:
        """Start everything again. Everything must have an outcome in bounded time."""
        self.memory.starts.clear()
        await self.start_hub()
        await self.start_runner()
        async with asyncio.timeout(IDLE_SECONDS):
            while True:
                await asyncio.sleep(self.poll_seconds)
                self.check()
                waiting = [id for id, state in self.item_states().items() if not state.final]
                if not waiting and not self.calls and self.checker.state.turn_id is None:
                    break
                self.command(commands.Abort())
        self.checker.check_idle()
        self.checker.check_stored_state(self.hub_state())

    async def _stop(self) -> None:
        self.command(commands.Stop())
        async with asyncio.timeout(60):
            while self.calls:
                await asyncio.sleep(self.poll_seconds / 10)
                self.check()
        await asyncio.sleep(self.poll_seconds / 10)
        self.check()
        assert not self.processes(), "a process runs after its stop"
        assert self.checker.state.status in (SessionStatus.STOPPED, SessionStatus.FAILED)
        self.checker.check_stored_state(self.hub_state())

    def _check_deliveries(self) -> None:
        """The agent has received what the log says, and no message is lost."""
        states = self.item_states()
        by_local_id = dict(
            self.db.execute("SELECT local_id, id FROM items WHERE session_id = ?", (self.session,))
        )
        for name, item_id in self.names.items():
            assert by_local_id[name] == item_id, f"{name} is lost"
        for name, item_id in by_local_id.items():
            state = states[item_id]
            assert state.final, f"{name} has no outcome: {state}"
        self.check_agent({name: states[item_id] for name, item_id in by_local_id.items()})

    def check_agent(self, outcomes: dict[str, ItemState]) -> None:
        received = self.memory.received
        for name, state in outcomes.items():
            if state is ItemState.DELIVERED:
                assert received[name] == 1, (
                    f"{name} is delivered, and the agent has it {received[name]} times"
                )
            elif state is not ItemState.UNKNOWN:
                assert received[name] == 0, f"{name} is {state}, and the agent has it"
        self._check_memory()

    def _check_memory(self) -> None:
        """The agent's conversation is the visible one, unless the log says otherwise."""
        checker = self.checker
        if checker.forgotten or self.memory.wiped:
            return
        native_id = self.hub_state().native_id
        records = self.memory.conversations.get(native_id or self.session, [])
        remembered = {record.name for record in records if record.by_user}
        seen = {
            entry.content.text.split()[0]: checker.items[entry.content.item_id].outcome
            for entry in checker.visible
            if isinstance(entry.content, ev.UserMessage)
        }
        if self.hub_state().cut_at is None:
            assert remembered <= set(seen), f"the agent remembers what was removed: {remembered - set(seen)}"
        if not checker.rewound:
            delivered = {name for name, outcome in seen.items() if outcome is ItemState.DELIVERED}
            assert delivered <= remembered, f"the agent has forgotten {delivered - remembered}"

    async def _close(self) -> None:
        if self.runner is not None:
            await self._runner_tasks.spawn(self.runner.close())
        if self.hub is not None:
            await self._hub_tasks.spawn(self.hub.close())
        left = self.processes()
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


class _PublicationChecker:
    """Checks that what a runner publishes is numbered without a gap."""

    def __init__(self, runner: Runner) -> None:
        outbox: Any = runner._outbox
        self._publish = outbox.publish
        self._last: dict[str, int] = {}
        outbox.publish = self.publish

    def publish(self, state: SessionState, entries: Sequence[EncodedEntry], *, state_changed: bool) -> None:
        for entry in entries:
            last = self._last.get(state.id)
            assert last is None or entry.seq == last + 1, f"published {entry.seq} after {last}"
            self._last[state.id] = entry.seq
        assert not entries or entries[-1].seq == state.seq
        self._publish(state, entries, state_changed=state_changed)


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
        self._errors.append(self.format(record))
