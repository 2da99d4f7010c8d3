"""The prompts of one client in one session, from `session/prompt` to the stop reason that answers it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress

from msgspec import UNSET

from farsteer.client.hub_client import HubClient
from farsteer.core import events as ev
from farsteer.core.errors import Conflict, FarsteerError, NotFound
from farsteer.core.events import Entry, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.live_events import SessionChanges
from farsteer.core.queue import ItemState
from farsteer.faces.acp.params import PromptContent
from farsteer.jsonrpc.errors import INTERNAL_ERROR, RpcError
from farsteer.jsonrpc.peer import Peer

_MAX_OUTCOMES = 200

_STOP_REASONS = {
    TurnEndReason.END_TURN: "end_turn",
    TurnEndReason.MAX_TOKENS: "max_tokens",
    TurnEndReason.MAX_TURN_REQUESTS: "max_turn_requests",
    TurnEndReason.REFUSAL: "refusal",
    TurnEndReason.CANCELLED: "cancelled",
}
_CANCELLED = "cancelled"
_NEVER_RAN = (ItemState.CANCELLED, ItemState.FAILED, ItemState.UNKNOWN)

PromptOutcome = str | RpcError
"""A stop reason, or the error that answers the prompt."""


class _Prompt:
    """A prompt that is not answered yet."""

    def __init__(self) -> None:
        self.item_id: str | None = None
        """The id of its queue item, once the hub has accepted it."""
        self.cancelled = False
        self.outcome: asyncio.Future[PromptOutcome] = asyncio.get_running_loop().create_future()

    def finish(self, outcome: PromptOutcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class ClientPrompts:
    """Sends prompts, cancels them, and learns their outcome from the events that it is given."""

    def __init__(self, peer: Peer, hub: HubClient, session_id: str) -> None:
        self._peer = peer
        self._hub = hub
        self._session_id = session_id
        self._open: set[_Prompt] = set()
        self._local_ids: set[str] = set()
        """Local ids of prompts that have not appeared in the log yet."""
        self._turn_items: dict[str, str] = {}
        """The queue item of each running turn."""
        self._outcomes: OrderedDict[str, PromptOutcome] = OrderedDict()
        """Outcomes of recent items: a turn may end before the hub has returned the id of its item."""

    async def send(self, content: PromptContent) -> str:
        """Send a prompt and return its stop reason when its turn has ended.

        If the request is cancelled, the prompt is cancelled and the stop reason is returned all the same.

        Raises:
            RpcError: the turn failed.
            FarsteerError: the hub refused the prompt.
        """
        prompt = _Prompt()
        self._open.add(prompt)
        sending = asyncio.get_running_loop().create_task(self._send(prompt, content))
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            # A disconnect also cancels this task, but it does not cancel the turn.
            if self._peer.closed or sending.done():
                raise
            await self._cancel([prompt], abort=False)
            return await sending
        finally:
            sending.cancel()
            self._open.discard(prompt)

    async def _send(self, prompt: _Prompt, content: PromptContent) -> str:
        local_id = new_id()
        self._local_ids.add(local_id)
        try:
            accepted = await self._hub.send(
                self._session_id, content.text, attachments=content.attachments, local_id=local_id
            )
        except FarsteerError:
            self._local_ids.discard(local_id)
            raise
        prompt.item_id = accepted.id
        if accepted.id in self._outcomes:
            prompt.finish(self._outcomes[accepted.id])
        elif prompt.cancelled:
            # It was cancelled before its item id was known.
            await self._cancel([prompt], abort=False)
        outcome = await prompt.outcome
        if prompt.cancelled:
            return _CANCELLED
        if isinstance(outcome, str):
            return outcome
        raise outcome

    async def cancel(self) -> None:
        """Abort the running turn, whoever started it, and cancel every open prompt of this client."""
        await self._cancel([*self._open], abort=True)

    async def _cancel(self, prompts: list[_Prompt], *, abort: bool) -> None:
        """Take prompts back from the queue. Abort the running turn if `abort` is set or one of them is being run."""
        for prompt in prompts:
            prompt.cancelled = True
        for prompt in prompts:
            if prompt.item_id is not None and not await self._take_back(prompt.item_id):
                abort = True
        if abort:
            with suppress(Conflict):
                await self._hub.abort(self._session_id)

    async def _take_back(self, item_id: str) -> bool:
        """Remove an item from the queue. Returns False if the agent has it already."""
        try:
            await self._hub.cancel(self._session_id, item_id)
        except Conflict:
            return False
        except NotFound:
            return item_id in self._outcomes
        # An item that no runner has seen leaves no event in the log.
        self._finish(item_id, _CANCELLED)
        return True

    async def wait(self, seconds: float) -> None:
        """Wait until every open prompt has its outcome, but at most `seconds`."""
        if self._open:
            await asyncio.wait([prompt.outcome for prompt in self._open], timeout=seconds)

    def fail(self, error: RpcError) -> None:
        """Answer every open prompt with an error."""
        for prompt in self._open:
            prompt.finish(error)

    # -- events

    def pop_own_message(self, entry: Entry) -> bool:
        """Return whether the entry is a prompt of this client that has just been written to the log."""
        if not isinstance(entry.content, ev.UserMessage) or entry.local_id not in self._local_ids:
            return False
        self._local_ids.discard(str(entry.local_id))
        return True

    def handle_event(self, event: ev.SessionEvent, running_item: str | None) -> None:
        """Learn the outcome of items. `running_item` is the item whose turn was running before the event."""
        match event:
            case ev.TurnStart() if event.item_id is not None:
                self._turn_items[event.turn_id] = event.item_id
            case ev.TurnEnd():
                item_id = self._turn_items.pop(event.turn_id, None)
                if item_id is not None:
                    self._finish(item_id, _turn_outcome(event))
            case ev.QueueUpdate() if event.state in _NEVER_RAN and event.item_id != running_item:
                reason = event.reason or event.state.value
                cancelled = event.state is ItemState.CANCELLED
                self._finish(event.item_id, _CANCELLED if cancelled else _item_error(event.state, reason))
            case _:
                pass

    def handle_session_update(self, changes: SessionChanges) -> None:
        """Find items that ended before a runner had them: the log does not tell their outcome."""
        queue = changes.queue_changes if changes.queue is UNSET else changes.queue
        for item in () if queue is UNSET else queue:
            match item.state:
                case ItemState.CANCELLED:
                    self._finish(item.id, _CANCELLED)
                case ItemState.FAILED:
                    error = _item_error(ItemState.FAILED, "the message did not reach its machine")
                    self._finish(item.id, error)
                case _:
                    pass

    def _finish(self, item_id: str, outcome: PromptOutcome) -> None:
        self._outcomes[item_id] = outcome
        while len(self._outcomes) > _MAX_OUTCOMES:
            self._outcomes.popitem(last=False)
        for prompt in self._open:
            if prompt.item_id == item_id:
                prompt.finish(outcome)


def _item_error(state: ItemState, reason: str) -> RpcError:
    return RpcError(INTERNAL_ERROR, reason, {"state": state.value})


def _turn_outcome(event: ev.TurnEnd) -> PromptOutcome:
    stop_reason = _STOP_REASONS.get(event.reason)
    if stop_reason is not None:
        return stop_reason
    reason = event.reason.value
    return RpcError(INTERNAL_ERROR, event.error or f"the turn {reason}", {"reason": reason})
