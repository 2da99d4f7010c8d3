"""Creating a session, step by step, each step told to the caller whether it ends well or not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from farsteer.agents import registry
from farsteer.core import commands
from farsteer.core.clock import now_ms
from farsteer.core.errors import AgentError, Conflict, ErrorCode, FarsteerError
from farsteer.core.events import SessionStatus
from farsteer.core.mcp import restore_secrets
from farsteer.core.session import SessionSpec, SessionState, SessionType, Worktree
from farsteer.link.messages import LogLine, Reply
from farsteer.runner.machine import check_directory, preferred_agent
from farsteer.runner.worktrees import create_worktree, remove_worktree

if TYPE_CHECKING:
    from farsteer.runner.runner import Runner


class SessionCreator:
    def __init__(self, runner: Runner, spec: SessionSpec) -> None:
        self._runner = runner
        self._spec = spec
        self._logs: list[LogLine] = []
        self._worktree: Worktree | None = None
        self._step = "start"

    async def run(self, call_id: int) -> Reply:
        try:
            state = await self._create()
        except FarsteerError as error:
            self._note(self._step, error.message, status="error", code=error.code.value)
            if self._worktree is not None:
                await remove_worktree(self._worktree)
            return Reply(id=call_id, error=error.record(), logs=self._logs)
        return Reply(id=call_id, logs=self._logs, state=state, seq=state.seq)

    async def _create(self) -> SessionState:
        spec, runner = self._spec, self._runner
        known = runner.actor(spec.id)
        if known is not None:
            if spec.native_id is None:
                await known.ask(commands.Create(spec=spec))
            return known.state
        if spec.native_id is not None:
            return await self._adopt(spec.native_id)
        directory = self._directory()
        spec = self._spec = self._completed(spec)
        agent = await self._agent()
        if spec.session_type is SessionType.WORKTREE:
            directory = await self._make_worktree(directory)
        self._step = "launch"
        actor = await runner.create(
            spec,
            SessionState(
                id=spec.id,
                agent=agent,
                directory=str(directory),
                title=spec.title,
                title_by_user=spec.title is not None,
                permission_mode=spec.permission_mode,
                model=spec.model,
                effort=spec.effort,
                worktree=self._worktree,
                seq=spec.fork.copied if spec.fork else 0,
                fork_of=spec.fork.native_id if spec.fork else None,
                cut_at=spec.fork.cut_at if spec.fork else None,
            ),
        )
        try:
            await actor.ask(commands.Create(spec=spec))
        except BaseException:
            await runner.forget(spec.id)
            raise
        self._note("launch", f"{agent} is ready to take a message")
        return actor.state

    async def _adopt(self, native_id: str) -> SessionState:
        """A conversation that the agent has already becomes a session; its history is the beginning of the log."""
        agent = await self._agent()
        self._step = "history"
        adopted = self._runner.session_of(agent, native_id)
        if adopted is not None:
            raise Conflict(f"this conversation is session {adopted} already", session=adopted)
        name = (agent, native_id)
        if name in self._runner.adopting:
            raise Conflict("this conversation is being made a session")
        self._runner.adopting.add(name)
        try:
            return await self._continue(agent, native_id)
        finally:
            self._runner.adopting.discard(name)

    async def _continue(self, agent: str, native_id: str) -> SessionState:
        spec, runner = self._spec, self._runner
        state_dir = str(runner.state_dir(agent))
        conversation, events = await registry.adapter(agent).read_history(native_id, state_dir)
        self._note("history", f"{len(events)} entries of {native_id}")
        directory = self._directory(conversation.directory)
        title = spec.title or conversation.title
        # The id is the conversation's own, so an adoption that was cut off may have left rows under it.
        await runner.forget(spec.id)
        actor = await runner.create(
            spec,
            SessionState(
                id=spec.id, agent=agent, directory=str(directory), status=SessionStatus.STOPPED, title=title,
                title_by_user=spec.title is not None, permission_mode=spec.permission_mode, model=spec.model,
                effort=spec.effort, native_id=native_id, registered=True,
            ),
            events,
        )  # fmt: skip
        return actor.state

    def _directory(self, wanted: str | None = None) -> Path:
        self._step = "directory"
        directory = check_directory(wanted or self._spec.directory, self._runner.settings.roots)
        self._note("directory", f"running in {directory}")
        return directory

    def _completed(self, spec: SessionSpec) -> SessionSpec:
        """With directories that may be used, and for a fork with what only this machine knows of its servers."""
        for further in spec.additional_directories:
            check_directory(further, self._runner.settings.roots)
        source = self._runner.actor(spec.fork.session_id) if spec.fork is not None else None
        if spec.fork is None or not spec.mcp_servers:
            return spec
        known = source.spec.mcp_servers if source is not None else ()
        return replace(spec, mcp_servers=restore_secrets(spec.mcp_servers, known))

    async def _agent(self) -> str:
        self._step = "agent"
        runner = self._runner
        name = self._spec.agent or preferred_agent(await runner.describe(), runner.settings)
        info = await registry.adapter(name).detect()
        if not info.available:
            how = f" ({info.install})" if info.install else ""
            raise AgentError(
                f"{info.title} is not installed on this machine: {info.reason or 'not found'}{how}",
                code=ErrorCode.AGENT_NOT_INSTALLED,
            )
        self._note("agent", f"{info.title} {info.version or ''}".strip())
        return name

    async def _make_worktree(self, directory: Path) -> Path:
        self._step = "worktree"
        worktree = self._worktree = await create_worktree(directory, self._spec.worktree_name)
        self._note("worktree", f"worktree {worktree.path} on branch {worktree.branch}")
        return Path(worktree.path)

    def _note(self, step: str, message: str, *, status: str = "ok", code: str | None = None) -> None:
        self._logs.append(LogLine(timestamp=now_ms(), step=step, message=message, status=status, code=code))
