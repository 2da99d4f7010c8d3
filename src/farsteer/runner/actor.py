"""One actor per session. It owns the session's queue, launch, approvals and log; everything reaches it through its
mailbox, in order, so there are no locks and nothing is checked in one place and done in another.

Slow things (starting a process, ending one) run as tasks of their own and report back through the same mailbox.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from farsteer.agents import base
from farsteer.agents.base import Adapter, LaunchPlan
from farsteer.core import commands as do
from farsteer.core import events as ev
from farsteer.core.approvals import Answer, Outcome, check_answer
from farsteer.core.errors import (
    AgentError,
    Conflict,
    ErrorCode,
    FarsteerError,
    Internal,
)
from farsteer.core.events import SessionStatus, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchRow, Start, decide
from farsteer.core.queue import ItemState, QueueItem, cancellable, next_item
from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import Wire
from farsteer.runner.approvals import ApprovalDesk
from farsteer.runner.life import Life
from farsteer.runner.log import SessionLog
from farsteer.runner.mailbox import (
    Expired,
    InterruptOverdue,
    Mail,
    Mailbox,
    Outputs,
    Request,
    Shutdown,
    Started,
    Stopped,
    resolve,
)
from farsteer.runner.timers import Timers

_log = logging.getLogger(__name__)

_FATE_UNKNOWN = (ErrorCode.AGENT_DIED, ErrorCode.TIMEOUT)


class Limits(Wire):
    """How long things may take, in seconds."""

    startup: float = 60.0
    interrupt: float = 5.0
    """An interrupted agent that has not ended its turn by then is ended itself."""
    stop_grace: float = 3.0


@dataclass(slots=True)
class ActorContext:
    """What an actor needs from its runner."""

    adapter: Adapter
    state_dir: str
    environment: Callable[[Adapter], dict[str, str]]
    limits: Limits


class SessionActor:
    def __init__(self, spec: SessionSpec, log: SessionLog, context: ActorContext) -> None:
        self.spec = spec
        self._log = log
        self._context = context
        self._adapter = context.adapter
        self._mailbox = Mailbox()
        self._life: Life | None = None
        self._waiting_ready: list[asyncio.Future[None]] = []
        self._waiting_stopped: list[asyncio.Future[None]] = []
        self._timers = Timers(self._mailbox)
        self._approvals = ApprovalDesk(log, self._timers, spec.permission_timeout)
        self._restart_pending = False
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> SessionState:
        return self._log.state

    @property
    def begun(self) -> bool:
        return self._task is not None

    def catch_up(self, held: int) -> None:
        """Before it begins: the hub holds this much of the log."""
        self._log.catch_up(held)

    def begin(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"session {self.spec.id}")

    async def ask(self, command: do.Command) -> None:
        """Put `command` into the mailbox and wait for its end. Raises what the command raises."""
        if self._closing or self._task is None or self._task.done():
            raise Conflict("this session is closing")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._mailbox.post(Request(command, done))
        await done

    async def close(self, reason: str) -> None:
        """End the process and the actor; the session itself stays in the journal."""
        if self._task is None:
            return
        self._mailbox.post(Shutdown(reason))
        await self._task

    # -- the loop

    async def _run(self) -> None:
        await self._guarded(self._recover())
        while not (self._closing and self._life is None):
            mail = await self._mailbox.take()
            await self._guarded(self._handle(mail))
        self._answer(self._waiting_ready, Conflict("this session is closing"))
        self._timers.cancel_all()
        await self._log.close()
        for mail in self._mailbox.rest():
            if isinstance(mail, Request):
                mail.resolve(Conflict("this session is closing"))

    async def _guarded(self, step: Awaitable[None]) -> None:
        """A defect in one step must not take the session with it."""
        try:
            await step
            await self._advance()
            await self._log.flush()
        except Exception:  # noqa: BLE001
            _log.exception("session %s: a step failed", self.spec.id)
            await self._log.flush()

    async def _handle(self, mail: Mail) -> None:
        match mail:
            case Request():
                await self._answer_request(mail)
            case Outputs() | Stopped():
                self._take_said(mail)
                # What came in meanwhile goes into the same commit.
                while self._mailbox.hears:
                    self._take_said(self._mailbox.next_said())
            case Started():
                await self._started(mail)
            case Expired():
                await self._expire(mail.approval_id)
            case InterruptOverdue():
                if self.state.turn_id == mail.turn_id and self._life is not None:
                    self._life.end("the agent did not react to the interrupt")
            case Shutdown():
                self._closing = True
                if self._life is not None:
                    self._life.end(mail.reason)

    async def _answer_request(self, mail: Request) -> None:
        try:
            waits = await self._execute(mail.command, mail.done)
        except FarsteerError as error:
            await self._log.flush()
            mail.resolve(error)
        except Exception as error:  # noqa: BLE001
            _log.exception("session %s: %s failed", self.spec.id, type(mail.command).__name__)
            await self._log.flush()
            mail.resolve(Internal(f"the runner failed: {type(error).__name__}"))
        else:
            if not waits:
                await self._log.flush()
                mail.resolve(None)

    async def _execute(self, command: do.Command, done: asyncio.Future[None]) -> bool:
        """Do `command`; True if `done` is answered later."""
        match command:
            case do.Create() | do.Resume():
                if self._ready():
                    return False
                self._waiting_ready.append(done)
                await self._ensure_life()
                return True
            case do.Send():
                self._log.enqueue(command.item)
            case do.Cancel():
                item = cancellable(self.state.queue, command.item_id, in_turn=self.state.turn_item)
                self._settle(item.id, ItemState.CANCELLED, "cancelled by the sender")
            case do.Abort():
                await self._abort()
            case do.Stop():
                return self._stop(done)
            case do.Respond():
                await self._respond(command.approval_id, command.answer)
            case do.Configure():
                await self._configure(command)
            case do.Delete():
                self._closing = True
                if self._life is None:
                    return False
                self._waiting_stopped.append(done)
                self._life.end("the session was deleted")
                return True
        return False

    async def _recover(self) -> None:
        """Close what an earlier life of the runner left open. Nothing is run again."""
        state = self.state
        if state.turn_id is not None:
            self._settle(str(state.turn_item), ItemState.UNKNOWN, "the runner ended while handing it over")
            self._end_turn(TurnEndReason.LOST, "the runner ended in the middle of this turn")
        if self.state.status not in (SessionStatus.STOPPED, SessionStatus.FAILED) and state.generation:
            self._log.add(ev.LaunchEnd(generation=state.generation, reason="the runner ended"))

    async def _advance(self) -> None:
        """Deliver the next message if nothing stands in its way."""
        if self._closing:
            return
        if (
            self._restart_pending
            and self.state.turn_id is None
            and self._life is not None
            and self._life.ready
        ):
            self._restart_pending = False
            self._life.end("restart with the new configuration")
            return
        while (item := next_item(self.state.queue, in_turn=self.state.turn_id)) is not None:
            if not self._ready():
                await self._ensure_life()
                return
            await self._deliver(item)

    # -- turns

    async def _deliver(self, item: QueueItem) -> None:
        assert self._life is not None
        assert self._life.launch is not None
        turn_id = new_id()
        attached = self._log.attachments(item)
        self._log.add(ev.TurnStart(turn_id=turn_id, item_id=item.id))
        self._log.add(
            ev.UserMessage(
                item_id=item.id, text=item.text, attachments=item.attachments, sent_from=item.sent_from
            ),
            local_id=item.local_id,
        )
        await self._log.flush()
        prompt = base.Prompt(turn_id=turn_id, text=item.text, attachments=attached)
        try:
            await self._call(self._life.launch.send(prompt))
        except FarsteerError as error:
            # A refusal is certain; an agent that died or did not answer may have taken it.
            state = ItemState.UNKNOWN if error.code in _FATE_UNKNOWN else ItemState.FAILED
            self._not_delivered(turn_id, item, state, error.message)
        except Exception as error:  # noqa: BLE001
            _log.exception("session %s: handing over a message failed", self.spec.id)
            reason = f"handing it over failed: {type(error).__name__}"
            self._not_delivered(turn_id, item, ItemState.UNKNOWN, reason)
        else:
            self._settle(item.id, ItemState.DELIVERED)

    def _not_delivered(self, turn_id: str, item: QueueItem, state: ItemState, reason: str) -> None:
        if self.state.turn_id == turn_id:
            self._settle(item.id, state, reason)
            self._end_turn(TurnEndReason.FAILED, reason)

    async def _call(self, call: Coroutine[Any, Any, None]) -> None:
        """Ask something of the agent, and go on hearing it meanwhile: it may have to speak before it can answer."""
        asked = asyncio.create_task(call)
        try:
            while True:
                heard = asyncio.create_task(self._mailbox.heard())
                await asyncio.wait((asked, heard), return_when=asyncio.FIRST_COMPLETED)
                heard.cancel()
                if asked.done():
                    break
                self._take_said(self._mailbox.next_said())
                await self._log.flush()
        finally:
            asked.cancel()
        await asked

    def _take_said(self, mail: Outputs | Stopped) -> None:
        life = self._life
        if life is None or life.generation != mail.generation:
            return
        if isinstance(mail, Stopped):
            self._exited(base.Exited(exit_code=None, reason="stopped"))
            return
        deltas: list[ev.Delta] = []
        for output in mail.outputs:
            if isinstance(output, base.Fragment):
                deltas.append(output.delta)
                continue
            if deltas:
                self._log.stream(deltas)
                deltas = []
            match output:
                case base.Said():
                    self._log.add(output.event)
                case base.Asked():
                    self._approvals.open(output.approval)
                case base.Withdrawn():
                    self._approvals.withdraw(output.approval_id)
                case base.TurnEnded():
                    self._turn_ended(output)
                case base.Registered():
                    self._log.patch(native_id=output.native_id, registered=True)
                case base.Exited():
                    self._exited(output)
        if deltas:
            self._log.stream(deltas)

    def _turn_ended(self, output: base.TurnEnded) -> None:
        if self.state.turn_id != output.turn_id:
            return
        reason, error = output.reason, output.error
        # The hand-over may not have returned yet: an end by the agent's own word proves it, a crash proves nothing.
        crashed = reason is TurnEndReason.CRASHED
        self._settle(str(self.state.turn_item), ItemState.UNKNOWN if crashed else ItemState.DELIVERED)
        if reason is TurnEndReason.CRASHED and self._life is not None and self._life.reason is not None:
            reason, error = TurnEndReason.CANCELLED, self._life.reason
        self._end_turn(reason, error)

    def _end_turn(self, reason: TurnEndReason, error: str | None = None) -> None:
        self._approvals.withdraw_all()
        turn_id = self.state.turn_id
        if turn_id is not None:
            self._timers.cancel(turn_id)
            self._log.add(ev.TurnEnd(turn_id=turn_id, reason=reason, error=error))

    async def _abort(self) -> None:
        """Interrupt in bounded steps: ask, wait for the real end of the turn, else end the process."""
        turn_id = self.state.turn_id
        if turn_id is None:
            waiting = next_item(self.state.queue, in_turn=None)
            if waiting is not None:
                self._settle(waiting.id, ItemState.CANCELLED, "aborted before it started")
            return
        if self._timers.running(turn_id) or self._life is None or self._life.launch is None:
            return
        life, launch = self._life, self._life.launch
        self._timers.start(turn_id, self._context.limits.interrupt, InterruptOverdue(turn_id))
        try:
            await self._call(launch.interrupt())
        except FarsteerError as error:
            _log.warning("session %s: interrupt failed: %s", self.spec.id, error)
            life.end("the agent could not be interrupted")

    def _settle(self, item_id: str, state: ItemState, reason: str | None = None) -> None:
        """Give a waiting item its outcome; the first one counts."""
        if any(item.id == item_id for item in self.state.queue):
            self._log.add(ev.QueueUpdate(item_id=item_id, state=state, reason=reason))

    # -- approvals

    async def _respond(self, approval_id: str, answer: Answer) -> None:
        approval = self._approvals.get(approval_id)
        answer = check_answer(approval, answer)
        if self._life is None or self._life.launch is None:
            raise Conflict("the agent that asked is gone")
        await self._call(self._life.launch.answer(approval, answer))
        self._approvals.close(approval_id, answer)
        if answer.mode is not None:
            await self._configure(do.Configure(permission_mode=answer.mode))
        if answer.outcome is Outcome.ABORT:
            await self._abort()

    async def _expire(self, approval_id: str) -> None:
        if self._approvals.is_open(approval_id):
            late = Answer(outcome=Outcome.TIMED_OUT, message="nobody answered in time")
            await self._respond(approval_id, late)

    # -- configuration

    async def _configure(self, change: do.Configure) -> None:
        if change.title is not None:
            self._log.add(ev.TitleUpdate(title=change.title, by_user=True))
        state = self.state
        mode = change.permission_mode if change.permission_mode != state.permission_mode else None
        model = change.model if change.model != state.model else None
        effort = change.effort if change.effort != state.effort else None
        if mode is None and model is None and effort is None:
            return
        launch = self._life.launch if self._life is not None else None
        can = self._adapter.capabilities
        if launch is not None:
            if mode is not None and can.live_mode:
                await self._call(launch.set_permission_mode(mode))
            if model is not None and can.live_model:
                await self._call(launch.set_model(model))
            if effort is not None and can.live_effort:
                await self._call(launch.set_effort(effort))
        live = (mode is None or can.live_mode) and (model is None or can.live_model)
        if self._life is not None and not (live and (effort is None or can.live_effort)):
            self._restart_pending = True
        self._log.add(ev.ModeUpdate(permission_mode=mode, model=model, effort=effort))

    # -- launches

    def _ready(self) -> bool:
        return self._life is not None and self._life.ready

    async def _ensure_life(self) -> None:
        """Start a process unless one is there; one that is ending is replaced when it is gone."""
        if self._life is not None:
            return
        plan = self._plan()
        self._restart_pending = False
        self._life = Life(self._adapter, plan, self._mailbox, self._context.limits.stop_grace)
        resumed = plan.decision.start is Start.RESUME
        self._log.add(
            ev.LaunchStart(generation=plan.generation, resumed=resumed, native_id=plan.decision.native_id)
        )
        self._log.add(ev.StatusUpdate(status=SessionStatus.STARTING))
        await self._log.flush()
        self._life.begin()

    def _plan(self) -> LaunchPlan:
        state, adapter = self.state, self._adapter
        decision = decide(
            LaunchRow(
                session_id=state.id, agent=state.agent, native_id=state.native_id, registered=state.registered
            ),
            agent=adapter.name,
            caller_chosen_id=adapter.capabilities.caller_chosen_id,
            transcript_found=not state.registered
            and adapter.has_transcript(state.id, self._context.state_dir),
        )
        return LaunchPlan(
            session_id=state.id, directory=state.directory, generation=state.generation + 1, decision=decision,
            permission_mode=state.permission_mode, model=state.model, effort=state.effort, source=self.spec.source,
            options=self.spec.options, environment=self._context.environment(adapter),
            state_dir=self._context.state_dir, startup_timeout=self._context.limits.startup,
        )  # fmt: skip

    async def _started(self, mail: Started) -> None:
        life = self._life
        if life is None or life.generation != mail.generation:
            if mail.launch is not None:
                await mail.launch.stop(self._context.limits.stop_grace)
            return
        if mail.launch is None:
            await self._not_started(life, mail.error or AgentError("the agent did not start"))
            return
        life.started(mail.launch)
        if mail.launch.native_id not in (None, self.state.native_id):
            self._log.patch(native_id=mail.launch.native_id)
        if life.ready:
            self._log.add(ev.StatusUpdate(status=SessionStatus.IDLE))
            await self._log.flush()
            self._answer(self._waiting_ready, None)

    async def _not_started(self, life: Life, error: FarsteerError) -> None:
        self._life = None
        self._log.add(ev.LaunchEnd(generation=life.generation, reason=life.reason or error.message))
        if life.reason is None:
            self._log.add(ev.StatusUpdate(status=SessionStatus.FAILED, error=error.message))
            for item in self.state.queue:
                self._settle(item.id, ItemState.FAILED, error.message)
        await self._log.flush()
        self._answer(self._waiting_ready, error)
        self._answer(self._waiting_stopped, None)

    def _stop(self, done: asyncio.Future[None]) -> bool:
        for item in self.state.queue:
            if item.id != self.state.turn_item:
                self._settle(item.id, ItemState.CANCELLED, "the session was stopped")
        if self._life is None:
            return False
        self._waiting_stopped.append(done)
        self._life.end("stopped")
        return True

    def _exited(self, output: base.Exited) -> None:
        life = self._life
        assert life is not None
        self._life = None
        if self.state.turn_id is not None:
            self._settle(str(self.state.turn_item), ItemState.UNKNOWN, "the agent ended while taking it")
            if life.reason is not None:
                self._end_turn(TurnEndReason.CANCELLED, life.reason)
            else:
                self._end_turn(TurnEndReason.CRASHED, output.reason)
        self._log.add(
            ev.LaunchEnd(
                generation=life.generation, reason=life.reason or output.reason, exit_code=output.exit_code,
                stderr=output.stderr if life.reason is None else None,
            )
        )  # fmt: skip
        self._answer(self._waiting_ready, AgentError(output.reason, code=ErrorCode.AGENT_DIED))
        self._answer(self._waiting_stopped, None)

    # -- small things

    def _answer(self, waiting: list[asyncio.Future[None]], error: FarsteerError | None) -> None:
        for done in waiting:
            resolve(done, error)
        waiting.clear()
