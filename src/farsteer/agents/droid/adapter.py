"""Factory's Droid as an adapter."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import msgspec

from farsteer.agents.base import Adapter, Launch, LaunchPlan, Sink
from farsteer.agents.droid import binary
from farsteer.agents.droid.launch import DroidLaunch
from farsteer.agents.droid.store import has_messages
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.errors import AgentError, ErrorCode, NotCapable
from farsteer.core.ids import is_uuid
from farsteer.core.launch import Start

_PROTOCOL = ("exec", "--input-format", "stream-jsonrpc", "--output-format", "stream-jsonrpc")
"""Everything else is in the requests: in this mode Droid ignores its other options."""


_CUTS_SINCE = (0, 200)
"""CLIs up to 0.117 answer a rewind with a whole copy, 0.215 cuts."""


def capabilities_of(version: str | None) -> Capabilities:
    """What a version of the CLI can do; the newest can all that `DroidAdapter` declares."""
    able = DroidAdapter.capabilities
    if version is None:
        return able
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    return able if numbers >= _CUTS_SINCE else msgspec.structs.replace(able, rewind=False)


class DroidAdapter(Adapter):
    name: ClassVar[str] = "droid"
    title: ClassVar[str] = "Factory Droid"
    capabilities: ClassVar[Capabilities] = Capabilities(
        resume=True, rewind=True, fork=True, live_model=True, live_mode=True, live_effort=True, approvals=True,
        questions=True, plans=True, images=True, usage=True,
    )  # fmt: skip
    environment_names: ClassVar[tuple[str, ...]] = ("FACTORY_*",)

    def __init__(self, executable: str | None = None) -> None:
        self._executable = executable

    async def detect(self) -> AgentInfo:
        path = binary.find(self._executable)
        version = await binary.version(path) if path is not None else None
        # What this version can do stands above what the kind can.
        able = vars(self)["capabilities"] = capabilities_of(version)
        reason = "no droid on PATH" if path is None else f"{path} does not say its version"
        return AgentInfo(
            name=self.name, title=self.title, available=version is not None, version=version,
            reason=None if version is not None else reason, install=binary.INSTALL,
            capabilities=able,
        )  # fmt: skip

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        if plan.decision.start is Start.REFUSE:
            raise AgentError("this conversation belongs to another agent", code=ErrorCode.AGENT_START_FAILED)
        if plan.cut_at is not None and not self.capabilities.rewind:
            raise NotCapable("this version of Droid does not cut a conversation")
        path = binary.find(self._executable)
        if path is None:
            raise AgentError("no droid on PATH", code=ErrorCode.AGENT_NOT_INSTALLED, install=binary.INSTALL)
        return await DroidLaunch.start((path, *_PROTOCOL, "--cwd", plan.directory), plan, sink)

    def has_transcript(self, native_id: str, state_dir: str) -> bool:
        return is_uuid(native_id) and has_messages(Path.home(), native_id)
