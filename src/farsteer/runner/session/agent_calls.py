"""Calls to the agent while its output keeps being handled, and the delivery of messages by such calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec

from farsteer.agents.base import Launch, Prompt
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.errors import ErrorCode, FarsteerError, NotCapable, NotFound
from farsteer.core.events import TurnEndReason
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import Delivery, ItemState, QueueItem, find_waiting, next_item, summarize, too_late
from farsteer.runner.session.context import ActorContext
from farsteer.runner.session.launcher import Launcher
from farsteer.runner.session.log import SessionLog
from farsteer.runner.session.mailbox import CommandRequest, InterruptOverdue, Mailbox
from farsteer.runner.session.timers import Timers
from farsteer.runner.session.turns import TurnManager

_logger = logging.getLogger(__name__)

T = TypeVar("T")

_FATE_UNKNOWN = (ErrorCode.AGENT_DIED, ErrorCode.TIMEOUT)
"""Errors after which the agent may or may not have the message. Any other error is a certain refusal."""
_MAX_NOT_TAKEN = 3
"""How many processes may end before they take a message. An agent that always does so would be started for ever."""
_CALL_AFTER_EXIT_SECONDS = 1.0
_NOT_ACCEPTED = "the agent had not accepted it when the turn was to end"


class AgentCalls:
    """Runs one call to the agent at a time, as part of the actor's current step.

    An agent may have to write output before it can answer, and its queue in the mailbox is bounded. Therefore agent
    mail is handled and flushed while a call is running. All other mail stays in the mailbox until the step is done.
    The session's state may have changed when a call returns; the process may even be gone.
    """

    def __init__(self, mailbox: Mailbox, launcher: Launcher, log: SessionLog, context: ActorContext) -> None:
        self._mailbox = mailbox
        self._launcher = launcher
        self._log = log
        self._context = context
        self._interrupt_timeout = context.limits.interrupt

    async def call(self, call: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Return the result of `call`. Raises what it raises, and TimeoutError after `timeout` seconds."""
        return await self._result(asyncio.create_task(call), timeout)

    async def _result(self, calling: asyncio.Task[T], timeout: float | None = None) -> T:
        try:
            async with asyncio.timeout(timeout):
                while True:
                    mail = asyncio.create_task(self._mailbox.wait_for_agent_mail())
                    try:
                        await asyncio.wait((calling, mail), return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        mail.cancel()
                    if not calling.done() and self._mailbox.next_is_exit:
                        # The call ends too, and its end says more about what the agent has taken.
                        await asyncio.wait((calling,), timeout=_CALL_AFTER_EXIT_SECONDS)
                    if calling.done():
                        break
                    self._launcher.receive(self._mailbox.next_agent_mail())
                    await self._log.flush()
        finally:
            calling.cancel()
        if calling.done() and not calling.cancelled() and calling.exception() is not None:
            # What the agent wrote before the call failed belongs to the turn that the failure may end.
            while self._mailbox.has_agent_mail and not self._mailbox.next_is_exit:
                self._launcher.receive(self._mailbox.next_agent_mail())
        return await calling

    async def hand_over(self, call: Coroutine[Any, Any, None]) -> None:
        """Run `call`, which gives a message to the agent.

        There is no time limit until mail arrives that asks for the end of the turn or of the process. From then on the
        agent has as long as for an interrupt. Raises what `call` raises, and TimeoutError after that time; the process
        is being stopped then, because nobody knows whether it has the message.
        """
        calling = asyncio.create_task(call)
        handing_over = asyncio.create_task(self._result(calling))
        urgent = asyncio.create_task(self._mailbox.wait_for_urgent())
        try:
            await asyncio.wait((handing_over, urgent), return_when=asyncio.FIRST_COMPLETED)
            async with asyncio.timeout(None if handing_over.done() else self._interrupt_timeout):
                await handing_over
        except TimeoutError:
            self._launcher.stop("the agent did not accept a message", restart=True)
            request = urgent.result() if urgent.done() else None
            if isinstance(request, CommandRequest) and isinstance(request.command, commands.Abort):
                # This turn ends, as it asked. Handled later it would abort the next turn.
                self._mailbox.withdraw(request)
                request.resolve(None)
            raise
        finally:
            urgent.cancel()
            handing_over.cancel()
            calling.cancel()  # the task above may be cancelled before it has begun

    async def configure(
        self, mode: PermissionMode | None, model: str | None, effort: ReasoningEffort | None
    ) -> bool:
        """Change what is given on the running agent, where it can do that live. Without one, only check it.

        Returns True if nothing is left that needs a new process. Raises BadRequest for what the agent does not have.
        """
        adapter = self._context.adapter
        launch, can = self._launcher.launch, adapter.capabilities
        adapter.check_settings(model, effort, self._log.state.model)
        if launch is not None:
            launch.check_settings(model, effort)
            if mode is not None and can.live_mode:
                await self.call(launch.set_permission_mode(mode))
            if model is not None and can.live_model:
                await self.call(launch.set_model(model))
            if effort is not None and can.live_effort:
                await self.call(launch.set_effort(effort))
        live = (mode is None or can.live_mode) and (model is None or can.live_model)
        return live and (effort is None or can.live_effort) and launch is not None


class PromptDelivery:
    """Queues messages, delivers each to the agent at most once, and interrupts turns."""

    def __init__(
        self, context: ActorContext, log: SessionLog, turns: TurnManager, timers: Timers, launcher: Launcher,
        calls: AgentCalls,
    ) -> None:  # fmt: skip
        self._context = context
        self._limits = context.limits
        self._log = log
        self._turns = turns
        self._timers = timers
        self._launcher = launcher
        self._calls = calls
        self._not_taken_item = ""
        self._not_taken = 0
        """How many processes in a row ended before they took this message."""

    # -- the queue

    @property
    def next_item_id(self) -> str | None:
        """The message to deliver next: that of the running turn if no agent has taken it, else the first that waits."""
        if self._log.state.turn_id is not None:
            return self._turns.waiting_item
        item = next_item(self._log.state.queue)
        return None if item is None else item.id

    async def send(self, item: QueueItem) -> ItemState | None:
        """Queue `item` unless it is known, then interrupt or steer the running turn if it asks for that.

        Returns its outcome if it has one already. Raises NotCapable if the agent cannot be steered as it asks.
        """
        if self._log.is_queued(item.id):
            return None
        known = self._log.find_outcome(item.id)
        if known is not None:
            return known.state
        if item.delivery is Delivery.STEER and not self._context.adapter.capabilities.steer:
            raise NotCapable("this agent accepts no message during a turn")
        self._log.enqueue(item)
        if item.delivery is Delivery.NOW:
            await self.interrupt()
        elif item.delivery is Delivery.STEER and self._log.state.turn_id is not None:
            launch, first = self._launcher.ready_launch, next_item(self._log.state.queue)
            # It is not steered past messages that wait already.
            if launch is not None and first is not None and first.id == item.id:
                await self._steer(item, launch)
        return None

    async def send_now(self, item_id: str) -> None:
        """Move a waiting item to the front and interrupt the running turn. Raises NotFound or Conflict."""
        if not self._log.is_queued(item_id):
            known = self._log.find_outcome(item_id)
            if known is not None:
                raise too_late(known.state)
        find_waiting(self._log.state.queue, item_id)
        if item_id == self._turns.waiting_item:
            return
        message = await self._log.read_message(item_id)
        if message is None:
            raise NotFound("no such message in the queue")
        item = msgspec.structs.replace(summarize(message), delivery=Delivery.NOW)
        self._log.add(ev.QueueUpdate(item_id=item_id, state=ItemState.QUEUED, item=item, reason="send now"))
        await self.interrupt()

    def cancel(self, item_id: str) -> ItemState | None:
        """Cancel an item. One that has not arrived yet will be known as cancelled when it does.

        Returns its outcome if it was cancelled already. Raises Conflict if it has been handed over or has another one.
        """
        reason = "cancelled by the sender"
        if self._log.is_queued(item_id):
            item = find_waiting(self._log.state.queue, item_id)
            self._turns.set_outcome(item.id, ItemState.CANCELLED, reason)
            return None
        known = self._log.find_outcome(item_id)
        if known is None:
            self._log.add(ev.QueueUpdate(item_id=item_id, state=ItemState.CANCELLED, reason=reason))
            return None
        if known.state is not ItemState.CANCELLED:
            raise too_late(known.state)
        return known.state

    def settle(self, command: commands.Settle) -> None:
        """Let the log have the outcome of an item of which the hub's log has none.

        What the agent has keeps its own outcome, and one that is known here counts more than the hub's.
        """
        item_id = command.item_id
        waiting = [ref for ref in self._log.state.queue if ref.id == item_id]
        if waiting:
            if waiting[0].state is not ItemState.HANDED_OVER:
                self._turns.set_outcome(item_id, command.state, command.reason)
            return
        known = self._log.find_outcome(item_id)
        if known is None:
            event = ev.QueueUpdate(
                item_id=item_id, state=command.state, item=command.item, reason=command.reason
            )
        elif known.seq <= command.checked:
            reason = "told again, because the hub lost it"
            if known.state is command.state is ItemState.UNKNOWN:
                reason = command.reason
            event = ev.QueueUpdate(item_id=item_id, state=known.state, item=command.item, reason=reason)
        else:
            return
        self._log.add(event)

    async def abort(self) -> None:
        """Interrupt the running turn. If none runs, cancel the message that is about to start one."""
        if self._log.state.turn_id is not None:
            await self.interrupt()
            return
        item = next_item(self._log.state.queue)
        if item is not None:
            self._turns.set_outcome(item.id, ItemState.CANCELLED, "aborted before it started")

    # -- the agent

    async def deliver(self, item_id: str, launch: Launch) -> None:
        """Begin a turn with a waiting message.

        The journal has the start of the turn before the agent gets the message. After a crash of the runner the message
        is therefore known to be possibly delivered, and is not sent again.
        """
        log = self._log
        item = await log.read_message(item_id)
        if item is None:
            self._turns.set_outcome(item_id, ItemState.FAILED, "the journal does not have this message")
            return
        tells = log.state.digest_due and not item.text.startswith("/")
        if tells:
            # It is part of what the person sends, so that everybody sees what the agent gets.
            item = msgspec.structs.replace(item, text=f"{self._context.digest}\n\n{item.text}")
        turn_id = self._turns.begin(item) if log.state.turn_id is None else self._turns.continue_turn(item)
        await log.flush()
        self._turns.silence.start(turn_id)
        prompt = Prompt(turn_id=turn_id, text=item.text, attachments=item.attachments, message_id=item.id)
        try:
            await self._calls.hand_over(launch.send(prompt))
        except TimeoutError:
            self._fail(turn_id, item, ItemState.UNKNOWN, _NOT_ACCEPTED, TurnEndReason.CANCELLED)
        except FarsteerError as error:
            if error.code in _FATE_UNKNOWN:
                self._fail(turn_id, item, ItemState.UNKNOWN, error.message)
                self._launcher.stop(error.message, restart=True)
            elif error.code is ErrorCode.MESSAGE_NOT_TAKEN:
                self._handle_not_taken(turn_id, item, error.message)
            else:
                self._fail(turn_id, item, ItemState.FAILED, error.message)
        except Exception as error:
            _logger.exception("session %s: the adapter failed to deliver a message", log.state.id)
            self._fail(turn_id, item, ItemState.UNKNOWN, f"the delivery failed: {type(error).__name__}")
        else:
            self._turns.set_outcome(item.id, ItemState.DELIVERED)
            if tells:
                log.update_private_state(digest_due=False)

    def _handle_not_taken(self, turn_id: str, item: QueueItem, reason: str) -> None:
        """The process is gone and has not read the message: the next one gets it, a few times."""
        self._launcher.stop(reason)
        self._not_taken = self._not_taken + 1 if self._not_taken_item == item.id else 1
        self._not_taken_item = item.id
        if self._not_taken >= _MAX_NOT_TAKEN:
            self._fail(
                turn_id, item, ItemState.FAILED, f"{self._not_taken} processes did not take it: {reason}"
            )
        elif self._log.state.turn_id == turn_id:
            self._turns.wait_for_next_process(item.id, reason)

    def _fail(
        self, turn_id: str, item: QueueItem, state: ItemState, reason: str,
        turn_end: TurnEndReason = TurnEndReason.FAILED,
    ) -> None:  # fmt: skip
        if self._log.state.turn_id == turn_id:
            self._turns.set_outcome(item.id, state, reason)
            self._turns.end(turn_end, reason)

    async def _steer(self, item: QueueItem, launch: Launch) -> None:
        """Deliver `item` into the running turn. An item that the agent refuses stays in the queue."""
        log = self._log
        turn_id = log.state.turn_id
        assert turn_id is not None
        log.add(ev.QueueUpdate(item_id=item.id, state=ItemState.HANDED_OVER))
        self._turns.steered = item
        await log.flush()
        prompt = Prompt(turn_id=turn_id, text=item.text, attachments=item.attachments, message_id=item.id)
        try:
            await self._calls.hand_over(launch.steer(prompt))
        except TimeoutError:
            self._finish_steering(item, ItemState.UNKNOWN, _NOT_ACCEPTED)
        except FarsteerError as error:
            if error.code in _FATE_UNKNOWN:
                self._finish_steering(item, ItemState.UNKNOWN, error.message)
                self._launcher.stop(error.message, restart=True, turn_end=TurnEndReason.CRASHED)
            elif self._turns.is_queued(item.id):
                log.add(ev.QueueUpdate(item_id=item.id, state=ItemState.QUEUED, reason=error.message))
                if error.code is ErrorCode.MESSAGE_NOT_TAKEN:
                    self._launcher.stop(error.message, restart=True, turn_end=TurnEndReason.CRASHED)
        except Exception as error:
            _logger.exception("session %s: the adapter failed to deliver a message", log.state.id)
            self._finish_steering(item, ItemState.UNKNOWN, f"the delivery failed: {type(error).__name__}")
        else:
            self._finish_steering(item, ItemState.DELIVERED)
        finally:
            self._turns.steered = None

    def _finish_steering(self, item: QueueItem, state: ItemState, reason: str | None = None) -> None:
        if self._turns.is_queued(item.id):
            self._turns.log_message(item)
            self._turns.set_outcome(item.id, state, reason)

    async def interrupt(self) -> None:
        """Ask the agent to end the running turn.

        The process is stopped if the agent does not accept that in time, or does not end the turn in time afterwards.
        Does nothing if no turn runs or the interrupt has been accepted already.
        """
        turn_id, handle = self._log.state.turn_id, self._launcher.current
        waiting = self._turns.waiting_item
        if waiting is not None:
            self._turns.set_outcome(waiting, ItemState.CANCELLED, "interrupted before the agent had it")
            return
        if turn_id is None or self._timers.is_running(turn_id) or handle is None or handle.launch is None:
            return
        try:
            await self._calls.call(handle.launch.interrupt(), self._limits.interrupt)
        except TimeoutError:
            handle.stop("the agent did not react to the interrupt")
        except FarsteerError as error:
            _logger.warning("session %s: interrupt failed: %s", self._log.state.id, error)
            handle.stop("the agent could not be interrupted")
        else:
            if self._log.state.turn_id == turn_id:
                self._timers.start(turn_id, self._limits.interrupt_end, InterruptOverdue(turn_id))
