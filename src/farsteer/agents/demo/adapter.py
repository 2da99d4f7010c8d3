"""The demo agent as an adapter."""

from __future__ import annotations

import asyncio
import sys
from typing import ClassVar

from farsteer import __version__
from farsteer.agents.base import Adapter, Launch, LaunchPlan, Sink
from farsteer.agents.demo import conversations
from farsteer.agents.demo.history import has_messages
from farsteer.agents.demo.launch import DemoLaunch
from farsteer.agents.demo.session import MODELS
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.events import SessionEvent
from farsteer.core.ids import check_id, is_uuid
from farsteer.core.session import StoredConversation

ARGV = (sys.executable, "-I", "-m", "farsteer.agents.demo.agent")
"""Isolated: neither the environment nor the session's directory can change what is imported."""


class DemoAdapter(Adapter):
    name: ClassVar[str] = "demo"
    title: ClassVar[str] = "Demo agent"
    capabilities = Capabilities(
        caller_chosen_id=True, resume=True, rewind=True, fork=True, steer=True, live_model=True, live_mode=True,
        live_effort=True, file_restore=True, approvals=True, questions=True, plans=True, images=True, usage=True,
        import_history=True, mcp_servers=True, additional_directories=True,
    )  # fmt: skip

    async def detect(self) -> AgentInfo:
        return AgentInfo(
            name=self.name, title=self.title, available=True, version=__version__, models=MODELS,
            capabilities=self.capabilities,
        )  # fmt: skip

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        self.check_plan(plan)
        for name in (plan.decision.native_id, plan.fork_of):
            if name is not None:
                check_id(name, "session")
        return await DemoLaunch.start(ARGV, plan, sink)

    def has_transcript(self, native_id: str, state_dir: str) -> bool:
        return is_uuid(native_id) and has_messages(state_dir, native_id)

    async def list_conversations(
        self, state_dir: str, directory: str | None, limit: int
    ) -> list[StoredConversation]:
        return await asyncio.to_thread(conversations.stored, state_dir, directory, limit)

    async def read_history(
        self, native_id: str, state_dir: str
    ) -> tuple[StoredConversation, list[SessionEvent]]:
        return await asyncio.to_thread(conversations.whole, state_dir, native_id)

    async def delete_conversation(self, native_id: str, state_dir: str) -> None:
        await asyncio.to_thread(conversations.discard, state_dir, native_id)
