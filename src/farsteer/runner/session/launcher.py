"""The agent process of a session: started, prewarmed, restarted, recovered and stopped. There is at most one."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec

from farsteer.agents.base import Adapter, Exited, Launch, LaunchPlan
from farsteer.agents.process.environment import LAUNCH_VARIABLE, LaunchMark
from farsteer.core import events as ev
from farsteer.core.errors import AgentError, Conflict, ErrorCode, FarsteerError
from farsteer.core.events import SessionStatus, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchDecision, LaunchMode, LaunchRow, decide_launch
from farsteer.core.session import SessionSpec, SessionState, add_abandoned
from farsteer.runner.session.context import ActorContext, SessionAgent
from farsteer.runner.session.launch_handle import LaunchHandle
from farsteer.runner.session.log import PrivateState, SessionLog
from farsteer.runner.session.mailbox import (
    AgentMail,
    AgentOutput,
    LaunchFailed,
    LaunchStarted,
    Mailbox,
    resolve,
)
from farsteer.runner.session.output import OutputHandler
from farsteer.runner.session.timers import PrewarmTimer, Timers
from farsteer.runner.terminals import TerminalConnection

UNKNOWN_ANCHOR_NOTICE = "The agent does not know the place to rewind to; it still remembers what was removed."


class Launcher:
    """Keeps at most one process.

    A process may be prewarmed: started before it is needed. It has a generation but no event in the log, and its output
    is held back. When a message needs it, it is promoted: its start is logged and the held output handled.
    """

    def __init__(
        self,
        spec: SessionSpec,
        log: SessionLog,
        context: ActorContext,
        mailbox: Mailbox,
        timers: Timers,
        output: OutputHandler,
    ) -> None:
        self.current: LaunchHandle | None = None
        """The process: starting, running or stopping, prewarmed or not. None if there is none."""
        self._spec = spec
        self._log = log
        self._context = context
        self._mailbox = mailbox
        self._output = output
        self._prewarm = PrewarmTimer(timers, context.limits.prewarm_delay)
        self._outdated = False
        """The process was started with an older configuration."""
        self._recovered: set[ErrorCode] = set()
        """Errors that a changed launch row has been tried for since the last successful start."""
        self._waiting_for_ready: list[asyncio.Future[Any]] = []
        self._waiting_for_stop: list[asyncio.Future[Any]] = []

    @property
    def launch(self) -> Launch | None:
        """The current launch, or None if no visible process is running. It may be stopping."""
        return self.current.launch if self.current is not None and not self.current.prewarmed else None

    @property
    def ready_launch(self) -> Launch | None:
        """The current launch if it can accept a message, else None."""
        current = self.current
        if current is None or current.launch is None or not current.is_ready or current.prewarmed:
            return None
        return current.launch if current.launch.takes_messages else None

    @property
    def terminal(self) -> TerminalConnection | None:
        """The terminal in which the current launch was started."""
        return None if self.current is None else self.current.terminal

    @property
    def is_in_terminal(self) -> bool:
        """The agent's own interface has the conversation: no message can be delivered before it ends."""
        current = self.current
        return (
            current is not None
            and current.launch is not None
            and current.is_ready
            and not current.launch.takes_messages
        )

    @property
    def is_requested(self) -> bool:
        """A caller waits for a process and there is none: the last one was stopping when the caller asked."""
        return self.current is None and bool(self._waiting_for_ready)

    @property
    def is_outdated(self) -> bool:
        """The running process must be restarted before the next message."""
        return self._outdated and self.current is not None and self.current.is_ready

    # -- starting

    async def start_and_notify(self, done: asyncio.Future[Any]) -> None:
        """Make sure that a process runs, and resolve `done` when it can accept a message."""
        self._waiting_for_ready.append(done)
        await self.ensure_process()

    async def ensure_process(self) -> None:
        """Start a process, or promote a prewarmed one. One that is stopping is replaced when it is gone."""
        self._prewarm.disarm()
        self._prewarm.reset_failures()
        if self.current is None:
            await self._start(prewarmed=False)
        elif self.current.prewarmed and self.current.stop_reason is None:
            await self._promote(self.current)

    async def start_in_terminal(self, terminal: TerminalConnection) -> bool:
        """Start the agent's own interface in a terminal, or stop the current process for that.

        Returns whether the start has begun. If not, it must be repeated when the process is gone.
        """
        self._prewarm.disarm()
        if self.current is None:
            await self._start(prewarmed=False, terminal=terminal)
            return True
        self.current.stop("a terminal takes over")
        return False

    async def prewarm(self) -> None:
        """Start a process in advance, unless there is one, the last starts have failed or the machine is full."""
        if self.current is None and not self._prewarm.has_given_up and self._context.places.has_spare:
            self._prewarm.disarm()
            await self._start(prewarmed=True)

    def schedule_prewarm(self) -> None:
        """Prewarm a process after the prewarm delay."""
        self._prewarm.reset_failures()
        self._prewarm.arm()

    async def prewarm_or_restart(self) -> None:
        """The prewarm delay is over: restart an outdated process, or prewarm one."""
        if self.current is None:
            await self.prewarm()
        elif self._outdated and self.current.is_ready and self._log.state.turn_id is None:
            self.restart()

    def stop_unused(self, generation: int) -> None:
        """Stop this launch if it is still a prewarmed one."""
        if self.current is not None and self.current.prewarmed and self.current.generation == generation:
            self.current.stop("the prewarmed process was not needed")

    def mark_outdated(self) -> None:
        """The configuration has changed in a way that needs a new process. Debounces restart requests."""
        if self.current is not None:
            self._outdated = True
        self.schedule_prewarm()

    def schedule_restart(self) -> None:
        """No turn is running: restart an outdated process after the prewarm delay."""
        if self.is_outdated and not self._prewarm.is_armed:
            self._prewarm.arm()

    def restart(self) -> None:
        self.stop("restart with the new configuration", restart=True)

    async def _start(self, *, prewarmed: bool, terminal: TerminalConnection | None = None) -> None:
        """Commit the new generation to the journal, then start the process."""
        plan = make_plan(self._spec, self._log.state, self._context)
        if terminal is not None:
            mark = {LAUNCH_VARIABLE: plan.environment[LAUNCH_VARIABLE]}
            plan = msgspec.structs.replace(plan, environment=terminal.environment | mark)
        self._outdated = False
        self.current = LaunchHandle(
            self._context, plan, self._mailbox, prewarmed=prewarmed, terminal=terminal
        )
        if prewarmed:
            self._log.update_private_state(generation=plan.generation)
            self._prewarm.expire_after(plan.generation, self._context.limits.prewarm_keep)
        else:
            self._log_start(plan)
        await self._log.flush()
        self.current.start()

    def _log_start(self, plan: LaunchPlan) -> None:
        resumed = plan.decision.start is LaunchMode.RESUME
        self._log.add(
            ev.LaunchStart(generation=plan.generation, resumed=resumed, native_id=plan.decision.native_id)
        )
        self._log.add(ev.StatusUpdate(status=SessionStatus.STARTING))

    async def _promote(self, handle: LaunchHandle) -> None:
        handle.prewarmed = False
        self._context.places.hurry(self._spec.id)
        self._log_start(handle.plan)
        if handle.is_ready:
            await self._mark_ready(handle)

    async def handle_started(self, mail: LaunchStarted) -> None:
        handle = self.current
        if handle is None or handle.generation != mail.generation:
            await mail.launch.stop(self._context.limits.stop_grace)
            return
        handle.set_launch(mail.launch)
        abandoned = add_abandoned(self._log.state, mail.launch.native_id)
        self._log.update_private_state(left_behind=abandoned)
        if handle.is_ready and not handle.prewarmed:
            await self._mark_ready(handle)

    async def _mark_ready(self, handle: LaunchHandle) -> None:
        assert handle.launch is not None
        self._recovered.clear()
        if handle.launch.native_id not in (None, self._log.state.native_id):
            self._log.update_private_state(native_id=handle.launch.native_id)
        held, handle.held_output = handle.held_output, []
        exited = self._output.handle(held, handle)
        if exited is not None:
            self._process_exited(handle, exited)
            return
        # A turn may go on with this process: the one before it ended without taking the message.
        in_turn = self._log.state.turn_id is not None
        self._log.add(ev.StatusUpdate(status=SessionStatus.WORKING if in_turn else SessionStatus.IDLE))
        await self._log.flush()
        _resolve_all(self._waiting_for_ready)

    async def handle_failed(self, mail: LaunchFailed) -> FarsteerError | None:
        """Handle a failed start.

        Returns the error if the failure is final: the start was not prewarming, was not stopped and is not retried.
        """
        handle, error = self.current, mail.error
        if handle is None or handle.generation != mail.generation:
            return None
        self._forget_current()
        if handle.prewarmed:
            if handle.stop_reason is None:
                self._prewarm.count_failure()
            elif handle.restart_after_stop:
                self._prewarm.arm()
            _resolve_all(self._waiting_for_stop)
            return None
        if handle.terminal is not None:
            self._log.update_private_state(transcript_at=None)
        self._log.add(ev.LaunchEnd(generation=handle.generation, reason=handle.stop_reason or error.message))
        if handle.stop_reason is not None:
            await self._log.flush()
            _resolve_all(self._waiting_for_stop)
            return None
        if await self._retry(handle, error):
            return None
        if handle.terminal is not None:
            # The session itself can go on: what failed is its terminal.
            await self._log.flush()
            _resolve_all(self._waiting_for_stop)
            return error
        self._log.add(ev.StatusUpdate(status=SessionStatus.FAILED, error=error.message))
        await self._log.flush()
        _resolve_all(self._waiting_for_ready, error)
        _resolve_all(self._waiting_for_stop)
        return error

    async def _retry(self, handle: LaunchHandle, error: FarsteerError) -> bool:
        """Correct the launch row and start again, once per error code, if the agent says that the row is wrong."""
        if error.code in self._recovered:
            return False
        recovery = find_recovery(error.code, handle.plan, self._log.state, self._context.adapter)
        if recovery is None:
            return False
        self._recovered.add(error.code)
        self._log.update_private_state(**recovery.changes)
        if recovery.notice is not None:
            self._log.add(ev.Notice(text=recovery.notice, level="warning", code=error.code))
        await self._start(prewarmed=False, terminal=handle.terminal)
        return True

    # -- output

    def receive(self, mail: AgentMail) -> None:
        """Handle mail of the current launch. Mail of an earlier one is dropped."""
        handle = self.current
        if handle is None or handle.generation != mail.generation:
            return
        if isinstance(mail, AgentOutput):
            outputs = handle.hold(mail.outputs) if handle.prewarmed else mail.outputs
        else:
            outputs = (Exited(exit_code=None, reason="stopped"),)
        exited = self._output.handle(outputs, handle)
        if exited is not None:
            self._process_exited(handle, exited)

    # -- stopping

    def stop(self, reason: str, *, restart: bool = False, turn_end: TurnEndReason | None = None) -> None:
        """Begin to stop the process, if there is one; see `LaunchHandle.stop`."""
        if self.current is not None:
            self.current.stop(reason, restart=restart, turn_end=turn_end)

    def stop_and_notify(self, reason: str, done: asyncio.Future[Any]) -> bool:
        """Stop the process and start no other one.

        Returns True if `done` will be resolved when the process is gone, False if there is none.
        """
        self._prewarm.disarm()
        if self.current is None:
            return False
        _resolve_all(self._waiting_for_ready, AgentError(reason, code=ErrorCode.AGENT_DIED))
        self._waiting_for_stop.append(done)
        self.current.stop(reason)
        # It may have been stopping already, to be restarted.
        self.current.restart_after_stop = False
        return True

    def _process_exited(self, handle: LaunchHandle, exited: Exited) -> None:
        """The process is gone, and its turn has ended."""
        self._forget_current()
        if handle.terminal is not None:
            self._log.update_private_state(transcript_at=None)
        if not handle.prewarmed:
            self._log.add(
                ev.LaunchEnd(
                    generation=handle.generation, reason=handle.stop_reason or exited.reason,
                    exit_code=exited.exit_code, stderr=exited.stderr if handle.stop_reason is None else None,
                )
            )  # fmt: skip
        if handle.restart_after_stop:
            self._prewarm.arm()
        elif handle.stop_reason is None and handle.prewarmed:
            self._prewarm.count_failure()
        elif handle.stop_reason is None and handle.terminal is None:
            self.schedule_prewarm()
        if handle.stop_reason is None:
            _resolve_all(self._waiting_for_ready, AgentError(exited.reason, code=ErrorCode.AGENT_DIED))
        _resolve_all(self._waiting_for_stop)

    def _forget_current(self) -> None:
        self.current = None
        self._context.places.release(self._spec.id)

    def close(self) -> None:
        """Answer whoever still waits for a process."""
        _resolve_all(self._waiting_for_ready, Conflict("this session is closing"))


def _resolve_all(waiting: list[asyncio.Future[Any]], error: FarsteerError | None = None) -> None:
    for done in waiting:
        resolve(done, error)
    waiting.clear()


class Recovery(NamedTuple):
    """A correction of the launch row, and what people are told about it."""

    changes: PrivateState
    notice: str | None = None


def make_plan(spec: SessionSpec, state: SessionState, context: ActorContext) -> LaunchPlan:
    """Plan the next launch. Create or resume is decided by `core.launch.decide_launch`."""
    decision = _decide(state, context.agent)
    fork_of = state.fork_of if decision.start is LaunchMode.CREATE else None
    has_history = fork_of is not None or decision.start is LaunchMode.RESUME
    generation = state.generation + 1
    mark = LaunchMark(context.home_id, generation, state.id)
    return LaunchPlan(
        session_id=state.id, directory=state.directory, generation=generation, decision=decision,
        permission_mode=state.permission_mode, model=state.model, effort=state.effort,
        options=spec.options, source=spec.source, environment={**context.environment(), LAUNCH_VARIABLE: str(mark)},
        state_dir=context.agent.state_dir, agent_dir=context.agent.agent_dir, fork_of=fork_of,
        startup_timeout=context.limits.startup,
        cut_at=state.cut_at if has_history else None, mcp_servers=spec.mcp_servers,
        additional_directories=spec.additional_directories,
    )  # fmt: skip


def _decide(state: SessionState, agent: SessionAgent) -> LaunchDecision:
    adapter = agent.adapter
    return decide_launch(
        LaunchRow(
            session_id=state.id, agent=state.agent, native_id=state.native_id, registered=state.registered
        ),
        agent=adapter.name,
        caller_chosen_id=adapter.capabilities.caller_chosen_id,
        transcript_found=not state.registered
        and adapter.has_transcript(state.native_id or state.id, agent.state_dir),
        spare_id=new_id(),
    )


def find_recovery(
    code: ErrorCode, used: LaunchPlan, state: SessionState, adapter: Adapter
) -> Recovery | None:
    """Return what to change before the one retry, or None if another attempt would fail in the same way.

    No recovery creates a new session or changes the visible history.
    """
    forks = used.fork_of is not None
    match code:
        case ErrorCode.ANCHOR_UNKNOWN if used.cut_at is not None:
            return Recovery({"cut_at": None}, UNKNOWN_ANCHOR_NOTICE)
        case ErrorCode.CONVERSATION_IN_USE if used.decision.start is LaunchMode.CREATE:
            known = used.decision.native_id or state.native_id
            return Recovery({"native_id": known, "registered": True, "fork_of": None}) if known else None
        case ErrorCode.CONVERSATION_MISSING if forks or used.decision.start is LaunchMode.RESUME:
            kept = state.native_id if adapter.capabilities.caller_chosen_id else None
            return Recovery(
                {"registered": False, "native_id": kept, "fork_of": None, "cut_at": None},
                "The agent no longer has this conversation; it continues without remembering it.",
            )
        case _:
            return None
