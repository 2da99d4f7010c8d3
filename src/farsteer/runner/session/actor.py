"""One actor per session. It owns the session's queue, launch, approvals and log; everything reaches it through its
mailbox, in order, so there are no locks and nothing is checked in one place and done in another.

Slow things (starting a process, ending one) run as tasks of their own and report back through the same mailbox.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

import msgspec

from farsteer.agents import base
from farsteer.agents.base import Output
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.approvals import Answer, Outcome, check_answer
from farsteer.core.errors import Conflict, ErrorCode, FarsteerError, Internal, NotCapable
from farsteer.core.events import FileRestore, FilesRestored, SessionStatus, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.queue import REWIND_REASON, Delivery, ItemState, QueueItem, find_waiting, next_item
from farsteer.core.session import SessionSpec, SessionState, add_abandoned
from farsteer.runner.session.approvals import OpenApprovals
from farsteer.runner.session.context import ActorContext
from farsteer.runner.session.launcher import PLACE_UNKNOWN, Launcher
from farsteer.runner.session.log import SessionLog
from farsteer.runner.session.mailbox import (
    AgentMail,
    AgentOutput,
    ApprovalExpired,
    CommandRequest,
    InterruptOverdue,
    LaunchStopped,
    Mail,
    Mailbox,
    PrewarmDue,
    PrewarmExpired,
    Shutdown,
    SilenceCheckDue,
    Started,
    resolve,
)
from farsteer.runner.session.rewinds import RewindInProgress
from farsteer.runner.session.timers import Timers
from farsteer.runner.session.turns import TurnManager

_log = logging.getLogger(__name__)


class SessionActor:
    def __init__(self, spec: SessionSpec, log: SessionLog, context: ActorContext) -> None:
        self.spec = spec
        self._log = log
        self._limits = context.limits
        self._can = context.adapter.capabilities
        self._mailbox = Mailbox()
        timers = self._timers = Timers(self._mailbox)
        self._approvals = OpenApprovals(log, timers, spec.permission_timeout)
        self._turns = TurnManager(log, self._approvals, timers, context.limits, self._call, self._hand_over)
        self._launcher = Launcher(spec, log, context, self._mailbox, timers, self._hear)
        self._rewinding: RewindInProgress | None = None
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

    async def begin_with(self, history: Sequence[ev.SessionEvent]) -> None:
        """Begin with what an agent remembers from before we knew it."""
        for event in history:
            self._log.add(event)
        await self._log.flush()
        self.begin()

    def begin(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"session {self.spec.id}")

    async def ask(self, command: commands.Command) -> Any:
        """Put `command` into the mailbox and wait for its end. Raises what the command raises."""
        if self._closing or self._task is None or self._task.done():
            raise Conflict("this session is closing")
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._mailbox.post(CommandRequest(command, done))
        return await done

    async def close(self, reason: str) -> None:
        """End the process and the actor; the session itself stays in the journal."""
        if self._task is None:
            return
        self._mailbox.post(Shutdown(reason))
        await self._task

    # -- the loop

    async def _run(self) -> None:
        await self._guarded(self._recover())
        while not (self._closing and self._launcher.life is None):
            mail = await self._mailbox.take()
            await self._guarded(self._handle(mail))
        self._launcher.close()
        if self._rewinding is not None:
            resolve(self._rewinding.done, Conflict("this session is closing"))
        self._timers.cancel_all()
        await self._log.close()
        for mail in self._mailbox.rest():
            if isinstance(mail, CommandRequest):
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
            case CommandRequest():
                await self._answer_request(mail)
            case AgentOutput() | LaunchStopped():
                self._take_said(mail)
                # What came in meanwhile goes into the same commit.
                while self._mailbox.hears:
                    self._take_said(self._mailbox.next_said())
            case Started():
                error = await self._launcher.started(mail)
                if error is not None and self._rewinding is not None:
                    self._rewinding.files_failed(error.message)
                elif error is not None:
                    self._turns.settle_waiting(ItemState.FAILED, error.message)
            case ApprovalExpired():
                await self._expire(mail.approval_id)
            case InterruptOverdue():
                if self.state.turn_id == mail.turn_id:
                    self._launcher.end("the agent did not react to the interrupt")
            case SilenceCheckDue():
                self._silent(mail.turn_id)
            case PrewarmDue():
                if not self._closing and self._rewinding is None:
                    await self._launcher.quiet()
            case PrewarmExpired():
                self._launcher.cool(mail.generation)
            case Shutdown():
                self._closing = True
                self._launcher.end(mail.reason)

    async def _answer_request(self, mail: CommandRequest) -> None:
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

    async def _execute(self, command: commands.Command, done: asyncio.Future[Any]) -> bool:
        """Do `command`; True if `done` is answered later."""
        match command:
            case commands.Create() | commands.Resume():
                if self._launcher.ready:
                    return False
                self._launcher.when_ready(done)
                await self._launcher.ensure()
                return True
            case commands.Send():
                await self._send(command.item)
            case commands.SendNow():
                await self._send_now(command.item_id)
            case commands.Cancel():
                item = find_waiting(self.state.queue, command.item_id)
                self._turns.settle(item.id, ItemState.CANCELLED, "cancelled by the sender")
            case commands.Abort():
                await self._abort()
            case commands.Stop():
                self._turns.settle_waiting(ItemState.CANCELLED, "the session was stopped")
                return self._launcher.stop("stopped", done)
            case commands.Prewarm():
                if self._rewinding is None:
                    await self._launcher.warm()
            case commands.Rewind():
                await self._rewind(command, done)
                return True
            case commands.AnswerApproval():
                await self._respond(command.approval_id, command.answer)
            case commands.Configure():
                await self._configure(command)
            case commands.Delete():
                self._closing = True
                return self._launcher.stop("the session was deleted", done)
            case commands.ListConversations():
                raise Internal("a session lists no conversations")
        return False

    async def _recover(self) -> None:
        """Close what an earlier life of the runner left open. Nothing is run again."""
        state = self.state
        self._turns.lost()
        if self.state.status not in (SessionStatus.STOPPED, SessionStatus.FAILED) and state.generation:
            self._log.add(ev.LaunchEnd(generation=state.generation, reason="the runner ended"))

    async def _advance(self) -> None:
        """Deliver the next message if nothing stands in its way."""
        if self._closing:
            return
        if self._rewinding is not None:
            await self._go_on_rewinding(self._rewinding)
        while self._rewinding is None and self.state.turn_id is None:
            item = next_item(self.state.queue)
            if item is None:
                if self._launcher.wanted:
                    await self._launcher.ensure()
                self._launcher.settle()
                return
            if self._launcher.outdated:
                self._launcher.renew()
                return
            if not self._launcher.ready:
                await self._launcher.ensure()
            launch = self._launcher.launch
            if not self._launcher.ready or launch is None:
                return
            lost = await self._turns.deliver(item, launch)
            if lost is not None:
                self._launcher.end(lost, renews=True)

    # -- what the agent says

    async def _call(self, call: Coroutine[Any, Any, Any], timeout: float | None = None) -> Any:
        """Ask something of the agent, and go on hearing it meanwhile: it may have to speak before it can answer."""
        asked = asyncio.create_task(call)
        try:
            async with asyncio.timeout(timeout):
                while True:
                    heard = asyncio.create_task(self._mailbox.heard())
                    try:
                        await asyncio.wait((asked, heard), return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        heard.cancel()
                    if asked.done():
                        break
                    self._take_said(self._mailbox.next_said())
                    await self._log.flush()
        finally:
            asked.cancel()
        return await asked

    async def _hand_over(self, call: Coroutine[Any, Any, Any]) -> None:
        """Give the agent a message. Once somebody wants its turn to end, it has as long as for an interrupt."""
        handing = asyncio.create_task(self._call(call))
        pressing = asyncio.create_task(self._mailbox.pressing())
        try:
            await asyncio.wait((handing, pressing), return_when=asyncio.FIRST_COMPLETED)
            async with asyncio.timeout(None if handing.done() else self._limits.interrupt):
                await handing
        except TimeoutError:
            self._launcher.end("the agent did not take a message", renews=True)
            order = pressing.result() if pressing.done() else None
            if isinstance(order, CommandRequest) and isinstance(order.command, commands.Abort):
                # It has got what it wants: later it would meet the next turn.
                self._mailbox.withdraw(order)
                order.resolve(None)
            raise
        finally:
            pressing.cancel()
            handing.cancel()

    def _take_said(self, mail: AgentMail) -> None:
        life = self._launcher.life
        if life is None or life.generation != mail.generation:
            return
        if isinstance(mail, LaunchStopped):
            self._exited(base.Exited(exit_code=None, reason="stopped"))
        else:
            self._hear(mail.outputs)

    def _hear(self, outputs: Sequence[Output]) -> None:
        if self._launcher.keep(outputs):
            # Of a warm process only its end concerns us.
            outputs = [output for output in outputs if isinstance(output, base.Exited)]
        self._turns.patience.heard()
        deltas: list[ev.Delta] = []
        for output in outputs:
            if isinstance(output, base.DeltaEmitted):
                deltas.append(output.delta)
                continue
            if deltas:
                self._log.stream(deltas)
                deltas = []
            match output:
                case base.EventEmitted():
                    self._take(output.event)
                case base.ApprovalAsked():
                    self._approvals.open(output.approval)
                case base.ApprovalWithdrawn():
                    self._approvals.withdraw(output.approval_id)
                case base.TurnEnded():
                    self._turns.ended(output, self._launcher.life)
                case base.Registered():
                    self._register(output.native_id)
                case base.Exited():
                    self._exited(output)
        if deltas:
            self._log.stream(deltas)

    def _take(self, event: ev.SessionEvent) -> None:
        if isinstance(event, ev.UsageUpdate):
            event = self._turns.attributed(event)
        else:
            self._turns.patience.note(event)
        self._log.add(event)

    def _register(self, native_id: str) -> None:
        """The agent's word that it keeps this conversation. A fork is its own from now on, with its cut."""
        self._log.patch(left_behind=add_abandoned(self.state, native_id))
        if self.state.fork_of is None:
            self._log.patch(native_id=native_id, registered=True)
        else:
            self._log.patch(native_id=native_id, registered=True, fork_of=None, cut_at=None)

    def _exited(self, output: base.Exited) -> None:
        life = self._launcher.life
        if life is not None:
            self._turns.cut_short(life, output.reason)
            self._launcher.exited(output)

    def _silent(self, turn_id: str) -> None:
        if self.state.turn_id != turn_id:
            return
        silence = self._turns.patience.exhausted(turn_id, self.state.approvals)
        if silence is not None:
            reason = f"the agent said nothing for {silence:.0f} s"
            self._launcher.end(reason, renews=True, blame=TurnEndReason.FAILED)

    # -- messages

    async def _send(self, item: QueueItem) -> None:
        if item.delivery is Delivery.STEER and not self._can.steer:
            raise NotCapable("this agent takes no message into a running turn")
        if self._log.knows(item.id):
            return
        self._log.enqueue(item)
        if item.delivery is Delivery.NOW:
            await self._turns.interrupt(self._launcher.life)
        elif item.delivery is Delivery.STEER and self.state.turn_id is not None:
            launch, first = self._launcher.launch, next_item(self.state.queue)
            # Nothing overtakes what waits already.
            if launch is not None and self._launcher.ready and first is not None and first.id == item.id:
                lost = await self._turns.steer(first, launch)
                if lost is not None:
                    self._launcher.end(lost, renews=True, blame=TurnEndReason.CRASHED)

    async def _send_now(self, item_id: str) -> None:
        item = msgspec.structs.replace(find_waiting(self.state.queue, item_id), delivery=Delivery.NOW)
        self._log.add(ev.QueueUpdate(item_id=item_id, state=ItemState.QUEUED, item=item, reason="send now"))
        await self._turns.interrupt(self._launcher.life)

    async def _abort(self) -> None:
        """Interrupt the turn; with none running, take back what is about to start one."""
        if self.state.turn_id is not None:
            await self._turns.interrupt(self._launcher.life)
            return
        item = next_item(self.state.queue)
        if item is not None:
            self._turns.settle(item.id, ItemState.CANCELLED, "aborted before it started")

    # -- rewinding

    async def _rewind(self, command: commands.Rewind, done: asyncio.Future[Any]) -> None:
        if not self._can.rewind:
            raise NotCapable("this agent cannot go back in a conversation")
        if self._rewinding is not None:
            raise Conflict("this conversation is being rewound already")
        if command.first_seq > self.state.seq:
            raise Conflict("there is no such entry in the log")
        self._turns.settle_waiting(ItemState.CANCELLED, REWIND_REASON)
        self._rewinding = RewindInProgress(command, done)
        await self._turns.interrupt(self._launcher.life)

    async def _go_on_rewinding(self, rewinding: RewindInProgress) -> None:
        """The next step, if nothing has to be waited for. What is sent meanwhile waits behind the cut."""
        if self.state.turn_id is not None:
            return
        if rewinding.files is None:
            await self._restore(rewinding)
            if rewinding.files is None:
                return
        if self._launcher.life is not None:
            self._launcher.end("the conversation was rewound")
            return
        command = rewinding.command
        anew = command.cut_at is None and not command.keeps
        event = ev.Rewound(
            first_seq=command.first_seq, files=rewinding.files, cut_at=command.cut_at, keeps=command.keeps,
            native_id=new_id() if anew and self._can.caller_chosen_id else None, by=command.by,
        )  # fmt: skip
        self._log.add(event)
        if command.keeps:
            self._log.add(ev.Notice(text=PLACE_UNKNOWN, level="warning", code=ErrorCode.ANCHOR_UNKNOWN))
        await self._log.flush()
        self._rewinding = None
        resolve(rewinding.done, None, event)
        self._launcher.warm_soon()

    async def _restore(self, rewinding: RewindInProgress) -> None:
        message_id, after = rewinding.command.files_at, rewinding.command.cut_at
        if message_id is None:
            rewinding.files = FilesRestored(status=FileRestore.SKIPPED)
        elif not self._can.file_restore:
            rewinding.files = FilesRestored(status=FileRestore.UNSUPPORTED)
        elif rewinding.command.keeps:
            rewinding.files_failed("the agent has no name for the place to go back to")
        elif not self._launcher.ready:
            await self._launcher.ensure()
        launch = self._launcher.launch
        if rewinding.files is not None or message_id is None or launch is None or not self._launcher.ready:
            return
        try:
            rewinding.files = await self._call(launch.restore_files(message_id, after), self._limits.restore)
        except TimeoutError:
            rewinding.files_failed("the agent took too long")
        except FarsteerError as error:
            rewinding.files_failed(error.message)

    # -- approvals

    async def _respond(self, approval_id: str, answer: Answer) -> None:
        approval = self._approvals.get(approval_id)
        answer = check_answer(approval, answer)
        launch = self._launcher.launch
        if launch is None:
            raise Conflict("the agent that asked is gone")
        await self._call(launch.answer(approval, answer))
        self._approvals.close(approval_id, answer)
        if answer.mode is not None:
            await self._configure(commands.Configure(permission_mode=answer.mode))
        if answer.outcome is Outcome.ABORT:
            await self._abort()

    async def _expire(self, approval_id: str) -> None:
        if self._approvals.is_open(approval_id):
            late = Answer(outcome=Outcome.TIMED_OUT, message="nobody answered in time")
            await self._respond(approval_id, late)

    # -- configuration

    async def _configure(self, change: commands.Configure) -> None:
        if change.title is not None:
            self._log.add(ev.TitleUpdate(title=change.title, by_user=True))
        state = self.state
        mode = change.permission_mode if change.permission_mode != state.permission_mode else None
        model = change.model if change.model != state.model else None
        effort = change.effort if change.effort != state.effort else None
        if mode is None and model is None and effort is None:
            return
        launch, can = self._launcher.launch, self._can
        if launch is not None:
            if mode is not None and can.live_mode:
                await self._call(launch.set_permission_mode(mode))
            if model is not None and can.live_model:
                await self._call(launch.set_model(model))
            if effort is not None and can.live_effort:
                await self._call(launch.set_effort(effort))
        live = (mode is None or can.live_mode) and (model is None or can.live_model)
        live = live and (effort is None or can.live_effort)
        self._log.add(ev.ModeUpdate(permission_mode=mode, model=model, effort=effort))
        # A process that is starting or warm was told the old values.
        if self._launcher.life is not None and not (live and launch is not None):
            self._launcher.outdate()
