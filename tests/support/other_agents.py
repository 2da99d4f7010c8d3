"""Agents beside the demo agent that behave like it, for sessions that change their agent."""

from __future__ import annotations

import msgspec

from farsteer.agents.base import Adapter, Launch, LaunchPlan, Sink, Takeover
from farsteer.agents.demo.adapter import DemoAdapter
from farsteer.core.capabilities import AgentInfo


class OtherAdapter(DemoAdapter):
    """An agent with a store of its own."""

    name = "other"
    title = "Other agent"

    async def detect(self) -> AgentInfo:
        return msgspec.structs.replace(await super().detect(), name=self.name, title=self.title)


class SiblingAdapter(OtherAdapter):
    """An agent that uses the store of the demo agent."""

    name = "sibling"

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        plan = msgspec.structs.replace(plan, state_dir=plan.state_dir.replace("/sibling", "/demo"))
        return await super().start(plan, sink)

    def has_transcript(self, native_id: str, state_dir: str) -> bool:
        return super().has_transcript(native_id, state_dir.replace("/sibling", "/demo"))

    def takeover(self, other: Adapter) -> Takeover:
        return Takeover.RESUMED if type(other) is DemoAdapter else Takeover.REFUSED


BUILT_IN = {
    "other": "tests.support.other_agents:OtherAdapter",
    "sibling": "tests.support.other_agents:SiblingAdapter",
}
