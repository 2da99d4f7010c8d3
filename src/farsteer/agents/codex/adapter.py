"""The adapter for OpenAI's Codex."""

from __future__ import annotations

import asyncio
import os

from farsteer.agents.base import Adapter, Launch, LaunchPlan, Sink, Terminal
from farsteer.agents.codex import cli, rollouts
from farsteer.agents.codex.launch import CodexLaunch
from farsteer.agents.codex.store import ThreadStore
from farsteer.agents.process.environment import scrub_environment
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import SessionEvent
from farsteer.core.ids import check_id, is_uuid
from farsteer.core.session import StoredConversation

_ARGUMENTS = ("app-server",)
_NOT_FOUND = "no codex on PATH"


class CodexAdapter(Adapter):
    name = "codex"
    title = "OpenAI Codex"
    environment_names = cli.ENVIRONMENT_NAMES
    capabilities: Capabilities = cli.CAPABILITIES

    def __init__(self, executable: str | None = None) -> None:
        self._executable = executable

    async def detect(self) -> AgentInfo:
        path = cli.PROGRAM.find(self._executable)
        version = await cli.PROGRAM.find_version(path) if path is not None else None
        reason = _NOT_FOUND if path is None else f"{path} does not report its version"
        logged_in = version is None or await asyncio.to_thread(cli.is_logged_in)
        return AgentInfo(
            name=self.name, title=self.title, available=version is not None, version=version,
            reason=None if version is not None else reason, install=cli.INSTALL_COMMAND,
            login=None if logged_in else cli.LOGIN_COMMAND, warning=cli.PROGRAM.version_warning(version),
            models=self.models, capabilities=self.capabilities,
        )  # fmt: skip

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        self.check_plan(plan)
        argv = (self._path(), *_ARGUMENTS)
        return await CodexLaunch.start(argv, plan, sink, self.set_models)

    async def start_in_terminal(self, plan: LaunchPlan, sink: Sink, terminal: Terminal) -> Launch:
        # Needed for this only, with the websockets that it uses.
        from farsteer.agents.codex.terminal import CodexTerminal

        self.check_plan(plan)
        return await CodexTerminal.start_in_terminal(self._path(), plan, sink, terminal, self.set_models)

    def _path(self) -> str:
        path = cli.PROGRAM.find(self._executable)
        if path is None:
            raise AgentError(_NOT_FOUND, code=ErrorCode.AGENT_NOT_INSTALLED, install=cli.INSTALL_COMMAND)
        return path

    def has_transcript(self, native_id: str, state_dir: str) -> bool:
        return is_uuid(native_id) and rollouts.exists(cli.codex_home(), native_id)

    async def list_conversations(
        self, state_dir: str, directory: str | None, limit: int
    ) -> list[StoredConversation]:
        async with self._store() as store:
            return await store.list(directory, limit)

    async def read_history(
        self, native_id: str, state_dir: str
    ) -> tuple[StoredConversation, list[SessionEvent]]:
        check_id(native_id, "the id of a conversation")
        async with self._store() as store:
            return await store.read(native_id)

    async def read_records_after(self, native_id: str, record: str, directory: str) -> list[SessionEvent]:
        async with self._store() as store:
            return await store.read_after(native_id, record)

    async def delete_conversation(self, native_id: str, state_dir: str) -> None:
        check_id(native_id, "the id of a conversation")
        if not rollouts.exists(cli.codex_home(), native_id):
            return
        async with self._store() as store:
            await store.delete(native_id)

    def _store(self) -> ThreadStore:
        environment = scrub_environment(os.environ, self.environment_names)
        return ThreadStore((self._path(), *_ARGUMENTS), environment)
