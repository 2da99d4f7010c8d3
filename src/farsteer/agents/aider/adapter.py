"""The adapter for aider, including its stored conversations."""

from __future__ import annotations

import asyncio
from pathlib import Path

from farsteer.agents.aider import conversation, installation
from farsteer.agents.aider.launch import AiderLaunch
from farsteer.agents.base import Adapter, Launch, LaunchPlan, Sink
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.ids import check_id, is_uuid

WORKER = Path(__file__).with_name("worker.py")
_NOT_FOUND = "no aider on PATH, or its Python cannot be found"


class AiderAdapter(Adapter):
    name = "aider"
    title = "aider"
    environment_names = installation.ENVIRONMENT_NAMES
    capabilities = Capabilities(
        caller_chosen_id=True, resume=True, rewind=True, fork=True, live_model=True, live_mode=True, live_effort=True,
        approvals=True, images=True, usage=True,
    )  # fmt: skip

    def __init__(self, executable: str | None = None) -> None:
        self._executable = executable

    async def detect(self) -> AgentInfo:
        found = installation.find(self._executable)
        version = None if found is None else await installation.find_version(found)
        if found is None:
            reason = _NOT_FOUND
        elif version is None:
            reason = f"{found.path} does not report its version"
        else:
            reason = installation.unsupported(version)
        return AgentInfo(
            name=self.name, title=self.title, available=reason is None, version=version, reason=reason,
            install=installation.INSTALL_COMMAND, login=None if installation.has_key() else installation.LOGIN,
            warning=installation.PROGRAM.version_warning(version), models=self.models, capabilities=self.capabilities,
        )  # fmt: skip

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        self.check_plan(plan)
        for native_id in (plan.decision.native_id, plan.fork_of):
            if native_id is not None:
                check_id(native_id, "session")
        found = installation.find(self._executable)
        if found is None:
            raise AgentError(
                _NOT_FOUND, code=ErrorCode.AGENT_NOT_INSTALLED, install=installation.INSTALL_COMMAND
            )
        # Isolated mode: neither the environment nor the session's directory can change what is imported.
        return await AiderLaunch.start((found.python, "-I", str(WORKER)), plan, sink)

    def has_transcript(self, native_id: str, state_dir: str) -> bool:
        return is_uuid(native_id) and conversation.exists(state_dir, native_id)

    async def delete_conversation(self, native_id: str, state_dir: str) -> None:
        check_id(native_id, "conversation")
        await asyncio.to_thread(conversation.delete, state_dir, native_id)
