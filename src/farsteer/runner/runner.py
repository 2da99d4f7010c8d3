"""The runner: one machine's sessions, each with its actor, joined to the hub by one link."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from farsteer.agents import registry
from farsteer.agents.base import Adapter
from farsteer.agents.process.environment import scrub_environment
from farsteer.core import commands
from farsteer.core.capabilities import MachineInfo
from farsteer.core.errors import FarsteerError, Internal, NotFound
from farsteer.core.events import SessionEvent
from farsteer.core.session import SessionSpec, SessionState, StoredConversation
from farsteer.core.wire import to_builtins
from farsteer.link.messages import Call, Reply, Welcome
from farsteer.runner import machine, orphans
from farsteer.runner.journal import Journal, StoredSession
from farsteer.runner.link_client import Connect, LinkClient
from farsteer.runner.machine import RunnerSettings, is_inside_roots, load_settings
from farsteer.runner.outbox import Outbox
from farsteer.runner.session.actor import SessionActor
from farsteer.runner.session.context import ActorContext, Limits
from farsteer.runner.session.log import SessionLog
from farsteer.runner.session_creator import SessionCreator
from farsteer.storage.home import HomeLock, prepare_home

_log = logging.getLogger(__name__)


class Runner:
    def __init__(
        self, home: Path, lock: HomeLock, journal: Journal, settings: RunnerSettings, limits: Limits
    ) -> None:
        self.home = home
        self._home_id = orphans.home_id(home)
        self._lock = lock
        self.settings = settings
        self.limits = limits
        self._journal = journal
        self._lanes = Outbox()
        self._actors: dict[str, SessionActor] = {}
        self.adopting: set[tuple[str, str]] = set()
        """Conversations that are being made sessions."""
        self._uplink = LinkClient(journal, self._lanes, self.handle, self._welcomed)

    @classmethod
    async def open(cls, home: Path, *, limits: Limits | None = None) -> Runner:
        """End what an earlier life in `home` left running, and take up the sessions that its journal holds."""
        lock = HomeLock(prepare_home(home), "runner")
        try:
            await asyncio.to_thread(orphans.reap, home)
            journal = await Journal.open(home / "runner.db")
            runner = cls(home, lock, journal, load_settings(home), limits or Limits())
        except BaseException:
            lock.release()
            raise
        for stored in await journal.load():
            try:
                runner.adopt(stored)
            except FarsteerError as error:
                _log.error("session %s is left alone: %s", stored.spec.id, error)
        return runner

    @property
    def connected(self) -> asyncio.Event:
        """Set while a hub has welcomed this machine."""
        return self._uplink.connected

    async def run(self, connect: Connect) -> None:
        """Keep the link until cancelled."""
        await self._uplink.run(connect, await self.describe())

    async def describe(self) -> MachineInfo:
        return await machine.describe(self.home, self.settings)

    async def close(self) -> None:
        """End every agent and write down how each session stands."""
        await asyncio.gather(*(actor.close("the runner was shut down") for actor in self._actors.values()))
        await self._journal.close()
        self._lock.release()

    async def handle(self, call: Call) -> Reply:
        """Do one call of the hub. Never raises: an error is an answer."""
        command = call.command
        try:
            if isinstance(command, commands.Create):
                return await SessionCreator(self, command.spec).run(call.id)
            if isinstance(command, commands.ListConversations):
                return Reply(id=call.id, result=to_builtins(await self.conversations(command)))
            actor = self._actors.get(call.session)
            if isinstance(command, commands.Delete):
                await self.forget(call.session)
            elif actor is None:
                raise NotFound("this machine does not have that session")
            else:
                result = await actor.ask(command)
                return Reply(id=call.id, seq=actor.state.seq, result=to_builtins(result))
        except FarsteerError as error:
            return Reply(id=call.id, error=error.record())
        except Exception as error:  # noqa: BLE001
            _log.exception("a call failed")
            return Reply(id=call.id, error=Internal(f"the runner failed: {type(error).__name__}").record())
        return Reply(id=call.id)

    def actor(self, session: str) -> SessionActor | None:
        return self._actors.get(session)

    async def conversations(self, wanted: commands.ListConversations) -> list[StoredConversation]:
        """What an agent has stored here, where sessions may run; each that is a session already says which."""
        adapter = registry.adapter(wanted.agent)
        found = await adapter.list_conversations(
            str(self.state_dir(adapter.name)), wanted.directory, wanted.limit
        )
        return [
            replace(one, session_id=self.session_of(one.agent, one.native_id))
            for one in found
            if is_inside_roots(one.directory, self.settings.roots)
        ]

    def session_of(self, agent: str, native_id: str) -> str | None:
        """The session that a conversation belongs to."""
        for session, actor in self._actors.items():
            if actor.state.agent == agent and actor.state.native_id == native_id:
                return session
        return None

    def state_dir(self, agent: str) -> Path:
        """Where an adapter keeps its files."""
        path = self.home / "agents" / agent
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    async def create(
        self, spec: SessionSpec, state: SessionState, history: Sequence[SessionEvent] = ()
    ) -> SessionActor:
        """A new session; `history` is what its log begins with."""
        await self._journal.create(spec, state)
        actor = self.adopt(StoredSession(spec, state))
        await actor.begin_with(history)
        return actor

    async def _welcomed(self, welcome: Welcome) -> None:
        """What the hub has tells the sessions of an earlier life where they are; only then do they go on."""
        for session in welcome.deleted:
            await self.forget(session)
        for session, actor in self._actors.items():
            if not actor.begun and session not in welcome.foreign:
                actor.catch_up(welcome.acked.get(session, 0))
                self._lanes.restate(actor.state)
                actor.begin()

    def adopt(self, stored: StoredSession) -> SessionActor:
        """The actor of a session that is in the journal; the caller begins it."""
        spec, state = stored.spec, stored.state
        adapter = registry.adapter(state.agent)
        state_dir = self.state_dir(state.agent)
        log = SessionLog(state, self._journal, self._lanes, stored.settled, stored.payloads, stored.drafts)
        context = ActorContext(adapter, str(state_dir), self._environment, self.limits, self._home_id)
        actor = self._actors[spec.id] = SessionActor(spec, log, context)
        self._lanes.track(state, log)
        return actor

    async def forget(self, session: str) -> None:
        """End a session and every trace of it on this machine. Idempotent."""
        actor = self._actors.pop(session, None)
        if actor is not None:
            await actor.close("the session was deleted")
            await self._discard(actor)
        self._lanes.forget(session)
        await self._journal.forget(session)

    async def _discard(self, actor: SessionActor) -> None:
        """The agent's own files go too, unless the conversation was there before us or somebody still needs it."""
        state = actor.state
        adapter, state_dir = registry.adapter(state.agent), str(self.state_dir(state.agent))
        # A fork that has not begun yet begins with one of them, and one that was left may have been adopted.
        others = [other.state for other in self._actors.values()]
        kept = {actor.spec.native_id, *(one.fork_of for one in others), *(one.native_id for one in others)}
        for native_id in {*state.left_behind, state.native_id}:
            if native_id is None or native_id in kept:
                continue
            try:
                await adapter.delete_conversation(native_id, state_dir)
            except (OSError, FarsteerError):
                _log.exception("session %s: the agent's files could not be deleted", state.id)

    def _environment(self, adapter: Adapter) -> dict[str, str]:
        return scrub_environment(os.environ, (*adapter.environment_names, *self.settings.environment))
