"""Creating a session on this machine, step by step. The reply lists the steps, whether or not they succeed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from farsteer.agents.process.environment import LaunchMark
from farsteer.core import commands
from farsteer.core.clock import now_ms
from farsteer.core.errors import AgentError, Conflict, ErrorCode, FarsteerError, NotCapable
from farsteer.core.events import Notice, SessionStatus
from farsteer.core.mcp import restore_secrets
from farsteer.core.session import Handoff, SessionSpec, SessionState, SessionType, Worktree
from farsteer.link.messages import LogLine, Reply
from farsteer.runner.git import GitRepository
from farsteer.runner.machine import preferred_agent
from farsteer.runner.session.actor import SessionActor
from farsteer.runner.session.files import NoteChange
from farsteer.runner.worktree_records import MadeWorktree
from farsteer.runner.worktree_setup import SETUP_FILE, is_allowed, read_setup, run_setup
from farsteer.runner.worktrees import common_directory, create_worktree, remove_worktree

if TYPE_CHECKING:
    from farsteer.runner.runner import Runner


def handoff_notice(handoff: Handoff) -> Notice:
    """Return the entry that says where a session comes from, and everything that its agent will be told of that."""
    come = f"Handed over from {handoff.agent}: session {handoff.session_id}, up to entry {handoff.seq}."
    if not handoff.digest:
        return Notice(text=f"{come} The agent has the conversation itself.")
    return Notice(
        text=f"{come} The agent gets this with the first message, and nothing before:\n\n{handoff.digest}"
    )


class SessionSetup:
    """Carries out one `Create` command: a new session, a fork, or the import of a conversation."""

    def __init__(self, runner: Runner, spec: SessionSpec) -> None:
        self._runner = runner
        self._spec = spec
        self._steps: list[LogLine] = []
        self._current_step = "start"
        self._worktree: Worktree | None = None

    async def run(self, call_id: int) -> Reply:
        """Return the reply to the command. If a step fails, everything made before it is removed."""
        try:
            state = await self._run()
        except FarsteerError as error:
            self._add_step(self._current_step, error.message, status="error", code=error.code.value)
            if self._worktree is not None:
                with suppress(FarsteerError):
                    await remove_worktree(self._worktree, self._runner.user)
                    await self._runner.worktrees.records.remove(self._worktree.path)
            return Reply(id=call_id, error=error.record(), logs=self._steps)
        return Reply(id=call_id, logs=self._steps, state=state, seq=state.seq)

    async def _run(self) -> SessionState:
        known = self._runner.actor(self._spec.id)
        if known is not None:
            return await self._repeat(known)
        if self._spec.native_id is not None:
            return await self._import(self._spec.native_id)
        return await self._create()

    async def _repeat(self, actor: SessionActor) -> SessionState:
        """The hub repeats the command, for example after a lost link. The session exists: only resume it."""
        if self._spec.native_id is None and not self._spec.terminal:
            await actor.execute(commands.Resume())
        return actor.state

    async def _create(self) -> SessionState:
        directory = self._check_directory(self._spec.directory)
        spec = self._spec = self._complete(self._spec)
        agent = await self._choose_agent()
        adapter = self._runner.agents.adapter(agent)
        adapter.capabilities.check_options(adapter.title, spec.options)
        adapter.capabilities.check_model(adapter.title, spec.model, adapter.models)
        if spec.terminal and not adapter.capabilities.terminal:
            raise NotCapable(f"{agent} cannot run in a terminal", field="terminal")
        if spec.session_type is SessionType.WORKTREE:
            directory = await self._create_worktree(directory)
        self._current_step = "launch"
        actor = await self._runner.create_session(
            spec,
            SessionState(
                id=spec.id,
                agent=agent,
                directory=str(directory),
                status=SessionStatus.STOPPED if spec.terminal else SessionStatus.STARTING,
                title=spec.title,
                title_by_user=spec.title is not None,
                permission_mode=spec.permission_mode,
                model=spec.model,
                effort=spec.effort,
                worktree=self._worktree,
                seq=spec.fork.copied if spec.fork else 0,
                fork_of=spec.fork.native_id if spec.fork else None,
                cut_at=spec.fork.cut_at if spec.fork else None,
                digest_due=spec.handoff is not None and bool(spec.handoff.digest),
            ),
            [handoff_notice(spec.handoff)] if spec.handoff is not None else (),
        )
        if spec.terminal:
            self._add_step("launch", f"{agent} waits for `farsteer run`")
            return actor.state
        try:
            await actor.execute(commands.Create(spec=spec))
        except BaseException:
            await self._runner.delete_session(spec.id)
            raise
        self._add_step("launch", f"{agent} is ready for a message")
        if spec.handoff is not None:
            await self._tell_source(spec.handoff, agent)
        return actor.state

    async def _tell_source(self, handoff: Handoff, agent: str) -> None:
        source = self._runner.actor(handoff.session_id)
        if source is not None:
            text = f"Handed over to {agent}: session {self._spec.id}"
            with suppress(FarsteerError):
                await source.execute(NoteChange(text, handed_off_to=self._spec.id))

    async def _import(self, native_id: str) -> SessionState:
        """Make a session of a conversation that the agent has already. Its history begins the log."""
        self._runner.check_may_read_conversations()
        agent = await self._choose_agent()
        self._current_step = "history"
        session = self._runner.find_session(agent, native_id)
        if session is not None:
            raise Conflict(f"this conversation is already session {session}", session=session)
        conversation = (agent, native_id)
        if conversation in self._runner.importing:
            raise Conflict("this conversation is being imported")
        self._runner.importing.add(conversation)
        try:
            return await self._import_history(agent, native_id)
        finally:
            self._runner.importing.discard(conversation)

    async def _import_history(self, agent: str, native_id: str) -> SessionState:
        spec, runner = self._spec, self._runner
        conversation, events = await self._runner.agents.adapter(agent).read_history(
            native_id, str(runner.state_dir(agent))
        )
        self._add_step("history", f"{len(events)} entries of {native_id}")
        directory = self._check_directory(conversation.directory or spec.directory)
        title = spec.title or conversation.title
        # The session has the id of the conversation. An import that was interrupted may have left rows under it.
        await runner.delete_session(spec.id)
        actor = await runner.create_session(
            spec,
            SessionState(
                id=spec.id, agent=agent, directory=str(directory), status=SessionStatus.STOPPED, title=title,
                title_by_user=spec.title is not None, permission_mode=spec.permission_mode, model=spec.model,
                effort=spec.effort, native_id=native_id, registered=True,
            ),
            events,
        )  # fmt: skip
        return actor.state

    def _check_directory(self, wanted: str) -> Path:
        self._current_step = "directory"
        directory = self._runner.directories.check(wanted)
        self._add_step("directory", f"running in {directory}")
        return directory

    def _complete(self, spec: SessionSpec) -> SessionSpec:
        """Resolve the additional directories, and give a fork the MCP secrets that only this machine has."""
        check = self._runner.directories.check
        more = tuple(str(check(directory)) for directory in spec.additional_directories)
        spec = replace(spec, additional_directories=more)
        if spec.fork is None or not spec.mcp_servers:
            return spec
        source = self._runner.actor(spec.fork.session_id)
        known = source.spec.mcp_servers if source is not None else ()
        return replace(spec, mcp_servers=restore_secrets(spec.mcp_servers, known))

    async def _choose_agent(self) -> str:
        self._current_step = "agent"
        runner = self._runner
        name = self._spec.agent or preferred_agent(await runner.describe(), runner.settings)
        info = await (await runner.agents.find(name)).detect()
        if not info.available:
            how = f" ({info.install})" if info.install else ""
            raise AgentError(
                f"{info.title} is not installed on this machine: {info.reason or 'not found'}{how}",
                code=ErrorCode.AGENT_NOT_INSTALLED,
            )
        self._add_step("agent", f"{info.title} {info.version or ''}".strip())
        return name

    async def _create_worktree(self, directory: Path) -> Path:
        self._current_step = "worktree"
        runner, spec = self._runner, self._spec
        worktree = await create_worktree(
            directory,
            spec.worktree_name,
            runner.directories,
            runner.user,
            base=spec.worktree_base,
            note=self._note,
        )
        self._worktree = worktree
        begins = f", from {worktree.base_branch or (worktree.base_commit or '')[:12]}"
        self._add_step("worktree", f"worktree {worktree.path} on branch {worktree.branch}{begins}")
        # What is there now is what is launched: `<repository>-worktrees` may be a link.
        place = runner.directories.check(worktree.path)
        await self._set_up(place)
        return place

    async def _note(self, worktree: Worktree) -> None:
        await self._runner.worktrees.records.put(MadeWorktree(worktree, self._spec.id))

    async def _set_up(self, place: Path) -> None:
        """Run what the repository wants to run in a new worktree, if the owner of this machine allows that."""
        self._current_step = "setup"
        runner = self._runner
        checkout = await GitRepository.find(place, runner.user)
        found = await read_setup(checkout)
        if found is None:
            return
        repository = await common_directory(checkout)
        if not await asyncio.to_thread(is_allowed, runner.home, repository, found.digest):
            base = self._worktree.base if self._worktree else place
            self._add_step(
                "setup",
                f"not run: nobody allowed this {SETUP_FILE} on this machine (farsteer worktrees allow {base})",
            )
            return
        mark = LaunchMark(runner.home_id, 0, self._spec.id)
        await run_setup(found.setup, place, mark, runner.user)
        count = len(found.setup.setup)
        self._add_step(
            "setup", f"{count} commands of {SETUP_FILE} have run" if count != 1 else "1 command has run"
        )

    def _add_step(self, step: str, message: str, *, status: str = "ok", code: str | None = None) -> None:
        self._steps.append(LogLine(timestamp=now_ms(), step=step, message=message, status=status, code=code))
