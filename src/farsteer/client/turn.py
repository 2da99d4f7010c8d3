"""A turn: from the message that starts it to its end."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from farsteer.client.hub_client import TurnClient
from farsteer.client.live_events import Gap, LiveEvent, StreamedText
from farsteer.client.time_limit import time_limit
from farsteer.core import events as ev
from farsteer.core.api import Approve, Deny, NewAttachment
from farsteer.core.approvals import Approval
from farsteer.core.errors import (
    AgentError,
    AlreadyAnswered,
    ApprovalNeeded,
    Conflict,
    ErrorCode,
    FarsteerError,
    NotFound,
    Unavailable,
)
from farsteer.core.events import Delta, DeltaKind, Entry, SessionEvent, TurnEndReason
from farsteer.core.queue import ItemState

Decision = Approve | Deny | bool | None
"""The answer to an approval. None does not answer it, so that somebody else can."""
AsyncOnApproval = Callable[[Approval], Decision | Awaitable[Decision]]

_MAX_EARLY_DELTAS = 1000

_REASONS_WITHOUT_TURN = {
    ItemState.CANCELLED: TurnEndReason.CANCELLED,
    ItemState.FAILED: TurnEndReason.FAILED,
    ItemState.UNKNOWN: TurnEndReason.LOST,
}
"""How a turn ends whose message never reached the agent, by the final state of the message."""


@dataclass(frozen=True, slots=True)
class TurnUpdate:
    """One thing that happened in a turn: a new entry of the log, or a delta."""

    text: str = ""
    """New text of the agent's answer. Joined, the texts of all updates are everything the agent wrote, once."""
    entry: Entry | None = None
    """The new entry of the log; None for a delta."""
    delta: Delta | None = None
    """A part of a message that follows as an entry when it is complete."""

    @property
    def event(self) -> SessionEvent | None:
        """The event of the entry, for `match`: one of the classes in `farsteer.events`. None for a delta."""
        return self.entry.content if self.entry else None

    @property
    def approval(self) -> Approval | None:
        """The approval that the agent now waits for, if this update is a request for one."""
        event = self.event
        return event.approval if isinstance(event, ev.ApprovalRequested) else None


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended. `str(result)` is the agent's answer."""

    session_id: str
    item_id: str
    """The id of the message that started the turn."""
    turn_id: str | None
    """None if the message never reached the agent."""
    reason: TurnEndReason
    text: str
    """The agent's last message: its answer."""
    error: str | None = None

    def __str__(self) -> str:
        return self.text

    def check(self) -> TurnResult:
        """Return this result if the agent finished, and raise otherwise.

        The details of each error have the `reason`, the `turn_id` and the `text` so far.

        Raises:
            AgentError: The agent failed (`agent_failed`) or its process died (`agent_died`).
            Unavailable: The runner ended during the turn.
            Conflict: The turn was cancelled (`turn_cancelled`).
        """
        details: dict[str, Any] = {"reason": self.reason.value, "turn_id": self.turn_id, "text": self.text}
        match self.reason:
            case TurnEndReason.FAILED:
                raise AgentError(self.error or "the agent failed", code=ErrorCode.AGENT_FAILED, **details)
            case TurnEndReason.CRASHED:
                raise AgentError(self.error or "the agent died", code=ErrorCode.AGENT_DIED, **details)
            case TurnEndReason.LOST:
                raise Unavailable(self.error or "the runner ended during the turn", **details)
            case TurnEndReason.CANCELLED:
                message = self.error or "the turn was cancelled"
                raise Conflict(message, code=ErrorCode.TURN_CANCELLED, **details)
            case _:
                return self


class AsyncTurn:
    """Sends a message and iterates over what happens until its turn has ended.

    Only updates of this message's own turn are returned, also if other turns run before it. Get one from
    `AsyncSession.turn`:

        async with session.turn("run the tests") as turn:
            async for update in turn:
                print(update.text, end="")
        print(turn.result.reason)

    The message is sent when the context manager is entered or the iteration begins. Leaving the context manager
    early closes the subscription; the turn itself goes on.

    Args:
        client: The hub that has the session.
        session_id: The session to send the message to.
        text: The message.
        attachments: Files to send with it.
        on_approval: Called with each approval, before its update is returned. Its return value is the answer: True
            or an `Approve`, False or a `Deny`, or None to leave it to somebody else. It may be a coroutine function.
        needs_answers: Raise `ApprovalNeeded` for an approval if there is no `on_approval`.
        answered: Ids of approvals that were answered a moment ago, and need no answer though the log has none yet.
        timeout: Seconds from the beginning to the end of the turn. Then `TimedOut` is raised; the turn itself goes on.
    """

    def __init__(
        self,
        client: TurnClient,
        session_id: str,
        text: str,
        *,
        attachments: Sequence[NewAttachment] = (),
        on_approval: AsyncOnApproval | None = None,
        needs_answers: bool = False,
        answered: Container[str] = (),
        timeout: float | None = None,
    ) -> None:
        self.session_id = session_id
        self.result: TurnResult | None = None
        """How the turn ended; None before."""
        self.item_id = ""
        """The id of the message, once it was sent."""
        self.turn_id: str | None = None
        """The id of the turn, once it has begun."""
        self._client = client
        self._message = text
        self._attachments = attachments
        self._on_approval = on_approval
        self._needs_answers = needs_answers
        self._answered = answered
        self._timeout = timeout
        self._began_at: float | None = None
        self._subscription: AbstractAsyncContextManager[AsyncIterator[LiveEvent]] | None = None
        self._events: AsyncIterator[LiveEvent] | None = None
        self._updates: deque[TurnUpdate] = deque()
        self._early_deltas: deque[Delta] = deque(maxlen=_MAX_EARLY_DELTAS)
        self._text = StreamedText()
        self._answer = ""
        self._seq = 0
        self._running: str | None = None
        """The turn that runs while the message waits."""
        self._open_approvals: set[str] = set()

    async def __aenter__(self) -> AsyncTurn:
        self._began_at = asyncio.get_running_loop().time()
        try:
            async with self._in_time():
                # Subscribes before it sends, so that no event of the turn is missed.
                subscription = self._client.follow(self.session_id)
                self._events = await subscription.__aenter__()
                self._subscription = subscription
                await self._begin()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def _begin(self) -> None:
        self._seq = (await self._client.session(self.session_id)).seq
        accepted = await self._client.send(self.session_id, self._message, attachments=self._attachments)
        self.item_id = accepted.id

    def _in_time(self) -> AbstractAsyncContextManager[None]:
        if self._timeout is None:
            return nullcontext()
        known = {"session_id": self.session_id, **({"item_id": self.item_id} if self.item_id else {})}
        advice = f"; it goes on: session.wait({self.item_id!r}) waits again, session.abort() ends it"
        return time_limit(
            self._timeout, "the turn", since=self._began_at, advice=advice if self.item_id else "", **known
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the subscription. Idempotent."""
        subscription, self._subscription, self._events = self._subscription, None, None
        if subscription is not None:
            await subscription.__aexit__(None, None, None)

    def __aiter__(self) -> AsyncTurn:
        return self

    async def __anext__(self) -> TurnUpdate:
        if self._began_at is None:
            await self.__aenter__()
        while not self._updates:
            if self.result is not None or self._events is None:
                await self.aclose()
                raise StopAsyncIteration
            try:
                async with self._in_time():
                    await self._handle_event(await anext(self._events))
            except FarsteerError:
                await self.aclose()
                raise
        update = self._updates.popleft()
        if update.approval is not None and self.is_open(update.approval):
            await self._answer_now(update.approval)
        return update

    async def _answer_now(self, approval: Approval) -> None:
        if self._on_approval is not None:
            decision = self._on_approval(approval)
            await self.answer(approval, await decision if inspect.isawaitable(decision) else decision)
        elif self._needs_answers:
            await self.aclose()
            raise ApprovalNeeded(approval, session_id=self.session_id, item_id=self.item_id)

    def is_open(self, approval: Approval) -> bool:
        """Return whether an approval of this turn still waits for an answer, as far as is known here."""
        return approval.id in self._open_approvals and approval.id not in self._answered

    async def finish(self) -> TurnResult:
        """Follow the turn to its end and return the result, whatever it is; `check` of it raises if it failed.

        Raises:
            NotFound: The session was deleted.
            Unavailable: The hub could not be reached for too long.
            Conflict: The turn was closed before it ended.
        """
        async for _ in self:
            pass
        if self.result is None:
            raise Conflict("the turn is no longer followed")
        return self.result

    async def answer(self, approval: Approval, decision: Decision) -> None:
        """Answer an approval of this turn. Does nothing if `decision` is None or somebody else has answered it."""
        if decision is None:
            return
        try:
            await self._client.answer(self.session_id, approval.id, decision)
        except (AlreadyAnswered, NotFound):
            # Somebody else was faster, or the turn has ended; the next updates say so.
            return

    async def _handle_event(self, event: LiveEvent) -> None:
        if isinstance(event, Gap):
            async for entry in self._client.messages(self.session_id, after=self._seq):
                self._handle_entry(entry)
        elif event.type == "session-removed":
            raise NotFound("the session was deleted")
        elif event.entry is not None:
            self._handle_entry(event.entry)
        elif event.delta is not None:
            self._handle_delta(event.delta)

    def _handle_entry(self, entry: Entry) -> None:
        if entry.seq <= self._seq or self.result is not None:
            return
        self._seq = entry.seq
        content = entry.content
        text = ""
        answer = (
            content if isinstance(content, ev.AgentMessage) and content.parent_tool_call_id is None else None
        )
        if answer is not None:
            text = self._text.complete(answer.message_id, answer.text)
        if self.turn_id is None:
            self._handle_entry_before_turn(entry)
            return
        if answer is not None:
            self._answer = answer.text
        if isinstance(content, ev.ApprovalRequested):
            self._open_approvals.add(content.approval.id)
        elif isinstance(content, ev.ApprovalResolved):
            self._open_approvals.discard(content.approval_id)
        self._updates.append(TurnUpdate(text=text, entry=entry))
        if isinstance(content, ev.TurnEnd) and content.turn_id == self.turn_id:
            self._set_result(content.reason, content.error)
        else:
            self._handle_early_deltas()

    def _handle_entry_before_turn(self, entry: Entry) -> None:
        """While the message is queued, other turns may run, and it may be cancelled."""
        content = entry.content
        if isinstance(content, ev.TurnStart):
            self._running = content.turn_id
        if isinstance(content, ev.TurnStart | ev.UserMessage) and content.item_id == self.item_id:
            # Without a turn of its own, the message was steered into the one that runs.
            self.turn_id = self._running
            self._updates.append(TurnUpdate(entry=entry))
            self._handle_early_deltas()
        elif isinstance(content, ev.QueueUpdate) and content.item_id == self.item_id:
            self._updates.append(TurnUpdate(entry=entry))
            reason = _REASONS_WITHOUT_TURN.get(content.state)
            if reason is not None:
                self._set_result(reason, content.reason or f"the message was {content.state.value}")

    def _handle_early_deltas(self) -> None:
        """Handle the deltas that arrived before the entries they follow, as far as those entries are here now."""
        deltas = [*self._early_deltas]
        self._early_deltas.clear()
        for delta in deltas:
            if not self._text.is_complete(delta.message_id):
                self._handle_delta(delta)

    def _handle_delta(self, delta: Delta) -> None:
        if self.turn_id is None:
            # Deltas are not stored and may arrive before the entry that starts their turn.
            if delta.kind is DeltaKind.MESSAGE:
                self._early_deltas.append(delta)
            return
        if delta.after > self._seq:
            # After a reconnect a delta may also arrive before an earlier message, which is being caught up with.
            self._early_deltas.append(delta)
            return
        text = self._text.add_delta(delta) if delta.kind is DeltaKind.MESSAGE else ""
        self._updates.append(TurnUpdate(text=text, delta=delta))

    def _set_result(self, reason: TurnEndReason, error: str | None) -> None:
        self.result = TurnResult(self.session_id, self.item_id, self.turn_id, reason, self._answer, error)
