"""The runner: the sessions of one machine, each with its actor, and the link to the hub."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from farsteer.agents import registry
from farsteer.agents.process.user import AgentUser
from farsteer.core import commands
from farsteer.core.capabilities import MachineInfo
from farsteer.core.errors import FarsteerError, Internal, NotCapable, NotFound
from farsteer.core.events import SessionEvent
from farsteer.core.session import SessionSpec, SessionState, StoredConversation
from farsteer.core.wire import to_builtins
from farsteer.link.messages import Call, Reply, Welcome
from farsteer.runner import machine, orphans
from farsteer.runner.agent_places import AgentPlaces
from farsteer.runner.directories import SessionDirectories
from farsteer.runner.journal import Journal, StoredSession
from farsteer.runner.link_client import Connect, LinkClient
from farsteer.runner.machine import RunnerSettings, load_settings
from farsteer.runner.outbox import Outbox
from farsteer.runner.session.actor import SessionActor
from farsteer.runner.session.context import ActorContext, TimeLimits
from farsteer.runner.session.log import SessionLog
from farsteer.runner.session_setup import SessionSetup
from farsteer.storage.home import HomeLock, prepare_home

_logger = logging.getLogger(__name__)


class Runner:
    """Use `Runner.open` to make one, `run` to connect it to a hub, and `close` at the end."""

    def __init__(
        self, home: Path, lock: HomeLock, journal: Journal, settings: RunnerSettings, user: AgentUser | None,
        limits: TimeLimits,
    ) -> None:  # fmt: skip
        self.home = home
        self._home_id = orphans.home_id(home)
        self._lock = lock
        self.settings = settings
        self.directories = SessionDirectories(home, settings.roots)
        self.user = user
        """The user that agents run as, if it is not the runner's own."""
        self._places = AgentPlaces(settings.live_agents)
        self.limits = limits
        self._journal = journal
        self._outbox = Outbox()
        self._actors: dict[str, SessionActor] = {}
        self.importing: set[tuple[str, str]] = set()
        """Agent and native id of the conversations that are being imported."""
        self._link = LinkClient(journal, self._outbox, self)

    @classmethod
    async def open(cls, home: Path, *, limits: TimeLimits | None = None) -> Runner:
        """Lock `home`, kill what an earlier runner left running, and load the sessions of the journal.

        The sessions begin to work when a hub has said how much of their logs it holds (`handle_welcome`).
        """
        lock = HomeLock(prepare_home(home), "runner")
        try:
            await asyncio.to_thread(orphans.kill_orphans, home)
            settings = load_settings(home)
            user = None if settings.run_as is None else AgentUser.find(settings.run_as)
            journal = await Journal.open(home / "runner.db")
            runner = cls(home, lock, journal, settings, user, limits or TimeLimits())
        except BaseException:
            lock.release()
            raise
        for stored in await journal.load():
            try:
                runner._add_actor(stored)
            except FarsteerError as error:
                _logger.error("session %s cannot be loaded: %s", stored.spec.id, error)
        return runner

    @property
    def connected(self) -> asyncio.Event:
        """Set while a hub has accepted this machine."""
        return self._link.connected

    async def run(self, connect: Connect) -> None:
        """Keep a link to the hub until cancelled. Raises BadRequest if the machine's key is damaged."""
        await self._link.run(connect, await self.describe(), machine.machine_key(self.home))

    async def describe(self) -> MachineInfo:
        return await machine.describe(self.home, self.settings)

    async def close(self) -> None:
        """Stop every agent, commit every session and release the home."""
        await asyncio.gather(*(actor.close("the runner was shut down") for actor in self._actors.values()))
        await self._journal.close()
        self._lock.release()

    # -- the link

    async def handle(self, call: Call) -> Reply:
        """Execute a call of the hub. Never raises: errors are part of the reply."""
        command = call.command
        try:
            match command:
                case commands.Create():
                    return await SessionSetup(self, command.spec).run(call.id)
                case commands.ListConversations():
                    return Reply(id=call.id, result=to_builtins(await self.list_conversations(command)))
                case commands.Delete():
                    await self.delete_session(call.session)
                    return Reply(id=call.id)
                case _:
                    actor = self._actors.get(call.session)
                    if actor is None:
                        raise NotFound("this machine does not have that session")
                    result = await actor.execute(command)
                    return Reply(id=call.id, seq=actor.state.seq, result=to_builtins(result))
        except FarsteerError as error:
            return Reply(id=call.id, error=error.record())
        except Exception as error:
            _logger.exception("%s failed", type(command).__name__)
            return Reply(id=call.id, error=Internal(f"the runner failed: {type(error).__name__}").record())

    async def handle_welcome(self, welcome: Welcome) -> None:
        """Delete the sessions that the hub has deleted, and start those that wait since the runner was opened.

        Their logs continue after the last entry that the hub holds. Sessions of another hub are left as they are.
        """
        for session in welcome.deleted:
            await self.delete_session(session)
        for session, actor in self._actors.items():
            if not actor.is_running and session not in welcome.foreign:
                actor.catch_up(welcome.acked.get(session, 0))
                self._outbox.update_state(actor.state)
                actor.run_in_background()

    # -- sessions

    def actor(self, session: str) -> SessionActor | None:
        return self._actors.get(session)

    def find_session(self, agent: str, native_id: str) -> str | None:
        """Return the id of the session that uses this conversation of an agent."""
        for session, actor in self._actors.items():
            if actor.state.agent == agent and actor.state.native_id == native_id:
                return session
        return None

    async def create_session(
        self, spec: SessionSpec, state: SessionState, history: Sequence[SessionEvent] = ()
    ) -> SessionActor:
        """Store a new session and run its actor. Its log begins with `history`."""
        await self._journal.create_session(spec, state)
        actor = self._add_actor(StoredSession(spec, state))
        await actor.import_history(history)
        actor.run_in_background()
        return actor

    def _add_actor(self, stored: StoredSession) -> SessionActor:
        """Make the actor of a session that is in the journal. The caller runs it."""
        spec, state = stored.spec, stored.state
        adapter = registry.adapter(state.agent)
        log = SessionLog(
            state, self._journal, self._outbox, stored.finished_items, stored.message_sizes, stored.drafts
        )
        context = ActorContext(
            adapter, str(self.state_dir(state.agent)), self.limits, self.settings.environment, self._home_id,
            self.user, self._agent_dir(state.agent), self.directories, self._places,
        )  # fmt: skip
        actor = self._actors[spec.id] = SessionActor(spec, log, context)
        self._outbox.add_session(state, log)
        return actor

    async def delete_session(self, session: str) -> None:
        """Stop a session and delete everything of it on this machine. Idempotent."""
        actor = self._actors.pop(session, None)
        if actor is not None:
            await actor.close("the session was deleted")
            await self._delete_conversations(actor)
        self._outbox.remove_session(session)
        await self._journal.delete_session(session)

    async def _delete_conversations(self, actor: SessionActor) -> None:
        """Delete the agent's own files of a session.

        An imported conversation is kept, and so is one that another session uses or has yet to be forked from.
        """
        state = actor.state
        adapter, state_dir = registry.adapter(state.agent), str(self.state_dir(state.agent))
        others = [other.state for other in self._actors.values()]
        kept = {actor.spec.native_id, *(one.fork_of for one in others), *(one.native_id for one in others)}
        for native_id in {*state.left_behind, state.native_id}:
            if native_id is None or native_id in kept:
                continue
            try:
                await adapter.delete_conversation(native_id, state_dir)
            except (OSError, FarsteerError):
                _logger.exception("session %s: the agent's files could not be deleted", state.id)

    # -- conversations of the agents

    async def list_conversations(self, wanted: commands.ListConversations) -> list[StoredConversation]:
        """List what an agent has stored in directories where sessions may run, with the session of each, if any."""
        self.check_may_read_conversations()
        adapter = registry.adapter(wanted.agent)
        found = await adapter.list_conversations(
            str(self.state_dir(adapter.name)), wanted.directory, wanted.limit
        )
        return [
            replace(one, session_id=self.find_session(one.agent, one.native_id))
            for one in found
            if self.directories.allows(one.directory)
        ]

    def check_may_read_conversations(self) -> None:
        """Raise NotCapable if agents run as another user: this process must not open what that user wrote."""
        if self.user is not None:
            raise NotCapable(
                f"the agents of this machine run as {self.user.name} (run_as); their conversations cannot be imported"
            )

    def _agent_dir(self, agent: str) -> str:
        """Return the directory in which the agent's process keeps its files, if it is not `state_dir`."""
        if self.user is None:
            return ""
        return self.user.make_directory(f"{self.user.home}/.local/state/farsteer/{agent}")

    def state_dir(self, agent: str) -> Path:
        """Return the directory in which an adapter keeps its files. Creates it if necessary."""
        path = self.home / "agents" / agent
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path
