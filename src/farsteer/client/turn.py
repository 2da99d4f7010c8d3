"""One turn, followed from the message that asked for it to its one end."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from farsteer.client.live import Gap, LiveEvent
from farsteer.client.text import LiveText
from farsteer.core import events as ev
from farsteer.core.api import (
    ApprovalAnswered,
    Approve,
    Deny,
    MessageAccepted,
    NewAttachment,
    SessionView,
)
from farsteer.core.approvals import Approval
from farsteer.core.errors import (
    AgentError,
    AlreadyAnswered,
    Conflict,
    ErrorCode,
    FarsteerError,
    NotFound,
    Unavailable,
)
from farsteer.core.events import Delta, DeltaKind, Entry, TurnEndReason
from farsteer.core.queue import ItemState

Decision = Approve | Deny | bool | None
"""What a callback makes of an approval. None leaves it to somebody else: no answer never means yes."""
OnApproval = Callable[[Approval], Decision | Awaitable[Decision]]

_EARLY = 1000


class Backend(Protocol):
    """What following a turn needs of a hub, be it far away or in this process."""

    async def session(self, session_id: str) -> SessionView: ...

    def messages(self, session_id: str, *, after: int = 0) -> AsyncIterator[Entry]: ...

    async def send(
        self,
        session_id: str,
        text: str,
        *,
        attachments: Sequence[NewAttachment] = (),
        local_id: str | None = None,
    ) -> MessageAccepted: ...

    async def answer(
        self, session_id: str, approval_id: str, decision: Approve | Deny | bool
    ) -> ApprovalAnswered: ...

    def follow(self, session_id: str) -> AbstractAsyncContextManager[AsyncIterator[LiveEvent]]:
        """The session's events; everything that happens after its body has begun."""
        ...


@dataclass(frozen=True, slots=True)
class TurnUpdate:
    """One thing that happened in a turn."""

    text: str = ""
    """What is new of the agent's answer; each character comes once, live where the agent streams."""
    entry: Entry | None = None
    delta: Delta | None = None

    @property
    def approval(self) -> Approval | None:
        """What the agent now waits for."""
        content = self.entry.content if self.entry else None
        return content.approval if isinstance(content, ev.ApprovalRequested) else None


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended. As a string it is the answer."""

    session_id: str
    item_id: str
    turn_id: str | None
    """None: the message never reached the agent."""
    reason: TurnEndReason
    text: str
    """The agent's last message: its answer."""
    error: str | None = None

    def __str__(self) -> str:
        return self.text

    def check(self) -> TurnResult:
        """This result, if the agent came to an end of its own; else the error that says why not."""
        about: dict[str, Any] = {"reason": self.reason.value, "turn_id": self.turn_id, "text": self.text}
        match self.reason:
            case TurnEndReason.FAILED:
                raise AgentError(self.error or "the agent failed", code=ErrorCode.AGENT_FAILED, **about)
            case TurnEndReason.CRASHED:
                raise AgentError(self.error or "the agent died", code=ErrorCode.AGENT_DIED, **about)
            case TurnEndReason.LOST:
                raise Unavailable(self.error or "the runner ended inside the turn", **about)
            case TurnEndReason.CANCELLED:
                raise Conflict(self.error or "the turn was cancelled", code=ErrorCode.TURN_CANCELLED, **about)
            case _:
                return self


class Turn:
    """An async iterator of what happens in one turn, which it starts; `result` is there when it ends.

    It subscribes before it sends, so that nothing is missed, and takes only what belongs to its own message. As a
    context manager it also lets go of its stream when left early.
    """

    def __init__(
        self,
        backend: Backend,
        session_id: str,
        text: str,
        *,
        attachments: Sequence[NewAttachment] = (),
        on_approval: OnApproval | None = None,
    ) -> None:
        self.session_id = session_id
        self.result: TurnResult | None = None
        self.item_id = ""
        self.turn_id: str | None = None
        self._backend = backend
        self._message = text
        self._attachments = attachments
        self._on_approval = on_approval
        self._following: AbstractAsyncContextManager[AsyncIterator[LiveEvent]] | None = None
        self._events: AsyncIterator[LiveEvent] | None = None
        self._updates: deque[TurnUpdate] = deque()
        self._early: deque[Delta] = deque(maxlen=_EARLY)
        self._text = LiveText()
        self._answer = ""
        self._seq = 0

    async def __aenter__(self) -> Turn:
        self._following = self._backend.follow(self.session_id)
        self._events = await self._following.__aenter__()
        try:
            self._seq = (await self._backend.session(self.session_id)).seq
            accepted = await self._backend.send(self.session_id, self._message, attachments=self._attachments)
        except BaseException:
            await self.aclose()
            raise
        self.item_id = accepted.id
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        following, self._following, self._events = self._following, None, None
        if following is not None:
            await following.__aexit__(None, None, None)

    def __aiter__(self) -> Turn:
        return self

    async def __anext__(self) -> TurnUpdate:
        if not self.item_id:
            await self.__aenter__()
        while not self._updates:
            if self.result is not None or self._events is None:
                await self.aclose()
                raise StopAsyncIteration
            try:
                await self._take(await anext(self._events))
            except FarsteerError:
                await self.aclose()
                raise
        update = self._updates.popleft()
        if update.approval is not None and self._on_approval is not None:
            decision = self._on_approval(update.approval)
            await self.answer(update.approval, await decision if inspect.isawaitable(decision) else decision)
        return update

    async def finish(self) -> TurnResult:
        """Follow the turn to its end."""
        async for _ in self:
            pass
        if self.result is None:
            raise Conflict("the turn is no longer followed")
        return self.result

    async def answer(self, approval: Approval, decision: Decision) -> None:
        """Answer; None and being too late are no errors."""
        if decision is None:
            return
        try:
            await self._backend.answer(self.session_id, approval.id, decision)
        except (AlreadyAnswered, NotFound):
            # Somebody else was first, or the turn is over: the log says so, and it comes next.
            return

    async def _take(self, event: LiveEvent) -> None:
        if isinstance(event, Gap):
            async for entry in self._backend.messages(self.session_id, after=self._seq):
                self._entry(entry)
        elif event.type == "session-removed":
            raise NotFound("the session was deleted")
        elif event.entry is not None:
            self._entry(event.entry)
        elif event.delta is not None:
            self._delta(event.delta)

    def _entry(self, entry: Entry) -> None:
        if entry.seq <= self._seq or self.result is not None:
            return
        self._seq = entry.seq
        content = entry.content
        text = ""
        if isinstance(content, ev.AgentMessage):
            text = self._text.whole(content.message_id, content.text)
        if self.turn_id is None:
            self._before(entry)
            return
        if isinstance(content, ev.AgentMessage):
            self._answer = content.text
        self._updates.append(TurnUpdate(text=text, entry=entry))
        if isinstance(content, ev.TurnEnd) and content.turn_id == self.turn_id:
            self._end(content.reason, content.error)

    def _before(self, entry: Entry) -> None:
        """Our message waits: other turns may run before it, and it may be taken back."""
        content = entry.content
        if isinstance(content, ev.TurnStart) and content.item_id == self.item_id:
            self.turn_id = content.turn_id
            self._updates.append(TurnUpdate(entry=entry))
            for delta in self._early:
                if not self._text.finished(delta.message_id):
                    self._delta(delta)
            self._early.clear()
        elif isinstance(content, ev.QueueUpdate) and content.item_id == self.item_id:
            self._updates.append(TurnUpdate(entry=entry))
            reason = _NEVER_RAN.get(content.state)
            if reason is not None:
                self._end(reason, content.reason or f"the message was {content.state.value}")

    def _delta(self, delta: Delta) -> None:
        if self.turn_id is None:
            # Deltas overtake the disk: the first ones of our turn may be here before its start.
            if delta.kind is DeltaKind.MESSAGE:
                self._early.append(delta)
            return
        text = self._text.fragment(delta) if delta.kind is DeltaKind.MESSAGE else ""
        self._updates.append(TurnUpdate(text=text, delta=delta))

    def _end(self, reason: TurnEndReason, error: str | None) -> None:
        self.result = TurnResult(self.session_id, self.item_id, self.turn_id, reason, self._answer, error)


_NEVER_RAN = {
    ItemState.CANCELLED: TurnEndReason.CANCELLED,
    ItemState.FAILED: TurnEndReason.FAILED,
    ItemState.UNKNOWN: TurnEndReason.LOST,
}
