"""A session's process: started, warmed, renewed, recovered, ended. There is at most one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from farsteer.agents import base
from farsteer.agents.base import Adapter, Launch, LaunchPlan, Output
from farsteer.agents.process.environment import LAUNCH_VARIABLE, LaunchMark
from farsteer.core import events as ev
from farsteer.core.errors import AgentError, Conflict, ErrorCode, FarsteerError
from farsteer.core.events import SessionStatus, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchDecision, LaunchMode, LaunchRow, decide_launch
from farsteer.core.session import SessionSpec, SessionState, add_abandoned
from farsteer.runner.session.context import ActorContext
from farsteer.runner.session.launch_handle import LaunchHandle
from farsteer.runner.session.log import SessionLog
from farsteer.runner.session.mailbox import Mailbox, Started, resolve
from farsteer.runner.session.timers import PrewarmTimer, Timers

_UNHEARD = 1000


class Launcher:
    def __init__(
        self,
        spec: SessionSpec,
        log: SessionLog,
        context: ActorContext,
        mailbox: Mailbox,
        timers: Timers,
        hear: Callable[[Sequence[Output]], None],
    ) -> None:
        self.life: LaunchHandle | None = None
        self._spec = spec
        self._log = log
        self._context = context
        self._mailbox = mailbox
        self._hear = hear
        self._prewarm = PrewarmTimer(timers, context.limits.warm_delay)
        self._outdated = False
        """The process runs with an old configuration."""
        self._recovered: set[ErrorCode] = set()
        """What has been set right since the last good start: a second time it is an error."""
        self._waiting_ready: list[asyncio.Future[Any]] = []
        self._waiting_stopped: list[asyncio.Future[Any]] = []

    @property
    def ready(self) -> bool:
        """A process that clients know of can take a message."""
        return self.life is not None and self.life.ready and not self.life.warm

    @property
    def launch(self) -> Launch | None:
        """Whom to talk to."""
        return self.life.launch if self.life is not None and not self.life.warm else None

    @property
    def wanted(self) -> bool:
        """There is no process, and somebody waits for one: the last was ending when they asked."""
        return self.life is None and bool(self._waiting_ready)

    def when_ready(self, done: asyncio.Future[Any]) -> None:
        self._waiting_ready.append(done)

    # -- starting

    async def ensure(self) -> None:
        """Begin a process, or let a warm one step forward. One that is ending is replaced when it is gone."""
        self._prewarm.disarm()
        self._prewarm.reset_failures()
        if self.life is None:
            await self._begin(warm=False)
        elif self.life.warm and self.life.reason is None:
            await self._step_forward(self.life)

    async def warm(self) -> None:
        """Begin a process that nobody sees, unless there is one or it keeps failing."""
        if self.life is None and not self._prewarm.has_given_up:
            self._prewarm.disarm()
            await self._begin(warm=True)

    async def quiet(self) -> None:
        """Things have been quiet for a moment: renew what is outdated, or start what will be needed."""
        if self.life is None:
            await self.warm()
        elif self._outdated and self.life.ready and self._log.state.turn_id is None:
            self.renew()

    def cool(self, generation: int) -> None:
        """End a process that was started in advance and that nobody has needed."""
        if self.life is not None and self.life.warm and self.life.generation == generation:
            self.life.end("it was not needed")

    def outdate(self) -> None:
        """The configuration has changed in a way that needs a new process."""
        if self.life is not None:
            self._outdated = True
        self._prewarm.reset_failures()
        self._prewarm.arm()

    @property
    def outdated(self) -> bool:
        return self._outdated and self.life is not None and self.life.ready

    def renew(self) -> None:
        self.end("restart with the new configuration", renews=True)

    def settle(self) -> None:
        """No turn runs: what waited for that may happen when things stay quiet."""
        if self.outdated and not self._prewarm.is_armed:
            self._prewarm.arm()

    def warm_soon(self) -> None:
        self._prewarm.reset_failures()
        self._prewarm.arm()

    async def _begin(self, *, warm: bool) -> None:
        context, adapter = self._context, self._context.adapter
        plan = make_plan(
            self._spec, self._log.state, adapter, state_dir=context.state_dir,
            environment=context.environment(adapter), startup=context.limits.startup, home=context.home,
        )  # fmt: skip
        self._outdated = False
        self.life = LaunchHandle(adapter, plan, self._mailbox, context.limits, warm=warm)
        if warm:
            self._log.patch(generation=plan.generation)
            self._prewarm.expire_after(plan.generation, context.limits.warm_keep)
        else:
            self._announce(plan)
        await self._log.flush()
        self.life.begin()

    def _announce(self, plan: LaunchPlan) -> None:
        resumed = plan.decision.start is LaunchMode.RESUME
        self._log.add(
            ev.LaunchStart(generation=plan.generation, resumed=resumed, native_id=plan.decision.native_id)
        )
        self._log.add(ev.StatusUpdate(status=SessionStatus.STARTING))

    async def _step_forward(self, life: LaunchHandle) -> None:
        life.warm = False
        self._announce(life.plan)
        if life.ready:
            await self._arrived(life)

    async def started(self, mail: Started) -> FarsteerError | None:
        """What a start came to. The error, if one failed that clients know of and that cannot be set right."""
        life = self.life
        if life is None or life.generation != mail.generation:
            if mail.launch is not None:
                await mail.launch.stop(self._context.limits.stop_grace)
            return None
        if mail.launch is None:
            return await self._not_started(life, mail.error or AgentError("the agent did not start"))
        life.started(mail.launch)
        self._log.patch(left_behind=add_abandoned(self._log.state, mail.launch.native_id))
        if life.ready and not life.warm:
            await self._arrived(life)
        return None

    async def _arrived(self, life: LaunchHandle) -> None:
        assert life.launch is not None
        self._recovered.clear()
        if life.launch.native_id not in (None, self._log.state.native_id):
            self._log.patch(native_id=life.launch.native_id)
        unheard, life.unheard = life.unheard, []
        self._hear(unheard)
        if self.life is not life:
            return
        self._log.add(ev.StatusUpdate(status=SessionStatus.IDLE))
        await self._log.flush()
        self._answer(self._waiting_ready, None)

    async def _not_started(self, life: LaunchHandle, error: FarsteerError) -> FarsteerError | None:
        self.life = None
        if life.warm:
            if life.reason is None:
                self._prewarm.count_failure()
            elif life.renews:
                self._prewarm.arm()
            self._answer(self._waiting_stopped, None)
            return None
        self._log.add(ev.LaunchEnd(generation=life.generation, reason=life.reason or error.message))
        if life.reason is None and await self._set_right(life.plan, error):
            return None
        if life.reason is None:
            self._log.add(ev.StatusUpdate(status=SessionStatus.FAILED, error=error.message))
        await self._log.flush()
        if life.reason is None:
            self._answer(self._waiting_ready, error)
        self._answer(self._waiting_stopped, None)
        return error if life.reason is None else None

    async def _set_right(self, plan: LaunchPlan, error: FarsteerError) -> bool:
        """The agent knows better than our row: change that and try again, once."""
        if error.code in self._recovered:
            return False
        cure = find_recovery(error.code, plan, self._log.state, self._context.adapter)
        if cure is None:
            return False
        self._recovered.add(error.code)
        self._log.patch(**cure.changes)
        if cure.notice is not None:
            self._log.add(ev.Notice(text=cure.notice, level="warning", code=error.code))
        await self._begin(warm=False)
        return True

    # -- hearing

    def keep(self, outputs: Sequence[Output]) -> bool:
        """Put aside what a warm process says; True if it is warm."""
        life = self.life
        if life is None or not life.warm:
            return False
        life.unheard += (output for output in outputs if not isinstance(output, base.DeltaEmitted))
        del life.unheard[:-_UNHEARD]
        return True

    # -- ending

    def end(self, reason: str, *, renews: bool = False, blame: TurnEndReason | None = None) -> None:
        if self.life is not None:
            self.life.end(reason, renews=renews, blame=blame)

    def stop(self, reason: str, done: asyncio.Future[Any]) -> bool:
        """End the process; True if `done` is answered when it is gone."""
        self._prewarm.disarm()
        if self.life is None:
            return False
        self._answer(self._waiting_ready, AgentError(reason, code=ErrorCode.AGENT_DIED))
        self._waiting_stopped.append(done)
        self.life.end(reason)
        # It may have been ending already, for another to follow.
        self.life.renews = False
        return True

    def exited(self, output: base.Exited) -> None:
        """The process is gone; whatever belonged to its turn has been written."""
        life = self.life
        assert life is not None
        self.life = None
        if not life.warm:
            self._log.add(
                ev.LaunchEnd(
                    generation=life.generation, reason=life.reason or output.reason, exit_code=output.exit_code,
                    stderr=output.stderr if life.reason is None else None,
                )
            )  # fmt: skip
        if life.renews:
            self._prewarm.arm()
        elif life.reason is None and life.warm:
            self._prewarm.count_failure()
        elif life.reason is None:
            self.warm_soon()
        if life.reason is None:
            self._answer(self._waiting_ready, AgentError(output.reason, code=ErrorCode.AGENT_DIED))
        self._answer(self._waiting_stopped, None)

    def close(self) -> None:
        self._answer(self._waiting_ready, Conflict("this session is closing"))

    def _answer(self, waiting: list[asyncio.Future[Any]], error: FarsteerError | None) -> None:
        for done in waiting:
            resolve(done, error)
        waiting.clear()


PLACE_UNKNOWN = "The agent does not know the place to go back to; it still remembers what was removed."


class Recovery(NamedTuple):
    """How the stored row is set right, and what a person is told."""

    changes: dict[str, Any]
    notice: str | None = None


def _decide(state: SessionState, adapter: Adapter, state_dir: str) -> LaunchDecision:
    return decide_launch(
        LaunchRow(
            session_id=state.id, agent=state.agent, native_id=state.native_id, registered=state.registered
        ),
        agent=adapter.name,
        caller_chosen_id=adapter.capabilities.caller_chosen_id,
        transcript_found=not state.registered
        and adapter.has_transcript(state.native_id or state.id, state_dir),
        spare_id=new_id(),
    )


def make_plan(
    spec: SessionSpec, state: SessionState, adapter: Adapter, *, state_dir: str, environment: dict[str, str],
    startup: float, home: str,
) -> LaunchPlan:  # fmt: skip
    decided = _decide(state, adapter, state_dir)
    fork_of = state.fork_of if decided.start is LaunchMode.CREATE else None
    cuts = fork_of is not None or decided.start is LaunchMode.RESUME
    generation = state.generation + 1
    environment = {**environment, LAUNCH_VARIABLE: str(LaunchMark(home, generation, state.id))}
    return LaunchPlan(
        session_id=state.id, directory=state.directory, generation=generation, decision=decided,
        permission_mode=state.permission_mode, model=state.model, effort=state.effort,
        options=spec.options, environment=environment, state_dir=state_dir, startup_timeout=startup,
        fork_of=fork_of, cut_at=state.cut_at if cuts else None, mcp_servers=spec.mcp_servers,
        additional_directories=spec.additional_directories,
    )  # fmt: skip


def find_recovery(
    code: ErrorCode, used: LaunchPlan, state: SessionState, adapter: Adapter
) -> Recovery | None:
    """What to change before the one retry; None if another try would end the same way.

    None of these makes a new session, and none touches the visible history.
    """
    forks = used.fork_of is not None
    match code:
        case ErrorCode.ANCHOR_UNKNOWN if used.cut_at is not None:
            return Recovery(
                {"cut_at": None},
                PLACE_UNKNOWN,
            )
        case ErrorCode.CONVERSATION_IN_USE if used.decision.start is LaunchMode.CREATE:
            known = used.decision.native_id or state.native_id
            return Recovery({"native_id": known, "registered": True, "fork_of": None}) if known else None
        case ErrorCode.CONVERSATION_MISSING if forks or used.decision.start is LaunchMode.RESUME:
            kept = state.native_id if adapter.capabilities.caller_chosen_id else None
            changes = {"registered": False, "native_id": kept, "fork_of": None, "cut_at": None}
            return Recovery(
                changes, "The agent no longer has this conversation; it goes on without remembering it."
            )
        case _:
            return None
