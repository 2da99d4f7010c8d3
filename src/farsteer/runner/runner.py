"""The runner: the sessions of one machine, each with its actor, and the link to the hub."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from farsteer.agents.process.user import AgentUser
from farsteer.agents.registry import AgentRegistry
from farsteer.core import commands
from farsteer.core.capabilities import MachineInfo
from farsteer.core.errors import FarsteerError, Internal, NotCapable, NotFound
from farsteer.core.events import SessionEvent
from farsteer.core.file_commands import BrowseDirectories, FileCommand
from farsteer.core.queue import ItemState, Queue
from farsteer.core.session import SessionSpec, SessionState, StoredConversation
from farsteer.core.wire import to_builtins
from farsteer.link.messages import Call, Reply, Welcome
from farsteer.runner import held_sessions, machine, orphans
from farsteer.runner.agent_places import AgentPlaces
from farsteer.runner.directories import SessionDirectories
from farsteer.runner.files import MachineFiles
from farsteer.runner.journal import ItemOutcome, Journal, StoredSession
from farsteer.runner.lease import RunnerLease
from farsteer.runner.link_client import Connect, LinkClient, LinkTransport
from farsteer.runner.machine import RunnerSettings, load_settings
from farsteer.runner.outbox import Outbox
from farsteer.runner.session.actor import SessionActor
from farsteer.runner.session.context import ActorContext, SessionAgent, TimeLimits
from farsteer.runner.session.log import SessionLog
from farsteer.runner.session_setup import SessionSetup
from farsteer.runner.terminals import TerminalServer
from farsteer.runner.worktree_commands import WorktreeCommands
from farsteer.storage.failures import storage_error
from farsteer.storage.home import HomeLock, prepare_home

_CLOSED_TOGETHER = 16
"""How many sessions begin to close in one iteration of the event loop. All of them are closing at the same time."""

_logger = logging.getLogger(__name__)


class Runner:
    """Use `Runner.open` to make one, `run` to connect it to a hub, and `close` at the end."""

    def __init__(
        self, home: Path, lock: HomeLock, journal: Journal, settings: RunnerSettings, user: AgentUser | None,
        limits: TimeLimits, agents: AgentRegistry,
    ) -> None:  # fmt: skip
        self.home = home
        self.home_id = orphans.home_id(home)
        self._lock = lock
        self.settings = settings
        self.directories = SessionDirectories(home, settings.roots)
        self.user = user
        """The user that agents run as, if it is not the runner's own."""
        self._places = AgentPlaces(settings.live_agents)
        self.limits = limits
        self.agents = agents
        self._journal = journal
        self._outbox = Outbox()
        self._actors: dict[str, SessionActor] = {}
        self._deletions: dict[str, asyncio.Task[None]] = {}
        self.importing: set[tuple[str, str]] = set()
        """Agent and native id of the conversations that are being imported."""
        self.lease = RunnerLease(home, lock.place)
        self._link = LinkClient(journal, self._outbox, self, self.lease)
        self._terminals = TerminalServer(home, self._actors.get)
        self.worktrees = WorktreeCommands(home, self.directories, user, self._actors)
        self._files = MachineFiles(home, self.directories, user)

    @classmethod
    async def open(
        cls, home: Path, *, limits: TimeLimits | None = None, agents: AgentRegistry | None = None
    ) -> Runner:
        """Lock `home`, kill what an earlier runner left running, load the sessions, finish changes of worktrees.

        The sessions begin to work when a hub has said how much of their logs it holds (`handle_welcome`).
        """
        lock = HomeLock(prepare_home(home), "runner")
        try:
            await asyncio.to_thread(orphans.kill_orphans, home)
            settings = load_settings(home)
            user = None if settings.run_as is None else AgentUser.find(settings.run_as)
            journal = await Journal.open(home / "runner.db")
        except BaseException:
            lock.release()
            raise
        try:
            runner = cls(
                home, lock, journal, settings, user, limits or TimeLimits(), agents or AgentRegistry(home)
            )
            await runner._load_sessions()
            await runner.worktrees.recover()
        except BaseException:
            await journal.close()
            lock.release()
            raise
        return runner

    @property
    def connected(self) -> asyncio.Event:
        """Set while a hub has accepted this machine."""
        return self._link.connected

    async def run(self, connect: Connect) -> None:
        """Keep a link to the hub until cancelled.

        Raises BadRequest if the machine's key is damaged, and Unavailable if the home was removed.
        """
        info, key = await self.describe(), machine.machine_key(self.home)

        async def connect_after_deletions() -> LinkTransport:
            # `Hello` names the sessions of this machine, which those are not any more.
            await self._finish_deletions()
            return await connect()

        link = asyncio.create_task(self._link.run(connect_after_deletions, info, key))
        failure = asyncio.create_task(self._journal.failure())
        try:
            await asyncio.wait({link, failure}, return_when=asyncio.FIRST_COMPLETED)
            if failure.done():
                raise failure.result()
            link.result()
        finally:
            for task in (link, failure):
                task.cancel()
            await asyncio.gather(link, failure, return_exceptions=True)

    async def accept_terminals(self) -> None:
        """Let `farsteer run` attach terminals to sessions, until `close`."""
        await self._terminals.start()

    def models(self) -> dict[str, tuple[str, ...]]:
        """Return the models of each agent, as far as they are known now."""
        return self.agents.models()

    async def describe(self) -> MachineInfo:
        return await machine.describe(self.home, self.settings, self.agents)

    async def close(self) -> None:
        """Stop every agent, commit every session and release the home. A hub that is connected gets the rest."""
        self._link.begin_end()
        await self._terminals.close()
        closing: list[asyncio.Task[None]] = []
        for actor in list(self._actors.values()):
            closing.append(asyncio.create_task(actor.close("the runner was shut down")))
            if len(closing) % _CLOSED_TOGETHER == 0:
                await asyncio.sleep(0)
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if error is not None:
                _logger.error("a session was not closed: %s", error)
        await self._finish_deletions()
        await self.worktrees.close()
        await self._link.end()
        await self._journal.close()
        self._lock.release()

    # -- the link

    async def handle(self, call: Call) -> Reply:
        """Execute a call of the hub. Never raises: errors are part of the reply.

        The hub gets an error, too, only after the events up to `seq`: then it knows what the command did nevertheless.
        """
        command = call.command
        try:
            match command:
                case commands.Create():
                    return await SessionSetup(self, command.spec).run(call.id)
                case commands.ListConversations():
                    return Reply(id=call.id, result=to_builtins(await self.list_conversations(command)))
                case commands.DescribeSessions():
                    held = await held_sessions.describe(
                        command.session_ids, self._actors, self._outbox, self._journal
                    )
                    return Reply(id=call.id, result=to_builtins(held))
                case commands.Adopt():
                    self.adopt_session(call.session, command.acked)
                    return Reply(id=call.id)
                case commands.Delete():
                    await self.delete_session(call.session)
                    return Reply(id=call.id)
                case commands.ListWorktrees():
                    return Reply(id=call.id, result=to_builtins(await self.worktrees.list()))
                case commands.CleanWorktrees():
                    return Reply(id=call.id, result=to_builtins(await self.worktrees.clean(command)))
                case BrowseDirectories():
                    return Reply(id=call.id, result=await self._files.answer(command, None))
                case _:
                    actor = self._actors.get(call.session)
                    if actor is None:
                        raise NotFound("this machine does not have that session")
                    if isinstance(command, FileCommand):
                        return Reply(id=call.id, result=await self._files.answer(command, actor.state))
                    if isinstance(command, commands.WorktreeCommand):
                        result = await self.worktrees.execute(actor, command)
                    else:
                        result = await actor.execute(command)
                    return Reply(id=call.id, seq=actor.state.seq, result=to_builtins(result))
        except FarsteerError as error:
            failure = error
        except sqlite3.Error as error:
            _logger.error("%s failed: %s", type(command).__name__, error)
            return Reply(id=call.id, error=storage_error(error, self._journal.path).record())
        except Exception as error:
            _logger.exception("%s failed", type(command).__name__)
            failure = Internal(f"the runner failed: {type(error).__name__}")
        known = self._actors.get(call.session)
        return Reply(id=call.id, seq=0 if known is None else known.state.seq, error=failure.record())

    async def handle_welcome(self, welcome: Welcome) -> None:
        """Bring the sessions in line with what the hub has, and start those that wait since the runner was opened.

        Sessions that the hub has deleted are deleted, those of which it has a newer state go on with that, and every
        item on which the two differ gets its outcome. Logs continue after the last entry that the hub holds. Sessions
        of another hub are left as they are. If another runner acted as this machine meanwhile, all sessions begin anew,
        as after a restart.
        """
        if self.lease.was_passed_on(welcome.lease):
            await self._reload_sessions()
        for session in welcome.deleted:
            await self.delete_session(session)
        restored = await self._restore_sessions(welcome)
        await self._mark_lost_outcomes(welcome.acked)
        for session, actor in self._actors.items():
            if session in welcome.foreign:
                continue
            acked = welcome.acked.get(session, 0)
            if not actor.is_running:
                actor.log.catch_up(acked)
                self._outbox.update_state(actor.state)
            items = welcome.items.get(session, {})
            for command in settling_commands(items, acked, actor.state.queue, restored=session in restored):
                actor.settle(command)
            if not actor.is_running:
                actor.run_in_background()
        could_start = self.lease.may_start
        await self.lease.grant(welcome.lease)
        if not could_start:
            for actor in self._actors.values():
                actor.resume_work()

    async def _reload_sessions(self) -> None:
        reason = "another runner acted as this machine"
        await asyncio.gather(*(actor.close(reason) for actor in self._actors.values()))
        for session in self._actors:
            self._outbox.remove_session(session)
        self._actors.clear()
        await self._load_sessions()

    async def _restore_sessions(self, welcome: Welcome) -> set[str]:
        """Take over the states of sessions that this runner does not have, or has in an older state.

        That happens after the journal was lost or restored from a backup. Returns the ids of these sessions.
        """
        restored: dict[str, StoredSession] = {}
        outcomes: list[tuple[str, ItemOutcome]] = []
        for known in welcome.restored:
            id, acked = known.spec.id, welcome.acked.get(known.spec.id, 0)
            state = replace(known.state, seq=max(known.state.seq, acked))
            actor = self._actors.get(id)
            if actor is None:
                restored[id] = StoredSession(known.spec, state, confirmed=state.seq)
            elif not actor.is_running and actor.log.differs(state):
                restored[id] = actor.log.restored(actor.spec, state)
            else:
                continue
            # What this runner may have had is noted with the state: the next welcome would not name it again.
            outcomes += [
                (id, ItemOutcome(item, known_state, state.seq) if known_state.final else _lost(item))
                for item, known_state in welcome.items.get(id, {}).items()
                if all(ref.id != item for ref in state.queue)
            ]
        if restored:
            _logger.warning("%d sessions go on with the state that the hub has of them", len(restored))
            await self._journal.restore_sessions([*restored.values()], outcomes)
        for stored in restored.values():
            self._load_session(stored)
        return {*restored}

    async def _mark_lost_outcomes(self, acked: Mapping[str, int]) -> None:
        """Find out which outcomes a hub that was set back has lost, before anybody asks for them."""
        positions = [
            actor.log.position(acked[session])
            for session, actor in self._actors.items()
            if acked.get(session, actor.state.seq) < actor.state.seq
        ]
        if positions:
            await self._journal.mark_lost(positions)

    # -- sessions

    async def _load_sessions(self) -> None:
        for stored in await self._journal.load():
            self._load_session(stored)

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

    def _load_session(self, stored: StoredSession) -> None:
        """Make the actor of a stored session, unless this machine cannot run it."""
        try:
            self._add_actor(stored)
        except FarsteerError as error:
            _logger.error("session %s cannot be loaded: %s", stored.spec.id, error)

    def find_agent(self, name: str) -> SessionAgent:
        """Return an agent for a session of this machine. Raises AgentError."""
        return SessionAgent(self.agents.adapter(name), str(self.state_dir(name)), self._agent_dir(name))

    def _add_actor(self, stored: StoredSession) -> SessionActor:
        """Make the actor of a session that is in the journal. The caller runs it."""
        spec, state = stored.spec, stored.state
        log = SessionLog(state, self._journal, self._outbox, stored.message_sizes, stored.drafts)
        context = ActorContext(
            self.find_agent(state.agent), self.limits, self.settings.environment, self.home_id, self.user,
            self.find_agent, self.directories, self._places, self.lease,
            "" if spec.handoff is None else spec.handoff.digest,
        )  # fmt: skip
        actor = self._actors[spec.id] = SessionActor(spec, log, context)
        self._outbox.add_session(state, log, stored.confirmed)
        return actor

    def adopt_session(self, session: str, acked: int) -> None:
        """Go on with a session that the hub did not know and has now, with its log up to `acked`. Idempotent."""
        actor = self._actors.get(session)
        if actor is None:
            raise NotFound("this machine does not have that session")
        if not actor.is_running:
            actor.log.catch_up(acked)
            self._outbox.update_state(actor.state)
            actor.run_in_background()
        self._outbox.adopt(session, acked)

    async def delete_session(self, session: str) -> None:
        """Stop a session and delete everything of it on this machine. Idempotent.

        That is finished also if the caller is cancelled because its link ends: half a session can be neither used nor
        deleted.
        """
        if session not in self._deletions:
            deletion = self._deletions[session] = asyncio.create_task(self._delete_session(session))
            deletion.add_done_callback(lambda _: self._deletions.pop(session))
        await asyncio.shield(self._deletions[session])

    async def _finish_deletions(self) -> None:
        await asyncio.gather(*self._deletions.values(), return_exceptions=True)

    async def _delete_session(self, session: str) -> None:
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
        adapter, state_dir = self.agents.adapter(state.agent), str(self.state_dir(state.agent))
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
        adapter = self.agents.adapter(wanted.agent)
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
        """Return the directory in which an adapter keeps its files. Creates it if necessary, but never the home."""
        path = self.home / "agents" / agent
        for directory in (path.parent, path):
            directory.mkdir(mode=0o700, exist_ok=True)
        return path


def _lost(item: str) -> ItemOutcome:
    """Return the outcome of an item that this runner may have had, before the log has it."""
    return ItemOutcome(item, ItemState.UNKNOWN, 0)


def settling_commands(
    items: Mapping[str, ItemState], acked: int, queue: Queue, *, restored: bool
) -> list[commands.Settle]:
    """Return what to settle of the items on which hub and runner differ.

    Args:
        items: The items with their states on the hub.
        acked: The last entry that the hub has.
        queue: What waits in the session or is in work.
        restored: The session goes on with the hub's state. The hub's log has the outcomes that this state reflects, and
            what was accepted may have run.
    """
    queued = {ref.id for ref in queue}
    found: list[commands.Settle] = []
    for item, state in items.items():
        if state.final and (item in queued or not restored):
            reason = "the hub has this outcome of it"
            found.append(commands.Settle(item, state, acked, reason))
        elif not state.final and item not in queued and (restored or state is not ItemState.ACCEPTED):
            reason = "the runner no longer has this message"
            found.append(commands.Settle(item, ItemState.UNKNOWN, acked, reason))
    return found
