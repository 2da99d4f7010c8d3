"""The actor of a session. It owns the session's queue, process, approvals and log.

Everything reaches it through its mailbox and is handled one step at a time. So there are no locks, and nothing changes
between a check and what follows from it. Starting and stopping a process take long: they run as tasks and report
through the same mailbox.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Any

from farsteer.agents.base import Takeover
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.approvals import Answer, Outcome, check_answer, granted_mode
from farsteer.core.errors import (
    Conflict,
    ErrorCode,
    FarsteerError,
    Internal,
    NotCapable,
    NotFound,
    Unavailable,
)
from farsteer.core.events import SessionStatus, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.queue import ItemState
from farsteer.core.session import SessionSpec, SessionState
from farsteer.runner.session.agent_calls import AgentCalls, PromptDelivery
from farsteer.runner.session.approvals import OpenApprovals
from farsteer.runner.session.context import ActorContext
from farsteer.runner.session.files import FileCommand, HeldFiles, HoldFiles, NoteChange, ReleaseFiles
from farsteer.runner.session.launcher import Launcher
from farsteer.runner.session.log import SessionLog
from farsteer.runner.session.mailbox import (
    AgentOutput,
    ApprovalExpired,
    CommandRequest,
    InterruptOverdue,
    LaunchFailed,
    LaunchStarted,
    LaunchStopped,
    LeaseGranted,
    Mail,
    Mailbox,
    PrewarmDue,
    PrewarmExpired,
    Shutdown,
    SilenceCheckDue,
    TerminalAttached,
    TerminalLost,
    TerminalWaits,
    resolve,
)
from farsteer.runner.session.mode_guard import ModeGuard
from farsteer.runner.session.output import OutputHandler
from farsteer.runner.session.rewinds import Rewinds
from farsteer.runner.session.terminal import SessionTerminal
from farsteer.runner.session.timers import Timers
from farsteer.runner.session.turns import TurnManager
from farsteer.runner.terminals import TerminalConnection

_logger = logging.getLogger(__name__)


class SessionActor:
    def __init__(self, spec: SessionSpec, log: SessionLog, context: ActorContext) -> None:
        self.spec = spec
        self._context = context
        self._lease = context.lease
        self._log = log
        mailbox = self._mailbox = Mailbox()
        timers = self._timers = Timers(mailbox)
        approvals = self._approvals = OpenApprovals(log, timers, spec.permission_timeout)
        turns = self._turns = TurnManager(log, approvals, timers, context.limits)
        modes = self._modes = ModeGuard(log)
        output = OutputHandler(log, approvals, turns, modes)
        launcher = self._launcher = Launcher(spec, log, context, mailbox, timers, output)
        calls = self._calls = AgentCalls(mailbox, launcher, log, context)
        self._delivery = PromptDelivery(context, log, turns, timers, launcher, calls)
        self._rewinds = Rewinds(context, log, turns, launcher, calls, self._delivery)
        self._terminal = SessionTerminal(context)
        self._files = HeldFiles(log)
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> SessionState:
        return self._log.state

    @property
    def is_running(self) -> bool:
        """`run_in_background` has been called."""
        return self._task is not None

    @property
    def log(self) -> SessionLog:
        """Only for what is done before the actor runs, and to look at."""
        return self._log

    def settle(self, command: commands.Settle) -> None:
        """Execute the command, before anything else if the actor does not run yet. Returns at once."""
        if self._task is None:
            self._delivery.settle(command)
        else:
            self._mailbox.post(CommandRequest(command, asyncio.get_running_loop().create_future()))

    async def import_history(self, history: Sequence[ev.SessionEvent]) -> None:
        """Begin the log with these events. Only before the actor runs."""
        for event in history:
            self._log.add(event)
        await self._log.flush()

    def run_in_background(self) -> None:
        """Start to handle the mailbox."""
        self._task = asyncio.create_task(self._run(), name=f"session {self.spec.id}")

    async def execute(self, command: commands.Command | FileCommand) -> Any:
        """Put `command` into the mailbox and return its result. Raises what the command raises."""
        if self._closing or self._task is None or self._task.done():
            raise Conflict("this session is closing")
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._mailbox.post(CommandRequest(command, done))
        return await done

    async def close(self, reason: str) -> None:
        """Stop the process and the actor. The session stays in the journal."""
        if self._task is None:
            return
        self._mailbox.post(Shutdown(reason))
        await self._task

    def attach_terminal(self, terminal: TerminalConnection) -> None:
        """Let a terminal have the conversation when nothing else waits."""
        if self._closing or (self._task is not None and self._task.done()):
            terminal.refuse(Conflict("this session is closing"))
        else:
            # A session that does not run yet, because its machine has not reached the hub, takes it when it does.
            self._mailbox.post(TerminalAttached(terminal))

    def take_back(self, terminal: TerminalConnection, *, interrupt: bool) -> None:
        """Give the conversation back to its terminal, at once if `interrupt` ends the turn that runs."""
        self._mailbox.post(TerminalWaits(terminal, interrupt))

    def lose_terminal(self, terminal: TerminalConnection) -> None:
        """The terminal is gone, and its program has ended."""
        self._mailbox.post(TerminalLost(terminal))

    def resume_work(self) -> None:
        """Go on with what waited while the runner did not have its lease."""
        self._mailbox.post(LeaseGranted())

    # -- the loop

    async def _run(self) -> None:
        await self._step(self._recover())
        while not (self._closing and self._launcher.current is None):
            mail = await self._mailbox.receive()
            await self._step(self._handle(mail))
        self._launcher.close()
        self._rewinds.close()
        self._terminal.disconnect()
        self._timers.cancel_all()
        await self._log.close()
        for mail in self._mailbox.drain():
            if isinstance(mail, CommandRequest):
                mail.resolve(Conflict("this session is closing"))
            elif isinstance(mail, TerminalAttached):
                mail.terminal.disconnect()

    async def _step(self, work: Awaitable[None]) -> None:
        """Do one step, what becomes possible by it, and commit. A defect in one step does not end the session."""
        try:
            await work
            await self._advance()
            await self._log.flush()
        except Exception as error:
            if isinstance(error, Unavailable):
                _logger.error("session %s: %s", self.spec.id, error)
            else:
                _logger.exception("session %s: a step failed", self.spec.id)
            try:
                await self._log.flush()
            except Exception:
                # The next step commits it.
                _logger.exception("session %s: what a failed step did could not be committed", self.spec.id)

    async def _recover(self) -> None:
        """Close what the previous runner process left open. Nothing is repeated."""
        generation = self.state.generation
        await self._read_missed()
        await self._turns.end_lost()
        if self.state.status not in (SessionStatus.STOPPED, SessionStatus.FAILED) and generation:
            self._log.add(ev.LaunchEnd(generation=generation, reason="the runner exited"))

    async def _read_missed(self) -> None:
        """Log what a terminal added to the conversation after the previous runner process had exited."""
        state = self.state
        if state.transcript_at is None or state.native_id is None:
            return
        try:
            missed = await self._context.adapter.read_records_after(
                state.native_id, state.transcript_at, state.directory
            )
        except Exception as error:
            _logger.exception("session %s: the transcript of its terminal cannot be read", self.spec.id)
            text = f"What was said in the terminal while the runner did not run could not be read: {error}"
            missed = [ev.Notice(text=text, level="warning", code=ErrorCode.AGENT_PROTOCOL)]
        for event in missed:
            # The message of the turn that ran is in the log since before the agent got it.
            if not (isinstance(event, ev.UserMessage) and event.item_id == state.turn_item):
                self._log.add(event)
        self._log.update_private_state(transcript_at=None)

    async def _handle(self, mail: Mail) -> None:
        match mail:
            case CommandRequest():
                await self._handle_command(mail)
            case AgentOutput() | LaunchStopped():
                self._launcher.receive(mail)
                # What has arrived meanwhile goes into the same commit.
                while self._mailbox.has_agent_mail:
                    self._launcher.receive(self._mailbox.next_agent_mail())
            case LaunchStarted():
                await self._launcher.handle_started(mail)
            case LaunchFailed():
                terminal = self._launcher.terminal
                error = await self._launcher.handle_failed(mail)
                if error is not None and terminal is not None:
                    # What waits is for a process without the terminal, which `_advance` starts.
                    self._terminal.refuse(error)
                elif error is not None:
                    self._fail_waiting(error.message)
            case ApprovalExpired():
                await self._expire_approval(mail.approval_id)
            case InterruptOverdue():
                if self.state.turn_id == mail.turn_id:
                    self._launcher.stop("the agent did not react to the interrupt")
            case SilenceCheckDue():
                self._check_silence(mail.turn_id)
            case PrewarmDue():
                if not self._closing and self._rewinds.current is None and self._lease.may_start:
                    await self._launcher.prewarm_or_restart()
            case PrewarmExpired():
                self._launcher.stop_unused(mail.generation)
            case LeaseGranted():
                pass  # `_advance` goes on.
            case TerminalAttached():
                self._terminal.attach(mail.terminal)
            case TerminalWaits():
                self._terminal.take_back(mail.terminal)
                if mail.interrupt:
                    await self._delivery.interrupt()
            case TerminalLost():
                self._terminal.lose(mail.terminal)
            case Shutdown():
                self._closing = True
                self._launcher.stop(mail.reason)

    async def _handle_command(self, request: CommandRequest) -> None:
        """Execute a command. What it has changed is committed before it is answered."""
        try:
            answered_later = await self._execute(request.command, request.done)
        except FarsteerError as error:
            await self._log.flush()
            request.resolve(error)
        except Exception as error:
            _logger.exception("session %s: %s failed", self.spec.id, type(request.command).__name__)
            await self._log.flush()
            request.resolve(Internal(f"the runner failed: {type(error).__name__}"))
        else:
            if not answered_later:
                await self._log.flush()
                request.resolve(None)

    async def _execute(self, command: commands.Command | FileCommand, done: asyncio.Future[Any]) -> bool:
        """Execute `command`. Returns True if `done` is resolved by a later step."""
        match command:
            case commands.Create():
                return await self._start_first_launch(done)
            case commands.Resume():
                return await self._resume(done)
            case commands.Send():
                return _tell(done, await self._delivery.send(command.item))
            case commands.SendNow():
                await self._delivery.send_now(command.item_id)
            case commands.Cancel():
                return _tell(done, self._delivery.cancel(command.item_id))
            case commands.Settle():
                self._delivery.settle(command)
            case commands.Abort():
                await self._delivery.abort()
            case commands.Stop():
                self._turns.set_outcome_of_waiting(ItemState.CANCELLED, "the session was stopped")
                if self._rewinds.current is not None:
                    self._rewinds.current.continue_without_process("the session was stopped")
                return self._launcher.stop_and_notify("stopped", done)
            case commands.Prewarm():
                if self._rewinds.current is None:
                    await self._launcher.prewarm()
            case commands.Rewind():
                await self._rewinds.begin(command, done)
                return True
            case commands.AnswerApproval():
                await self._answer_approval(command.approval_id, command.answer)
            case commands.Configure():
                await self._configure(command)
            case commands.SwitchAgent():
                self._switch_agent(command)
            case commands.Delete():
                self._closing = True
                self._terminal.refuse(NotFound("this session was deleted"))
                return self._launcher.stop_and_notify("the session was deleted", done)
            case HoldFiles() | ReleaseFiles() | NoteChange():
                is_busy = self.state.turn_id is not None or self._rewinds.current is not None
                self._files.execute(command, is_busy=is_busy)
            case _:
                raise Internal(f"{type(command).__name__} is a command to the machine, not to a session")
        return False

    async def _advance(self) -> None:
        """Go on with a rewind, then deliver the next message, as far as that is possible without waiting."""
        if self._closing:
            return
        if self._modes.must_restore:
            await self._restore_mode()
        if not self._lease.may_start or self._files.are_held:
            return
        if self._rewinds.current is not None:
            await self._rewinds.advance(self._rewinds.current)
        while self._rewinds.current is None:
            item_id = self._delivery.next_item_id
            if item_id is None:
                if self.state.turn_id is None:
                    if self._terminal.is_waiting and self._terminal.current is not None:
                        if await self._launcher.start_in_terminal(self._terminal.current):
                            self._terminal.is_waiting = False
                        return
                    if self._launcher.is_requested:
                        await self._launcher.ensure_process()
                    self._launcher.schedule_restart()
                return
            if self._launcher.is_in_terminal:
                self._launcher.stop("a message was sent from elsewhere")
                return
            if self._launcher.is_outdated:
                self._launcher.restart()
                return
            if self._launcher.ready_launch is None:
                await self._launcher.ensure_process()
            if self._modes.must_restore:
                # A prewarmed process has reported it, and is needed now.
                await self._restore_mode()
            launch = self._launcher.ready_launch
            if launch is None:
                return
            self._modes.start_turn()
            await self._delivery.deliver(item_id, launch)

    # -- the process

    async def _start_first_launch(self, done: asyncio.Future[Any]) -> bool:
        """Start the process of a new session. Raises Conflict if the session has been launched before."""
        if self.state.generation:
            raise Conflict("this session has been created already")
        await self._launcher.start_and_notify(done)
        return True

    async def _resume(self, done: asyncio.Future[Any]) -> bool:
        """Make sure that a process runs for this session."""
        if self._launcher.ready_launch is not None or self._launcher.is_in_terminal:
            return False
        await self._launcher.start_and_notify(done)
        return True

    def _fail_waiting(self, reason: str) -> None:
        """No process could be started for what waits for it."""
        if self._rewinds.current is not None:
            self._rewinds.current.skip_files(reason)
        else:
            self._turns.set_outcome_of_waiting(ItemState.FAILED, reason)

    def _check_silence(self, turn_id: str) -> None:
        if self.state.turn_id != turn_id:
            return
        silence = self._turns.silence.check(turn_id, waits_for_person=bool(self.state.approvals))
        if silence is not None:
            reason = f"the agent wrote no output for {silence:.0f} s"
            self._launcher.stop(reason, restart=True, turn_end=TurnEndReason.FAILED)

    # -- approvals

    async def _answer_approval(self, approval_id: str, answer: Answer) -> None:
        approval = self._approvals.get(approval_id)
        answer = check_answer(approval, answer)
        launch = self._launcher.launch
        if launch is None:
            raise Conflict("the agent that asked has exited")
        with self._modes.granting(granted_mode(approval, answer)):
            await self._calls.call(launch.answer(approval, answer))
        self._approvals.close(approval_id, answer)
        if answer.mode is not None:
            await self._configure(commands.Configure(permission_mode=answer.mode, identity=answer.identity))
        if answer.outcome is Outcome.ABORT:
            await self._delivery.abort()

    async def _expire_approval(self, approval_id: str) -> None:
        if self._approvals.is_open(approval_id):
            timed_out = Answer(outcome=Outcome.TIMED_OUT, message="nobody answered in time")
            await self._answer_approval(approval_id, timed_out)

    # -- configuration

    async def _configure(self, change: commands.Configure) -> None:
        """Apply a change to the running agent where it can do that live; otherwise schedule a restart."""
        if change.title is not None:
            self._log.add(ev.TitleUpdate(title=change.title, by_user=True, identity=change.identity))
        state = self.state
        mode = change.permission_mode if change.permission_mode != state.permission_mode else None
        model = change.model if change.model != state.model else None
        effort = change.effort if change.effort != state.effort else None
        with self._modes.granting(mode):
            is_live = await self._calls.configure(mode, model, effort)
        if change.permission_mode is not None:
            self._modes.choose(change.permission_mode)
        if mode is None and model is None and effort is None:
            return
        self._log.add(
            ev.ModeUpdate(permission_mode=mode, model=model, effort=effort, identity=change.identity)
        )
        # A process that is starting or prewarmed was given the old values.
        if self._launcher.current is not None and not is_live:
            self._launcher.mark_outdated()

    def _switch_agent(self, command: commands.SwitchAgent) -> None:
        """Go on with another agent. Its process starts with its own environment: nothing of the old one is left.

        Raises Conflict while a turn runs, and NotCapable if the agents do not share their conversations.
        """
        state, agent = self.state, self._context.find_agent(command.agent)
        if command.agent == state.agent:
            return
        if state.turn_id is not None or self._rewinds.current is not None:
            raise Conflict("a turn is running: wait for its end or abort it")
        takeover = agent.adapter.takeover(self._context.adapter)
        if takeover is Takeover.REFUSED:
            raise NotCapable(f"{command.agent} cannot go on with a session of {state.agent}", field="agent")
        anew = takeover is Takeover.ANEW
        chosen_id = new_id() if anew and agent.adapter.capabilities.caller_chosen_id else None
        self._log.add(
            ev.AgentSwitched(
                agent=command.agent,
                model=command.model,
                anew=anew,
                native_id=chosen_id,
                identity=command.identity,
            )
        )
        self._context.agent = agent
        if self._launcher.current is not None:
            self._launcher.restart()

    async def _restore_mode(self) -> None:
        """Put the agent back into the mode that a person chose. One that does not stay there is stopped."""
        if self._launcher.launch is None:
            # One that is starting is put back when it has started.
            self._modes.must_restore = self._launcher.current is not None
            return
        self._modes.must_restore = False
        if self._modes.has_given_up:
            reason = "the agent does not stay in the permission mode that was chosen"
            self._launcher.stop(reason, turn_end=TurnEndReason.FAILED)
            self._fail_waiting(reason)
            return
        mode = self._modes.allowed
        if mode is not self.state.permission_mode:
            self._log.add(ev.ModeUpdate(permission_mode=mode))
        try:
            is_live = await self._calls.configure(mode, None, None)
        except FarsteerError as error:
            _logger.warning("session %s: the mode could not be restored: %s", self.spec.id, error)
            is_live = False
        if not is_live:
            reason = "the agent could not be put back into its permission mode while it runs"
            self._launcher.stop(reason, restart=True, turn_end=TurnEndReason.FAILED)


def _tell(done: asyncio.Future[Any], outcome: ItemState | None) -> bool:
    """Resolve a command with the outcome that its item has had. Returns False if it has had none."""
    if outcome is not None:
        resolve(done, None, commands.KnownOutcome(outcome))
    return outcome is not None
