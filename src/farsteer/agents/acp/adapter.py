"""The adapter for an agent of the catalog."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from farsteer.agents.acp.launch import AcpLaunch, prepared
from farsteer.agents.acp.stored_sessions import StoredSessions
from farsteer.agents.base import Adapter, Launch, LaunchPlan, Sink
from farsteer.agents.catalog.definition import AgentDefinition, Trap
from farsteer.agents.process.environment import scrub_environment
from farsteer.agents.process.program import AgentProgram, version_numbers
from farsteer.core.capabilities import AgentInfo
from farsteer.core.errors import AgentError, BadRequest, ErrorCode, NotCapable
from farsteer.core.events import SessionEvent
from farsteer.core.session import StoredConversation

_ID_CHARS = 200


class AcpAdapter(Adapter):
    """An agent that speaks the Agent Client Protocol.

    Args:
        name: The name of the agent.
        executable: The program to run instead of the one that the definition names.
    """

    def __init__(self, name: str, definition: AgentDefinition, executable: str | None = None) -> None:
        self.name = name
        self.title = definition.title
        self.environment_names = definition.environment_names
        self.capabilities = definition.capabilities
        self.definition = definition
        self._executable = executable
        self._first_start = asyncio.Lock()
        self._has_started = Trap.FIRST_START_ALONE not in definition.traps
        self._program = AgentProgram(
            title=definition.title, name=definition.command[0], variable="", packages=definition.packages,
            places=definition.places, tested_version=definition.tested_version,
            environment_names=definition.environment_names, environment=definition.environment,
        )  # fmt: skip

    async def detect(self) -> AgentInfo:
        path = self._program.find(self._executable)
        if path is None:
            return self._info(f"no {self._program.name} on PATH")
        version = await self._program.find_version(path, may_ask=self.definition.asks_version)
        minimum = self.definition.minimum_version
        if version and minimum and version_numbers(version) < version_numbers(minimum):
            return self._info(f"version {version} is too old: {minimum} or later is needed", version)
        return self._info(None, version)

    def _info(self, reason: str | None, version: str | None = None) -> AgentInfo:
        return AgentInfo(
            name=self.name, title=self.title, available=reason is None, version=version, reason=reason,
            install=self.definition.install, warning=self._program.version_warning(version), models=self.models,
            capabilities=self.capabilities,
        )  # fmt: skip

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        self.check_plan(plan)
        if not self._has_started:
            async with self._first_start:
                if not self._has_started:
                    launch = await self._start(plan, sink)
                    self._has_started = True
                    return launch
        return await self._start(plan, sink)

    async def _start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        return await AcpLaunch.start(self._argv(), self.definition, plan, sink, self.set_models)

    def _argv(self) -> tuple[str, ...]:
        path = self._program.find(self._executable)
        if path is None:
            raise AgentError(
                f"no {self._program.name} on PATH",
                code=ErrorCode.AGENT_NOT_INSTALLED,
                install=self.definition.install,
            )
        return (path, *self.definition.command[1:])

    # -- stored conversations

    async def list_conversations(
        self, state_dir: str, directory: str | None, limit: int
    ) -> list[StoredConversation]:
        self._check_import()
        async with self._stored(state_dir) as stored:
            return await stored.list(directory, limit)

    async def read_history(
        self, native_id: str, state_dir: str
    ) -> tuple[StoredConversation, list[SessionEvent]]:
        self._check_import()
        _check_native_id(native_id)
        async with self._stored(state_dir) as stored:
            return await stored.read(native_id)

    async def delete_conversation(self, native_id: str, state_dir: str) -> None:
        if not self.capabilities.import_history:
            return
        _check_native_id(native_id)
        async with self._stored(state_dir) as stored:
            await stored.delete(native_id)

    def _check_import(self) -> None:
        if not self.capabilities.import_history:
            raise NotCapable(f"the conversations of {self.title} cannot be listed")

    def _stored(self, state_dir: str) -> StoredSessions:
        allowed = scrub_environment(os.environ, self.environment_names)
        environment: Mapping[str, str] = {**allowed, **prepared(self.definition, state_dir, allowed)}
        return StoredSessions(self.name, self._argv(), self.definition, environment)


def _check_native_id(native_id: str) -> None:
    """Raise BadRequest for an id that could be a path: it comes from a client."""
    valid = (
        0 < len(native_id) <= _ID_CHARS and native_id.isprintable() and not native_id.startswith((".", "-"))
    )
    if not valid or "/" in native_id or "\\" in native_id:
        raise BadRequest("not the id of a conversation", code=ErrorCode.INVALID_ID)
