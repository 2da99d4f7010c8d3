"""The runner's record of one launch, from the decision to start it until its process is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from farsteer.agents.base import DeltaEmitted, Exited, Launch, LaunchPlan, Output
from farsteer.agents.process import posix
from farsteer.agents.process.environment import LAUNCH_VARIABLE
from farsteer.core.errors import AgentError, ErrorCode, FarsteerError
from farsteer.core.events import TurnEndReason
from farsteer.runner.session.context import ActorContext
from farsteer.runner.session.mailbox import LaunchFailed, LaunchStarted, LaunchStopped, Mailbox
from farsteer.runner.terminals import TerminalConnection

_MAX_HELD_OUTPUT = 1000

_logger = logging.getLogger(__name__)


class LaunchHandle:
    """Starts and stops one launch.

    Both take time and run as tasks. They report to the mailbox: `LaunchStarted` or `LaunchFailed` after `start`,
    `LaunchStopped` after `stop` of a launch that has started.
    """

    def __init__(
        self,
        context: ActorContext,
        plan: LaunchPlan,
        mailbox: Mailbox,
        *,
        prewarmed: bool = False,
        terminal: TerminalConnection | None = None,
    ) -> None:
        self.plan = plan
        self.generation = plan.generation
        self.launch: Launch | None = None
        """None until the agent has started."""
        self.prewarmed = prewarmed
        """Started in advance: no client knows of it yet."""
        self.terminal = terminal
        """The terminal that the agent's own interface is started in."""
        self.held_output: list[Output] = []
        """Output of a prewarmed agent, handled when a message needs the process."""
        self.stop_reason: str | None = None
        """Why the runner stops it. None while it does not."""
        self.restart_after_stop = False
        self.turn_end_reason = TurnEndReason.CANCELLED
        """The end of a turn that is cut short because the runner stops the process."""
        self._context = context
        self._mailbox = mailbox
        self._task: asyncio.Task[None] | None = None

    @property
    def is_ready(self) -> bool:
        """The agent can accept a message."""
        return self.launch is not None and self.stop_reason is None

    def hold(self, outputs: Sequence[Output]) -> list[Output]:
        """Hold back the output of a prewarmed agent, without deltas. Returns only its `Exited`, if there is one."""
        self.held_output += (output for output in outputs if not isinstance(output, DeltaEmitted))
        del self.held_output[:-_MAX_HELD_OUTPUT]
        return [output for output in outputs if isinstance(output, Exited)]

    def start(self) -> None:
        self._task = asyncio.create_task(self._start(), name=f"start {self.plan.session_id}")
        self._task.add_done_callback(self._report_cancelled_start)

    def set_launch(self, launch: Launch) -> None:
        """The agent has started. Stops it if that was asked for meanwhile."""
        self.launch = launch
        if self.stop_reason is not None:
            self._stop_launch(launch)

    def stop(self, reason: str, *, restart: bool = False, turn_end: TurnEndReason | None = None) -> None:
        """Begin to stop the launch. Only the first call counts.

        Args:
            reason: Why, as the log shows it.
            restart: Start another process afterwards.
            turn_end: How a running turn ends; cancelled by default.
        """
        if self.stop_reason is not None:
            return
        self.stop_reason = reason
        self.restart_after_stop = restart
        self.turn_end_reason = turn_end or self.turn_end_reason
        if self.terminal is not None:
            self.terminal.hand_over(reason)
        if self.launch is not None:
            self._stop_launch(self.launch)
        elif self._task is not None:
            self._task.cancel()

    async def _start(self) -> None:
        plan = self.plan
        try:
            self._context.places.take(plan.session_id)
            async with self._context.places.start(plan.session_id, prewarmed=self.prewarmed):
                self._check_directories(plan)
                launch = await self._start_agent(plan)
        except asyncio.CancelledError:
            self._report_failure(AgentError("the start was cancelled"))
        except FarsteerError as error:
            self._report_failure(error)
        except Exception as error:
            _logger.exception("session %s: the adapter failed to start the agent", plan.session_id)
            self._report_failure(
                AgentError(f"the agent did not start: {error}", code=ErrorCode.AGENT_START_FAILED)
            )
        else:
            self._mailbox.post(LaunchStarted(plan.generation, launch))

    async def _start_agent(self, plan: LaunchPlan) -> Launch:
        adapter, sink = self._context.adapter, self._mailbox.sink(plan.generation)
        if self.terminal is not None:
            return await adapter.start_in_terminal(plan, sink, self.terminal)
        return await adapter.start(plan, sink)

    def _check_directories(self, plan: LaunchPlan) -> None:
        """Directories, links and mounts may have changed since the session was created."""
        self._context.directories.check_again(plan.directory)
        for directory in plan.additional_directories:
            self._context.directories.check(directory)

    def _report_cancelled_start(self, task: asyncio.Task[None]) -> None:
        """Report a task that was cancelled before its first step and could not report by itself."""
        if task.cancelled():
            self._report_failure(AgentError("the start was cancelled"))

    def _report_failure(self, error: FarsteerError) -> None:
        self._mailbox.post(LaunchFailed(self.generation, error))

    def _stop_launch(self, launch: Launch) -> None:
        self._task = asyncio.create_task(self._stop(launch), name=f"stop {self.plan.session_id}")

    async def _stop(self, launch: Launch) -> None:
        try:
            async with asyncio.timeout(self._context.limits.stop):
                await launch.stop(self._context.limits.stop_grace)
        except TimeoutError:
            _logger.error("session %s: the agent does not stop; killing its processes", self.plan.session_id)
            mark = self.plan.environment.get(LAUNCH_VARIABLE, "")
            await asyncio.to_thread(posix.kill_marked, mark.__eq__)
        except Exception:
            _logger.exception("session %s: stopping the agent failed", self.plan.session_id)
        self._mailbox.post(LaunchStopped(self.generation))
