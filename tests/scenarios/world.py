"""A hub and a runner in this process with real agent processes, for tests that crash parts of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from farsteer.cli.daemon.in_process import MemoryLink
from farsteer.cli.daemon.process import cancel_tasks
from farsteer.core.api import CreateSession, SessionCreated
from farsteer.core.events import Delta, decode_entry
from farsteer.core.session import SessionState
from farsteer.hub import CreationResult, Hub
from farsteer.hub.feed import MESSAGE, SyncEvent
from farsteer.runner.journal import Journal, JournalBatch
from farsteer.runner.machine import machine_id
from farsteer.runner.runner import Runner
from farsteer.runner.session.context import TimeLimits
from tests.hub.scripted import caller
from tests.scenarios.agents import RecordedDemo, RecordedDroid, Recording
from tests.scenarios.chat import Chat
from tests.support.agents import ReplacedAgents
from tests.support.droid_simulator import install
from tests.support.eventually import eventually

LIMITS = TimeLimits(startup=10.0, interrupt=1.0, interrupt_end=1.0, stop_grace=0.5, prewarm_delay=0.05)
"""Short enough for tests; those that no test should meet are long."""
CLOSE_SECONDS = 30.0


class _Message(msgspec.Struct):
    message: msgspec.Raw


class _DeltaEvent(msgspec.Struct):
    delta: Delta


class World:
    """Capabilities set on `demo` apply to sessions created afterwards."""

    hub: Hub
    runner: Runner

    def __init__(self, home: Path) -> None:
        self.home = home
        self.caller = caller()
        self.limits = LIMITS
        self.demo = RecordedDemo()
        self.agents: dict[str, Recording] = {"demo": self.demo}
        self.chats: dict[str, Chat] = {}
        self.synced: list[SyncEvent] = []
        """Everything that the hub has broadcast."""
        self._link: MemoryLink | None = None
        self._running: asyncio.Task[None] | None = None

    @classmethod
    @asynccontextmanager
    async def connected(cls, home: Path) -> AsyncGenerator[Self]:
        """A connected hub and runner."""
        world = cls(home)
        await world.start_hub()
        await world.start_runner()
        yield world
        await world.close()

    def limit(self, **limits: float) -> None:
        """Set time limits for sessions created from now on and for the next runner."""
        self.limits = self.runner.limits = replace(self.limits, **limits)

    # -- agents

    def droid(self, profile: str = "0.215", *options: str) -> RecordedDroid:
        """Add the simulated Droid of this version as an agent."""
        droid = RecordedDroid(install(self.home.parent, profile, *options))
        self.agents["droid"] = droid
        return droid

    # -- hub and runner

    async def start_hub(self) -> None:
        self.hub = await Hub.open(self.home, "the-owners-token-of-these-tests")
        self.hub.feed.listen(self._hear)

    async def start_runner(self) -> None:
        self.runner = await Runner.open(
            self.home, limits=self.limits, agents=ReplacedAgents(self.home, self.agents)
        )
        link = self._link = MemoryLink(self.hub)
        self._running = asyncio.create_task(self.runner.run(link.connect))
        await eventually(self.runner.connected.is_set)

    async def stop_hub(self) -> None:
        await self.hub.close()

    async def restart_hub(self) -> None:
        """Restart the hub. The runner continues and reconnects."""
        runner = self.runner
        await self._cut_link()
        await self.stop_hub()
        await self.start_hub()
        link = self._link = MemoryLink(self.hub)
        self._running = asyncio.create_task(runner.run(link.connect))
        await eventually(runner.connected.is_set)

    async def stop_runner(self) -> None:
        """Stop the runner cleanly."""
        await self._cut_link()
        await self.runner.close()

    async def crash_runner(self) -> None:
        """Simulate SIGKILL: nothing more is written or sent, and the output of its agents is lost."""
        await self._cut_link()
        runner = self.runner
        for actor in runner._actors.values():
            if actor._task is not None:
                actor._task.cancel()
                with suppress(asyncio.CancelledError):
                    await actor._task
            actor._timers.cancel_all()
            handle = actor._launcher.current
            if handle is not None and handle._task is not None:
                await cancel_tasks(handle._task)
            if actor._log._save_timer is not None:
                actor._log._save_timer.cancel()
        for agent in self.agents.values():
            await agent.kill_all()
        await runner._journal.close()
        runner._lock.release()

    async def restart_runner(self) -> None:
        """Crash the runner and start a new one from the data on disk."""
        await self.crash_runner()
        await self.start_runner()

    async def _cut_link(self) -> None:
        if self._running is not None:
            await cancel_tasks(self._running)
        if self._link is not None:
            await self._link.close()
        self._running = self._link = None

    async def close(self) -> None:
        for agent in self.agents.values():
            agent.gate.set()
        async with asyncio.timeout(CLOSE_SECONDS):
            if self._running is not None:
                await self.stop_runner()
            await self.stop_hub()

    # -- sessions

    @property
    def machine_id(self) -> str:
        return machine_id(self.home)

    @property
    def directory(self) -> Path:
        """The default directory of sessions."""
        path = self.home.parent / "project"
        path.mkdir(exist_ok=True)
        return path

    async def create(self, agent: str = "demo", **fields: Any) -> Chat:
        created = await self.try_create(agent, **fields)
        assert isinstance(created, SessionCreated), created
        return self.open(created.session_id, agent)

    async def try_create(self, agent: str = "demo", **fields: Any) -> CreationResult:
        asked = {"machine_id": self.machine_id, "directory": str(self.directory), "agent": agent, **fields}
        return await self.hub.sessions.create(self.caller, CreateSession(**asked))

    def open(self, session: str, agent: str = "demo") -> Chat:
        """Open an existing session."""
        chat = self.chats[session] = Chat(self, session, agent)
        self._tell(chat, self.synced)
        return chat

    async def rewrite(self, chat: Chat, **changes: Any) -> SessionState:
        """Change the stored state of a session while no runner runs."""
        journal = await Journal.open(self.home / "runner.db")
        (stored,) = [one for one in await journal.load() if one.spec.id == chat.id]
        state = replace(stored.state, **changes)
        await journal.append(state, JournalBatch())
        await journal.close()
        return state

    def lose(self, chat: Chat) -> None:
        """Delete the agent's own file of the conversation."""
        native_id = chat.state.native_id
        if chat.agent == "demo":
            self.agent_file(native_id or "").unlink()
        else:
            (path,) = self.home.parent.glob(f".factory/sessions/*/{native_id}.jsonl")
            path.unlink()

    def agent_file(self, native_id: str) -> Path:
        """The demo agent's file of a conversation."""
        return self.home / "agents" / "demo" / f"{native_id}.jsonl"

    # -- hearing

    def _hear(self, events: list[SyncEvent]) -> None:
        self.synced += events
        for chat in self.chats.values():
            self._tell(chat, events)

    def _tell(self, chat: Chat, events: list[SyncEvent]) -> None:
        for event in events:
            if event.subject != chat.id:
                continue
            if event.type == MESSAGE:
                raw = msgspec.json.decode(event.data, type=_Message)
                chat.entries.append(decode_entry(bytes(raw.message)))
            elif event.type == "message-delta":
                chat.deltas.append(msgspec.json.decode(event.data, type=_DeltaEvent).delta)
        chat.news.set()
