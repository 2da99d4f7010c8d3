"""A session's process: started, warmed, renewed, recovered, ended. There is at most one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from farsteer.agents import base
from farsteer.agents.base import Launch, LaunchPlan, Output
from farsteer.core import events as ev
from farsteer.core.errors import AgentError, Conflict, ErrorCode, FarsteerError
from farsteer.core.events import SessionStatus, TurnEndReason
from farsteer.core.launch import LaunchMode
from farsteer.core.session import SessionSpec, add_abandoned
from farsteer.runner import planning
from farsteer.runner.context import ActorContext
from farsteer.runner.life import Life
from farsteer.runner.log import SessionLog
from farsteer.runner.mailbox import Mailbox, Started, resolve
from farsteer.runner.timers import Timers
from farsteer.runner.warmth import Warmth

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
        self.life: Life | None = None
        self._spec = spec
        self._log = log
        self._context = context
        self._mailbox = mailbox
        self._hear = hear
        self._warmth = Warmth(timers, context.limits.warm_delay)
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
        self._warmth.disarm()
        self._warmth.forgive()
        if self.life is None:
            await self._begin(warm=False)
        elif self.life.warm and self.life.reason is None:
            await self._step_forward(self.life)

    async def warm(self) -> None:
        """Begin a process that nobody sees, unless there is one or it keeps failing."""
        if self.life is None and self._warmth.hopeful:
            self._warmth.disarm()
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
        self._warmth.forgive()
        self._warmth.arm()

    @property
    def outdated(self) -> bool:
        return self._outdated and self.life is not None and self.life.ready

    def renew(self) -> None:
        self.end("restart with the new configuration", renews=True)

    def settle(self) -> None:
        """No turn runs: what waited for that may happen when things stay quiet."""
        if self.outdated and not self._warmth.armed:
            self._warmth.arm()

    def warm_soon(self) -> None:
        self._warmth.forgive()
        self._warmth.arm()

    async def _begin(self, *, warm: bool) -> None:
        context, adapter = self._context, self._context.adapter
        plan = planning.plan(
            self._spec, self._log.state, adapter, state_dir=context.state_dir,
            environment=context.environment(adapter), startup=context.limits.startup, home=context.home,
        )  # fmt: skip
        self._outdated = False
        self.life = Life(adapter, plan, self._mailbox, context.limits, warm=warm)
        if warm:
            self._log.patch(generation=plan.generation)
            self._warmth.keep(plan.generation, context.limits.warm_keep)
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

    async def _step_forward(self, life: Life) -> None:
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

    async def _arrived(self, life: Life) -> None:
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

    async def _not_started(self, life: Life, error: FarsteerError) -> FarsteerError | None:
        self.life = None
        if life.warm:
            if life.reason is None:
                self._warmth.failed()
            elif life.renews:
                self._warmth.arm()
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
        cure = planning.recovery(error.code, plan, self._log.state, self._context.adapter)
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
        self._warmth.disarm()
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
            self._warmth.arm()
        elif life.reason is None and life.warm:
            self._warmth.failed()
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
