"""One life of a session's agent, from the decision to start it until its process is reaped."""

from __future__ import annotations

import asyncio
import logging

from farsteer.agents.base import Adapter, Launch, LaunchPlan, Output
from farsteer.agents.process import posix
from farsteer.agents.process.environment import LAUNCH_VARIABLE
from farsteer.core.errors import AgentError, ErrorCode, FarsteerError
from farsteer.core.events import TurnEndReason
from farsteer.runner.session.context import Limits
from farsteer.runner.session.mailbox import LaunchStopped, Mailbox, Started

_log = logging.getLogger(__name__)


class LaunchHandle:
    """Starting and stopping take time: they run as tasks here and report to the actor's mailbox."""

    def __init__(
        self, adapter: Adapter, plan: LaunchPlan, mailbox: Mailbox, limits: Limits, *, warm: bool = False
    ) -> None:
        self.plan = plan
        self.launch: Launch | None = None
        self.warm = warm
        """Started in advance: no client knows of it yet."""
        self.unheard: list[Output] = []
        """What a warm agent has said; heard when it is needed."""
        self.reason: str | None = None
        """Why we end it; None while we do not."""
        self.renews = False
        """Another one is to follow it."""
        self.blame = TurnEndReason.CANCELLED
        """How a turn ends that is cut short by our ending it."""
        self._adapter = adapter
        self._mailbox = mailbox
        self._limits = limits
        self._task: asyncio.Task[None] | None = None

    @property
    def generation(self) -> int:
        return self.plan.generation

    @property
    def ready(self) -> bool:
        """The agent can take a message."""
        return self.launch is not None and self.reason is None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._start(), name=f"start {self.plan.session_id}")
        self._task.add_done_callback(self._begun)

    def started(self, launch: Launch) -> None:
        self.launch = launch
        if self.reason is not None:
            self._stop(launch)

    def end(self, reason: str, *, renews: bool = False, blame: TurnEndReason | None = None) -> None:
        """Begin to end it; the first reason counts."""
        if self.reason is not None:
            return
        self.reason = reason
        self.renews = renews
        self.blame = blame or self.blame
        if self.launch is not None:
            self._stop(self.launch)
        elif self._task is not None:
            self._task.cancel()

    async def _start(self) -> None:
        plan = self.plan
        launch: Launch | None = None
        error: FarsteerError | None = None
        try:
            launch = await self._adapter.start(plan, self._mailbox.sink(plan.generation))
        except asyncio.CancelledError:
            error = AgentError("the start was called off")
        except FarsteerError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001
            _log.exception("session %s: the adapter failed to start", plan.session_id)
            error = AgentError(f"the agent did not start: {failure}", code=ErrorCode.AGENT_START_FAILED)
        self._mailbox.post(Started(plan.generation, launch, error))

    def _begun(self, task: asyncio.Task[None]) -> None:
        """A task that is called off before its first step has said nothing, and somebody waits to hear of it."""
        if task.cancelled():
            self._mailbox.post(Started(self.generation, None, AgentError("the start was called off")))

    def _stop(self, launch: Launch) -> None:
        self._task = asyncio.create_task(self._end(launch), name=f"stop {self.plan.session_id}")

    async def _end(self, launch: Launch) -> None:
        try:
            async with asyncio.timeout(self._limits.stop):
                await launch.stop(self._limits.stop_grace)
        except TimeoutError:
            _log.error("session %s: the agent does not stop; its processes are killed", self.plan.session_id)
            posix.kill_marked(self.plan.environment.get(LAUNCH_VARIABLE, "").__eq__)
        except Exception:  # noqa: BLE001
            _log.exception("session %s: stopping the agent failed", self.plan.session_id)
        self._mailbox.post(LaunchStopped(self.generation))
