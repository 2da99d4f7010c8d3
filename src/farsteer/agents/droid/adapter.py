"""Factory's Droid as an adapter."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

import msgspec

from farsteer.agents.base import Adapter, Launch, LaunchPlan, Sink
from farsteer.agents.droid import binary, store
from farsteer.agents.droid.launch import DroidLaunch
from farsteer.agents.droid.usage import Ledger
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import SessionEvent
from farsteer.core.ids import is_uuid
from farsteer.core.session import StoredConversation

_PROTOCOL = ("exec", "--input-format", "stream-jsonrpc", "--output-format", "stream-jsonrpc")
"""Everything else is in the requests: in this mode Droid ignores its other options."""


_CUTS_SINCE = (0, 200)
"""CLIs up to 0.117 answer a rewind with a whole copy, 0.215 cuts. Who forks wants to say where, so they cannot fork."""


_CAPABILITIES = Capabilities(
    resume=True, rewind=True, fork=True, live_model=True, live_mode=True, live_effort=True, file_restore=True,
    approvals=True, questions=True, plans=True, images=True, usage=True, import_history=True, mcp_servers=True,
)  # fmt: skip
"""What the newest version can do."""


def capabilities_of(version: str | None) -> Capabilities:
    """Return what a version of the CLI can do; for None, what the newest version can do."""
    if version is None:
        return _CAPABILITIES
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers >= _CUTS_SINCE:
        return _CAPABILITIES
    return msgspec.structs.replace(_CAPABILITIES, rewind=False, fork=False, file_restore=False)


class DroidAdapter(Adapter):
    name: ClassVar[str] = "droid"
    title: ClassVar[str] = "Factory Droid"
    environment_names: ClassVar[tuple[str, ...]] = ("FACTORY_*",)

    def __init__(self, executable: str | None = None, version: str | None = None) -> None:
        self._executable = executable
        self.capabilities = capabilities_of(version)

    async def detect(self) -> AgentInfo:
        path = binary.find(self._executable)
        version = await binary.version(path) if path is not None else None
        self.capabilities = capabilities_of(version)
        reason = "no droid on PATH" if path is None else f"{path} does not say its version"
        return AgentInfo(
            name=self.name, title=self.title, available=version is not None, version=version,
            reason=None if version is not None else reason, install=binary.INSTALL,
            capabilities=self.capabilities,
        )  # fmt: skip

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        self.check_plan(plan)
        path = binary.find(self._executable)
        if path is None:
            raise AgentError("no droid on PATH", code=ErrorCode.AGENT_NOT_INSTALLED, install=binary.INSTALL)
        argv = (path, *_PROTOCOL, "--cwd", plan.directory)
        return await DroidLaunch.start(argv, plan, sink, restores=self.capabilities.file_restore)

    def has_transcript(self, native_id: str, state_dir: str) -> bool:
        return is_uuid(native_id) and store.has_messages(Path.home(), native_id)

    async def list_conversations(
        self, state_dir: str, directory: str | None, limit: int
    ) -> list[StoredConversation]:
        return await asyncio.to_thread(store.conversations, Path.home(), directory, limit)

    async def read_history(
        self, native_id: str, state_dir: str
    ) -> tuple[StoredConversation, list[SessionEvent]]:
        return await asyncio.to_thread(store.history, Path.home(), native_id)

    async def delete_conversation(self, native_id: str, state_dir: str) -> None:
        await asyncio.to_thread(store.discard, Path.home(), native_id)
        Ledger(state_dir).forget(native_id)
