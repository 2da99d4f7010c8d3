"""The order in which a session's entries and deltas are shown, also after a reconnect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Self, cast

from farsteer.cli.terminal.follower import Follower
from farsteer.client import AsyncClient
from farsteer.client.live_events import Gap, LiveEvent
from farsteer.core import events as ev
from farsteer.core.api import SessionView
from farsteer.core.events import Delta, DeltaKind, Entry, make_entry
from farsteer.core.live_events import MessageDeltaEvent, MessageReceivedEvent
from tests.cli.test_conversation_model import view


def entry(seq: int) -> Entry:
    return make_entry("s", seq, ev.UserMessage(item_id=str(seq), text=str(seq)), 1)


def received(seq: int) -> LiveEvent:
    content = MessageReceivedEvent(namespace="d", cursor="e-1", session_id="s", message=entry(seq))
    return LiveEvent("message-received", content=content)


def delta(after: int) -> LiveEvent:
    content = Delta(message_id="m", kind=DeltaKind.MESSAGE, text="x", after=after)
    return LiveEvent("message-delta", content=MessageDeltaEvent(namespace="d", session_id="s", delta=content))


class Hub:
    """What a follower asks a client: a log, and a stream of events."""

    def __init__(self, length: int, *events: LiveEvent) -> None:
        self.length = length
        self._events = iter(events)
        self.connected = True

    def events(self, session_id: str, types: Any = None) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LiveEvent:
        event = next(self._events, None)
        if event is None:
            raise StopAsyncIteration
        if isinstance(event, Gap):
            self.length += 3
        return event

    async def session(self, session_id: str) -> SessionView:
        return view(seq=self.length)

    async def history(self, session_id: str, *, before: int | None = None) -> AsyncIterator[Entry]:
        for seq in range((before or self.length + 1) - 1, 0, -1):
            yield entry(seq)

    async def messages(self, session_id: str, *, after: int = 0) -> AsyncIterator[Entry]:
        for seq in range(after + 1, self.length + 1):
            yield entry(seq)


async def followed(hub: Hub, tail: int) -> list[int | str]:
    follower = Follower(cast("AsyncClient", hub), "s", tail)
    return [
        change.seq if isinstance(change, Entry) else f"after {change.after}"
        async for change in follower.updates()
    ]


async def test_a_delta_waits_for_the_entry_before_it() -> None:
    hub = Hub(3, delta(5), delta(5), received(4), received(5), delta(5), received(6))
    assert await followed(hub, 2) == [2, 3, 4, 5, "after 5", "after 5", "after 5", 6]


async def test_each_entry_comes_once() -> None:
    hub = Hub(3, received(2), received(3), received(4), received(4), Gap("gap"), received(6), received(7))
    assert await followed(hub, 1) == [3, 4, 5, 6, 7]
    assert await followed(Hub(3, received(4)), 0) == [4]


async def test_older_pages_join_without_a_gap() -> None:
    follower = Follower(cast("AsyncClient", Hub(10)), "s", 4)
    shown = [change.seq async for change in follower.updates() if isinstance(change, Entry)]
    while follower.has_older:
        shown = [one.seq for one in await follower.older(3)] + shown
    assert shown == [*range(1, 11)]
    assert await follower.older(3) == []
