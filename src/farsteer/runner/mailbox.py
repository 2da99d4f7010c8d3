"""What reaches a session's actor: one ordered mailbox, bounded where an agent could flood it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from farsteer.agents.base import Launch, Output
from farsteer.core.commands import Command
from farsteer.core.errors import FarsteerError

_OUTPUT_BATCHES = 4


@dataclass(frozen=True, slots=True)
class Request:
    """A command; `done` gets its end."""

    command: Command
    done: asyncio.Future[None]

    def resolve(self, error: FarsteerError | None) -> None:
        resolve(self.done, error)


@dataclass(frozen=True, slots=True)
class Outputs:
    """What the agent of one launch said."""

    generation: int
    outputs: Sequence[Output]


@dataclass(frozen=True, slots=True)
class Started:
    generation: int
    launch: Launch | None
    error: FarsteerError | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """`Launch.stop` has returned."""

    generation: int


@dataclass(frozen=True, slots=True)
class Expired:
    approval_id: str


@dataclass(frozen=True, slots=True)
class InterruptOverdue:
    turn_id: str


@dataclass(frozen=True, slots=True)
class Shutdown:
    reason: str


Mail = Request | Outputs | Started | Stopped | Expired | InterruptOverdue | Shutdown


class Mailbox:
    def __init__(self) -> None:
        self._queue: asyncio.Queue[Mail] = asyncio.Queue()
        self._room = asyncio.Semaphore(_OUTPUT_BATCHES)

    def post(self, mail: Mail) -> None:
        self._queue.put_nowait(mail)

    async def take(self) -> Mail:
        mail = await self._queue.get()
        if isinstance(mail, Outputs):
            self._room.release()
        return mail

    def rest(self) -> list[Mail]:
        """What is left when the actor ends."""
        left: list[Mail] = []
        while not self._queue.empty():
            mail = self._queue.get_nowait()
            if isinstance(mail, Outputs):
                self._room.release()
            left.append(mail)
        return left

    def sink(self, generation: int) -> MailboxSink:
        return MailboxSink(self, generation, self._room)


class MailboxSink:
    """What a launch writes to; it waits while the actor has enough to do."""

    def __init__(self, mailbox: Mailbox, generation: int, room: asyncio.Semaphore) -> None:
        self._mailbox = mailbox
        self._generation = generation
        self._room = room

    async def put(self, outputs: Sequence[Output]) -> None:
        await self._room.acquire()
        self._mailbox.post(Outputs(self._generation, outputs))


def resolve(done: asyncio.Future[None], error: FarsteerError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
