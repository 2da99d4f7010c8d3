"""A session's turns: a message handed over once, one end, and an outcome for everything that waited."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import msgspec

from farsteer.agents import base
from farsteer.agents.base import Launch
from farsteer.core import events as ev
from farsteer.core.errors import ErrorCode, FarsteerError
from farsteer.core.events import SessionEvent, ToolCall, ToolCallUpdate, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.queue import ItemState, QueueItem
from farsteer.runner.session.approvals import OpenApprovals
from farsteer.runner.session.context import Limits
from farsteer.runner.session.launch_handle import LaunchHandle
from farsteer.runner.session.log import SessionLog
from farsteer.runner.session.mailbox import InterruptOverdue, SilenceCheckDue
from farsteer.runner.session.timers import Timers

_log = logging.getLogger(__name__)

_FATE_UNKNOWN = (ErrorCode.AGENT_DIED, ErrorCode.TIMEOUT)

Call = Callable[[Coroutine[Any, Any, Any], float | None], Awaitable[Any]]
"""Ask something of the agent, hearing it meanwhile; TimeoutError after so many seconds."""
HandOver = Callable[[Coroutine[Any, Any, Any]], Awaitable[None]]
"""Give the agent a message, hearing it meanwhile; TimeoutError if it is to end and has not taken it."""
_NOT_TAKEN = "the agent had not taken it when the turn was to end"


class TurnManager:
    def __init__(
        self, log: SessionLog, approvals: OpenApprovals, timers: Timers, limits: Limits, call: Call,
        hand_over: HandOver,
    ) -> None:  # fmt: skip
        self._log = log
        self._approvals = approvals
        self._timers = timers
        self._limits = limits
        self._call = call
        self._hand_over = hand_over
        self._last: str | None = None
        """The turn that ran last: what an agent counts afterwards is of that one."""
        self.patience = SilenceTimeout(timers, limits.silence, limits.tool_silence)

    # -- handing over

    async def deliver(self, item: QueueItem, launch: Launch) -> str | None:
        """Begin a turn with `item`. It is on the disk that the agent may have it before the agent does.

        Returns why the agent is lost, if it died or did not answer: the next message is for another one.
        """
        turn_id = self._last = new_id()
        attached = self._log.attachments(item)
        self._log.add(ev.TurnStart(turn_id=turn_id, item_id=item.id))
        self._show(item)
        await self._log.flush()
        self.patience.begin(turn_id)
        prompt = base.Prompt(turn_id=turn_id, text=item.text, attachments=attached, message_id=item.id)
        try:
            await self._hand_over(launch.send(prompt))
        except TimeoutError:
            self._not_delivered(turn_id, item, ItemState.UNKNOWN, _NOT_TAKEN, TurnEndReason.CANCELLED)
            return _NOT_TAKEN
        except FarsteerError as error:
            # A refusal is certain; an agent that died or did not answer may have taken it.
            lost = error.code in _FATE_UNKNOWN
            self._not_delivered(turn_id, item, ItemState.UNKNOWN if lost else ItemState.FAILED, error.message)
            return error.message if lost else None
        except Exception as error:  # noqa: BLE001
            _log.exception("session %s: handing over a message failed", self._log.state.id)
            reason = f"handing it over failed: {type(error).__name__}"
            self._not_delivered(turn_id, item, ItemState.UNKNOWN, reason)
        else:
            self.settle(item.id, ItemState.DELIVERED)
        return None

    def _not_delivered(
        self, turn_id: str, item: QueueItem, state: ItemState, reason: str,
        ended: TurnEndReason = TurnEndReason.FAILED,
    ) -> None:  # fmt: skip
        if self._log.state.turn_id == turn_id:
            self.settle(item.id, state, reason)
            self.end(ended, reason)

    async def steer(self, item: QueueItem, launch: Launch) -> str | None:
        """Hand `item` into the running turn; one that the agent refuses stays in the queue.

        Returns why the agent is lost, as `deliver` does.
        """
        turn_id = self._log.state.turn_id
        assert turn_id is not None
        attached = self._log.attachments(item)
        self._log.add(ev.QueueUpdate(item_id=item.id, state=ItemState.HANDED_OVER))
        await self._log.flush()
        prompt = base.Prompt(turn_id=turn_id, text=item.text, attachments=attached, message_id=item.id)
        try:
            await self._hand_over(launch.steer(prompt))
        except TimeoutError:
            self._steered(item, ItemState.UNKNOWN, _NOT_TAKEN)
            return _NOT_TAKEN
        except FarsteerError as error:
            if error.code in _FATE_UNKNOWN:
                self._steered(item, ItemState.UNKNOWN, error.message)
                return error.message
            if self._waits(item.id):
                self._log.add(ev.QueueUpdate(item_id=item.id, state=ItemState.QUEUED, reason=error.message))
        except Exception as error:  # noqa: BLE001
            _log.exception("session %s: handing over a message failed", self._log.state.id)
            self._steered(item, ItemState.UNKNOWN, f"handing it over failed: {type(error).__name__}")
        else:
            self._steered(item, ItemState.DELIVERED)
        return None

    def _steered(self, item: QueueItem, state: ItemState, reason: str | None = None) -> None:
        if self._waits(item.id):
            self._show(item)
            self.settle(item.id, state, reason)

    def _show(self, item: QueueItem) -> None:
        self._log.add(
            ev.UserMessage(
                item_id=item.id, text=item.text, attachments=item.attachments, sent_from=item.sent_from
            ),
            local_id=item.local_id,
        )

    # -- interrupting

    async def interrupt(self, life: LaunchHandle | None) -> None:
        """In bounded steps: ask, wait for the turn's real end, else end the process."""
        turn_id = self._log.state.turn_id
        if turn_id is None or self._timers.is_running(turn_id) or life is None or life.launch is None:
            return
        try:
            await self._call(life.launch.interrupt(), self._limits.interrupt)
        except TimeoutError:
            life.end("the agent did not react to the interrupt")
        except FarsteerError as error:
            _log.warning("session %s: interrupt failed: %s", self._log.state.id, error)
            life.end("the agent could not be interrupted")
        else:
            if self._log.state.turn_id == turn_id:
                self._timers.start(turn_id, self._limits.interrupt_end, InterruptOverdue(turn_id))

    # -- ending

    def ended(self, output: base.TurnEnded, life: LaunchHandle | None) -> None:
        """The agent's own word, or its adapter's about a crash."""
        if self._log.state.turn_id != output.turn_id:
            return
        reason, error = output.reason, output.error
        if reason is TurnEndReason.CRASHED:
            self._settle_handed_over(ItemState.UNKNOWN)
        else:
            # The hand-over may not have returned yet; an end by the agent's own word proves it.
            self.settle(str(self._log.state.turn_item), ItemState.DELIVERED)
        if life is not None and life.reason and reason in (TurnEndReason.CRASHED, TurnEndReason.CANCELLED):
            reason, error = life.blame, life.reason
        self.end(reason, error)

    def cut_short(self, life: LaunchHandle, why: str) -> None:
        """The process is gone; a turn that was running has no other end."""
        if self._log.state.turn_id is not None:
            self._settle_handed_over(ItemState.UNKNOWN, "the agent ended while taking it")
            if life.reason is not None:
                self.end(life.blame, life.reason)
            else:
                self.end(TurnEndReason.CRASHED, why)

    def lost(self) -> None:
        """An earlier life of the runner ended, in a turn or while a message was on its way into one."""
        if self._log.state.turn_id is not None:
            self._log.add_left_drafts()
        self._settle_handed_over(ItemState.UNKNOWN, "the runner ended while handing it over")
        self.end(TurnEndReason.LOST, "the runner ended in the middle of this turn")

    def end(self, reason: TurnEndReason, error: str | None = None) -> None:
        self._approvals.withdraw_all()
        self.patience.end()
        turn_id = self._log.state.turn_id
        if turn_id is not None:
            self._timers.cancel(turn_id)
            self._log.add(ev.TurnEnd(turn_id=turn_id, reason=reason, error=error))

    # -- the queue

    def settle(self, item_id: str, state: ItemState, reason: str | None = None) -> None:
        """Give a waiting item its outcome; the first one counts."""
        if self._waits(item_id):
            self._log.add(ev.QueueUpdate(item_id=item_id, state=state, reason=reason))

    def _waits(self, item_id: str) -> bool:
        return any(item.id == item_id for item in self._log.state.queue)

    def settle_waiting(self, state: ItemState, reason: str) -> None:
        """Give every item that no agent has the same outcome, each by name."""
        for item in self._log.state.queue:
            if item.state is not ItemState.HANDED_OVER:
                self.settle(item.id, state, reason)

    def _settle_handed_over(self, state: ItemState, reason: str | None = None) -> None:
        for item in self._log.state.queue:
            if item.state is ItemState.HANDED_OVER:
                self.settle(item.id, state, reason)

    # -- counting

    def attributed(self, usage: ev.UsageUpdate) -> ev.UsageUpdate:
        return msgspec.structs.replace(usage, turn_id=self._log.state.turn_id or self._last)


_KEY = "silence"


class SilenceTimeout:
    """One timer per turn, wound anew when it rings early: hearing an agent costs a look at the clock."""

    def __init__(self, timers: Timers, silence: float, tool_silence: float) -> None:
        self._timers = timers
        self._silence = silence
        self._tool_silence = tool_silence
        self._tools: set[str] = set()
        self._heard = 0.0

    def begin(self, turn_id: str) -> None:
        self._tools.clear()
        self.heard()
        self._timers.start(_KEY, self._silence, SilenceCheckDue(turn_id))

    def end(self) -> None:
        self._timers.cancel(_KEY)

    def heard(self) -> None:
        self._heard = asyncio.get_running_loop().time()

    def note(self, event: SessionEvent) -> None:
        if isinstance(event, ToolCall | ToolCallUpdate) and event.status is not None:
            if event.status.final:
                self._tools.discard(event.tool_call_id)
            else:
                self._tools.add(event.tool_call_id)

    def exhausted(self, turn_id: str, approvals: Sequence[object]) -> float | None:
        """For how long there was silence, if that is too long; else the timer goes on."""
        if approvals:
            self.heard()
        allowed = self._tool_silence if self._tools else self._silence
        silent = asyncio.get_running_loop().time() - self._heard
        if silent >= allowed:
            return silent
        self._timers.start(_KEY, allowed - silent, SilenceCheckDue(turn_id))
        return None
