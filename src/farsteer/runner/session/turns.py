"""The turns of a session and the outcomes of its messages, as the log records them."""

from __future__ import annotations

import msgspec

from farsteer.agents.base import TurnBegun, TurnEnded
from farsteer.core import events as ev
from farsteer.core.events import TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.queue import ItemState, QueueItem, contains, without_data
from farsteer.runner.session.approvals import OpenApprovals
from farsteer.runner.session.context import TimeLimits
from farsteer.runner.session.launch_handle import LaunchHandle
from farsteer.runner.session.log import SessionLog
from farsteer.runner.session.timers import SilenceTimeout, Timers

_TURN_END = {ItemState.FAILED: TurnEndReason.FAILED, ItemState.UNKNOWN: TurnEndReason.LOST}
"""How a turn ends whose message gets this outcome before an agent has it. Others cancel the turn."""


class TurnManager:
    """Starts and ends turns. Each turn ends exactly once, and each message has exactly one outcome."""

    def __init__(self, log: SessionLog, approvals: OpenApprovals, timers: Timers, limits: TimeLimits) -> None:
        self._log = log
        self._approvals = approvals
        self._timers = timers
        self._last_turn: str | None = None
        """Usage that an agent reports after a turn belongs to this one."""
        self.steered: QueueItem | None = None
        """The message that is being handed over to the running turn. The log gets it together with its outcome."""
        self.silence = SilenceTimeout(timers, limits.silence, limits.tool_silence)

    # -- the turn

    @property
    def waiting_item(self) -> str | None:
        """The message of the running turn, if the agent that was to have it ended before it took it.

        The turn goes on: the next process gets the message. It ends with the message if that is cancelled or fails.
        """
        state = self._log.state
        if state.turn_id is None or state.turn_item is None or not contains(state.queue, state.turn_item):
            return None
        handed_over = any(
            item.id == state.turn_item and item.state is ItemState.HANDED_OVER for item in state.queue
        )
        return None if handed_over else state.turn_item

    def wait_for_next_process(self, item_id: str, reason: str) -> None:
        """The message of the running turn was handed over and not taken: it waits again."""
        self.silence.stop()
        self._log.add(ev.QueueUpdate(item_id=item_id, state=ItemState.QUEUED, reason=reason))

    def continue_turn(self, item: QueueItem) -> str:
        """Log that the message of the running turn is handed over again. Returns the turn's id."""
        turn_id = self._log.state.turn_id
        assert turn_id is not None
        self._log.add(ev.QueueUpdate(item_id=item.id, state=ItemState.HANDED_OVER))
        return turn_id

    def begin(self, item: QueueItem) -> str:
        """Log the start of a turn and its message. Returns the turn's id."""
        turn_id = self._last_turn = new_id()
        self._log.add(ev.TurnStart(turn_id=turn_id, item_id=item.id))
        self.log_message(item)
        return turn_id

    def begin_by_agent(self, output: TurnBegun) -> None:
        """Log a turn that began without us. One that a message of ours has overtaken is not a turn of its own."""
        if self._log.state.turn_id is None:
            self._last_turn = output.turn_id
            self._log.add(ev.TurnStart(turn_id=output.turn_id))
            if output.message is None:
                self.silence.start(output.turn_id)
        if output.message is not None:
            self._log.add(output.message)

    def log_message(self, item: QueueItem) -> None:
        """Log a message. The log has only names and sizes of its attachments."""
        attachments = without_data(item).attachments
        self._log.add(
            ev.UserMessage(
                item_id=item.id,
                text=item.text,
                attachments=attachments,
                sent_from=item.sent_from,
                identity=item.identity,
            ),
            local_id=item.local_id,
        )

    def end(self, reason: TurnEndReason, error: str | None = None) -> None:
        """Withdraw open approvals and log the end of the running turn, if there is one."""
        self._approvals.withdraw_all()
        self.silence.stop()
        turn_id = self._log.state.turn_id
        if turn_id is not None:
            self._timers.cancel(turn_id)
            self._log.add(ev.TurnEnd(turn_id=turn_id, reason=reason, error=error))

    def end_by_agent(self, output: TurnEnded, handle: LaunchHandle) -> None:
        """End the turn because the agent, or its adapter after a crash, reported the end."""
        if self._log.state.turn_id != output.turn_id:
            return
        reason, error = output.reason, output.error
        if reason is TurnEndReason.CRASHED:
            self._set_outcome_of_handed_over(ItemState.UNKNOWN)
        else:
            # `Launch.send` may not have returned yet. An agent that ends the turn has the message.
            self.set_outcome(str(self._log.state.turn_item), ItemState.DELIVERED)
        if handle.stop_reason and reason in (TurnEndReason.CRASHED, TurnEndReason.CANCELLED):
            reason, error = handle.turn_end_reason, handle.stop_reason
        self.end(reason, error)

    def end_by_exit(self, handle: LaunchHandle, exit_reason: str) -> None:
        """End a turn that still runs although its process is gone."""
        if self._log.state.turn_id is None or self.waiting_item is not None:
            return
        self._set_outcome_of_handed_over(ItemState.UNKNOWN, "the agent exited during delivery")
        if handle.stop_reason is not None:
            self.end(handle.turn_end_reason, handle.stop_reason)
        else:
            self.end(TurnEndReason.CRASHED, exit_reason)

    async def end_lost(self) -> None:
        """Close what the previous runner process left open: a turn, a message it was delivering, or one it has lost."""
        for item in self._log.state.queue:
            if item.state is ItemState.QUEUED and not self._log.has_message(item.id):
                self.set_outcome(item.id, ItemState.UNKNOWN, "the runner no longer has this message")
        if self.waiting_item is not None:
            return
        state = self._log.state
        if state.turn_id is not None:
            self._log.add_stored_drafts()
        for item in state.queue:
            if item.state is ItemState.HANDED_OVER and item.id != state.turn_item:
                self.steered = await self._log.read_message(item.id)
        self._set_outcome_of_handed_over(ItemState.UNKNOWN, "the runner exited during delivery")
        self.end(TurnEndReason.LOST, "the runner exited during this turn")

    def attribute(self, usage: ev.UsageUpdate) -> ev.UsageUpdate:
        """Return `usage` with the turn it belongs to: the running one or else the last one."""
        return msgspec.structs.replace(usage, turn_id=self._log.state.turn_id or self._last_turn)

    # -- outcomes of messages

    def is_queued(self, item_id: str) -> bool:
        """Return whether the item has no outcome yet."""
        return self._log.is_queued(item_id)

    def set_outcome(self, item_id: str, state: ItemState, reason: str | None = None) -> None:
        """Log the outcome of an item. Only the first outcome counts."""
        if self.is_queued(item_id):
            ends_turn = item_id == self.waiting_item
            self._log.add(ev.QueueUpdate(item_id=item_id, state=state, reason=reason))
            if ends_turn:
                self.end(_TURN_END.get(state, TurnEndReason.CANCELLED), reason)

    def set_outcome_of_waiting(self, state: ItemState, reason: str) -> None:
        """Give every item that has not been handed over the same outcome."""
        for item in self._log.state.queue:
            if item.state is not ItemState.HANDED_OVER:
                self.set_outcome(item.id, state, reason)

    def _set_outcome_of_handed_over(self, state: ItemState, reason: str | None = None) -> None:
        for item in self._log.state.queue:
            if item.state is ItemState.HANDED_OVER:
                if self.steered is not None and self.steered.id == item.id:
                    self.log_message(self.steered)
                self.set_outcome(item.id, state, reason)
