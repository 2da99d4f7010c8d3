"""The adapter for Factory's Droid."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from farsteer.agents.base import Adapter, Launch, LaunchPlan, Sink
from farsteer.agents.droid import cli, transcripts
from farsteer.agents.droid.launch import DroidLaunch
from farsteer.agents.droid.models import CUSTOM, KnownModels, list_models
from farsteer.agents.droid.usage import UsageStore
from farsteer.core.capabilities import AgentInfo
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import SessionEvent
from farsteer.core.ids import is_uuid
from farsteer.core.modes import ReasoningEffort
from farsteer.core.session import StoredConversation

_ARGUMENTS = ("exec", "--input-format", "stream-jsonrpc", "--output-format", "stream-jsonrpc")
"""Everything else is in the requests: with these arguments Droid ignores its other options."""
_NOT_FOUND = "no droid on PATH"


class DroidAdapter(Adapter):
    name = "droid"
    title = "Factory Droid"
    environment_names = ("FACTORY_*",)

    def __init__(self, executable: str | None = None, version: str | None = None) -> None:
        self._executable = executable
        self.capabilities = cli.capabilities_of(version)

    async def detect(self) -> AgentInfo:
        path = cli.PROGRAM.find(self._executable)
        version = await cli.PROGRAM.find_version(path) if path is not None else None
        self.capabilities = cli.capabilities_of(version)
        reason = _NOT_FOUND if path is None else f"{path} does not report its version"
        logged_in = version is None or await asyncio.to_thread(cli.is_logged_in)
        return AgentInfo(
            name=self.name, title=self.title, available=version is not None, version=version,
            reason=None if version is not None else reason, install=cli.INSTALL_COMMAND,
            login=None if logged_in else cli.LOGIN_HINT, models=self.models, capabilities=self.capabilities,
        )  # fmt: skip

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        self.check_plan(plan)
        path = cli.PROGRAM.find(self._executable)
        if path is None:
            raise AgentError(_NOT_FOUND, code=ErrorCode.AGENT_NOT_INSTALLED, install=cli.INSTALL_COMMAND)
        argv = (path, *_ARGUMENTS, "--cwd", plan.directory)
        return await DroidLaunch.start(
            argv, plan, sink, self._keep_models, restores_files=self.capabilities.file_restore
        )

    async def discover_models(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        path = cli.PROGRAM.find(self._executable)
        if not self.models and path is not None:
            self._keep_models(await list_models((path, *_ARGUMENTS), environment))
        return self.models

    def _keep_models(self, listed: KnownModels) -> None:
        self.set_models(listed.names, listed.efforts)

    def check_settings(self, model: str | None, effort: ReasoningEffort | None, current: str | None) -> None:
        if model is None or not model.startswith(CUSTOM):
            super().check_settings(model, effort, current)

    def has_transcript(self, native_id: str, state_dir: str) -> bool:
        return is_uuid(native_id) and transcripts.has_messages(Path.home(), native_id)

    async def list_conversations(
        self, state_dir: str, directory: str | None, limit: int
    ) -> list[StoredConversation]:
        return await asyncio.to_thread(transcripts.list_conversations, Path.home(), directory, limit)

    async def read_history(
        self, native_id: str, state_dir: str
    ) -> tuple[StoredConversation, list[SessionEvent]]:
        return await asyncio.to_thread(transcripts.read_conversation, Path.home(), native_id)

    async def delete_conversation(self, native_id: str, state_dir: str) -> None:
        await asyncio.to_thread(transcripts.delete_conversation, Path.home(), native_id)
        UsageStore(state_dir).delete(native_id)
