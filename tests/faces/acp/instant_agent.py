"""A demo agent without a process. It answers immediately, so that a thousand sessions take seconds."""

from __future__ import annotations

from farsteer.agents.base import EventEmitted, Exited, Launch, LaunchPlan, Prompt, Registered, Sink, TurnEnded
from farsteer.agents.demo.adapter import DemoAdapter
from farsteer.core.approvals import Answer, Approval
from farsteer.core.events import AgentMessage, TurnEndReason

running: set[Launch] = set()
"""Launches that have been started and not stopped."""


class InstantLaunch(Launch):
    def __init__(self, plan: LaunchPlan, sink: Sink) -> None:
        self._plan = plan
        self._sink = sink
        running.add(self)

    @property
    def native_id(self) -> str | None:
        return self._plan.decision.native_id

    @property
    def pid(self) -> int:
        return 0

    async def send(self, prompt: Prompt) -> None:
        message = AgentMessage(message_id=f"m-{prompt.turn_id}", text=f"You said {prompt.text}")
        end = TurnEnded(turn_id=prompt.turn_id, reason=TurnEndReason.END_TURN)
        await self._sink.put([Registered(native_id=str(self.native_id)), EventEmitted(event=message), end])

    async def answer(self, approval: Approval, answer: Answer) -> None: ...

    async def interrupt(self) -> None: ...

    async def stop(self, grace: float = 3.0) -> None:
        if self in running:
            running.discard(self)
            await self._sink.put([Exited(exit_code=0, reason="stopped")])


class InstantAdapter(DemoAdapter):
    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        self.check_plan(plan)
        return InstantLaunch(plan, sink)
