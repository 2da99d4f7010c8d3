"""What reaches a session's actor: one ordered mailbox, bounded where an agent could flood it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from farsteer.agents.base import Launch, Output
from farsteer.core import commands
from farsteer.core.commands import Command
from farsteer.core.errors import FarsteerError
from farsteer.core.queue import Delivery

_OUTPUT_BATCHES = 16


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A command; `done` gets its end."""

    command: Command
    done: asyncio.Future[Any]

    def resolve(self, error: FarsteerError | None) -> None:
        resolve(self.done, error)


@dataclass(frozen=True, slots=True)
class AgentOutput:
    """What the agent of one launch said."""

    generation: int
    outputs: Sequence[Output]


@dataclass(frozen=True, slots=True)
class Started:
    generation: int
    launch: Launch | None
    error: FarsteerError | None = None


@dataclass(frozen=True, slots=True)
class LaunchStopped:
    """`Launch.stop` has returned."""

    generation: int


@dataclass(frozen=True, slots=True)
class ApprovalExpired:
    approval_id: str


@dataclass(frozen=True, slots=True)
class InterruptOverdue:
    turn_id: str


@dataclass(frozen=True, slots=True)
class SilenceCheckDue:
    """Nothing was heard in this turn for as long as is allowed, at most."""

    turn_id: str


@dataclass(frozen=True, slots=True)
class PrewarmDue:
    """Things have been quiet for a moment."""


@dataclass(frozen=True, slots=True)
class PrewarmExpired:
    """A process that was started in advance has waited for long enough."""

    generation: int


@dataclass(frozen=True, slots=True)
class Shutdown:
    reason: str


AgentMail = AgentOutput | LaunchStopped
"""What comes from an agent: in its own lane, in order."""
ControlMail = (
    CommandRequest
    | Started
    | ApprovalExpired
    | InterruptOverdue
    | SilenceCheckDue
    | PrewarmDue
    | PrewarmExpired
    | Shutdown
)
"""What anybody else wants."""
Mail = AgentMail | ControlMail


class Mailbox:
    """Two lanes, taken in turn, so that a flooding agent cannot keep a command waiting.

    The agent's lane is bounded: its launch waits while the actor has enough to do. While the actor itself waits for the
    agent (`heard` beside a call), it goes on emptying that lane; an agent that must be heard before it can answer is
    heard.
    """

    def __init__(self) -> None:
        self._said: deque[AgentMail] = deque()
        self._orders: deque[ControlMail] = deque()
        self._room = asyncio.Semaphore(_OUTPUT_BATCHES)
        self._news = asyncio.Event()
        self._order_next = False

    def post(self, mail: Mail) -> None:
        if isinstance(mail, AgentOutput | LaunchStopped):
            self._said.append(mail)
        else:
            self._orders.append(mail)
        self._news.set()

    async def take(self) -> Mail:
        while not self._said and not self._orders:
            await self._wait()
        self._order_next = not self._order_next
        if self._orders and (self._order_next or not self._said):
            return self._orders.popleft()
        return self.next_said()

    async def heard(self) -> None:
        """Wait until there is something in the agent's lane."""
        while not self._said:
            await self._wait()

    async def pressing(self) -> ControlMail:
        """Wait for an order that wants the turn or the process to end; it stays where it is."""
        while True:
            for order in self._orders:
                if _presses(order):
                    return order
            await self._wait()

    def withdraw(self, order: ControlMail) -> None:
        self._orders.remove(order)

    @property
    def hears(self) -> bool:
        """There is something in the agent's lane."""
        return bool(self._said)

    def next_said(self) -> AgentMail:
        mail = self._said.popleft()
        if isinstance(mail, AgentOutput):
            self._room.release()
        return mail

    def rest(self) -> list[Mail]:
        """What is left when the actor ends."""
        left: list[Mail] = [*self._orders]
        self._orders.clear()
        while self._said:
            left.append(self.next_said())
        return left

    def sink(self, generation: int) -> MailboxSink:
        return MailboxSink(self, generation, self._room)

    async def _wait(self) -> None:
        self._news.clear()
        await self._news.wait()


class MailboxSink:
    """What a launch writes to; it waits while the actor has enough to do."""

    def __init__(self, mailbox: Mailbox, generation: int, room: asyncio.Semaphore) -> None:
        self._mailbox = mailbox
        self._generation = generation
        self._room = room

    async def put(self, outputs: Sequence[Output]) -> None:
        await self._room.acquire()
        self._mailbox.post(AgentOutput(self._generation, outputs))


def _presses(order: ControlMail) -> bool:
    if isinstance(order, Shutdown):
        return True
    match order.command if isinstance(order, CommandRequest) else None:
        case commands.Abort() | commands.Stop() | commands.Delete() | commands.SendNow() | commands.Rewind():
            return True
        case commands.Send(item=item):
            return item.delivery is Delivery.NOW
        case _:
            return False


def resolve(done: asyncio.Future[Any], error: FarsteerError | None, result: object = None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
