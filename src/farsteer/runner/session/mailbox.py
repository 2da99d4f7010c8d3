"""Everything that reaches a session's actor, and the ordered mailbox through which it does."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from farsteer.agents.base import Exited, Launch, Output
from farsteer.core import commands
from farsteer.core.commands import Command
from farsteer.core.errors import FarsteerError
from farsteer.core.queue import Delivery
from farsteer.runner.session.files import FileCommand
from farsteer.runner.terminals import TerminalConnection

_MAX_OUTPUT_BATCHES = 16


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A command of the hub. `done` gets its result or its error."""

    command: Command | FileCommand
    done: asyncio.Future[Any]

    def resolve(self, error: FarsteerError | None) -> None:
        resolve(self.done, error)


@dataclass(frozen=True, slots=True)
class AgentOutput:
    """A batch of output of one launch."""

    generation: int
    outputs: Sequence[Output]


@dataclass(frozen=True, slots=True)
class LaunchStarted:
    """`Adapter.start` has returned."""

    generation: int
    launch: Launch


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """`Adapter.start` has raised or was cancelled."""

    generation: int
    error: FarsteerError


@dataclass(frozen=True, slots=True)
class LaunchStopped:
    """`Launch.stop` has returned, raised or timed out."""

    generation: int


@dataclass(frozen=True, slots=True)
class ApprovalExpired:
    approval_id: str


@dataclass(frozen=True, slots=True)
class InterruptOverdue:
    """The agent accepted an interrupt and has not ended the turn in time."""

    turn_id: str


@dataclass(frozen=True, slots=True)
class SilenceCheckDue:
    """The turn may have been silent for too long."""

    turn_id: str


@dataclass(frozen=True, slots=True)
class PrewarmDue:
    """The prewarm delay is over."""


@dataclass(frozen=True, slots=True)
class PrewarmExpired:
    """A prewarmed process has waited for a message long enough."""

    generation: int


@dataclass(frozen=True, slots=True)
class LeaseGranted:
    """The runner has its lease again: what waits may start."""


@dataclass(frozen=True, slots=True)
class TerminalAttached:
    """A terminal wants to have the conversation."""

    terminal: TerminalConnection


@dataclass(frozen=True, slots=True)
class TerminalWaits:
    """The person at the terminal wants the conversation back."""

    terminal: TerminalConnection
    interrupt: bool


@dataclass(frozen=True, slots=True)
class TerminalLost:
    terminal: TerminalConnection


@dataclass(frozen=True, slots=True)
class Shutdown:
    reason: str


AgentMail = AgentOutput | LaunchStopped
"""Mail from the agent, kept in its own queue."""
ControlMail = (
    CommandRequest | LaunchStarted | LaunchFailed | ApprovalExpired | InterruptOverdue | SilenceCheckDue | PrewarmDue
    | PrewarmExpired | LeaseGranted | TerminalAttached | TerminalWaits | TerminalLost | Shutdown
)  # fmt: skip
"""Mail from anyone else: commands, timers and the launch."""
Mail = AgentMail | ControlMail


class Mailbox:
    """Two ordered queues, one for the agent's mail and one for the rest.

    `receive` alternates between them, so that an agent with much output cannot delay a command. The agent's queue is
    bounded: `Sink.put` waits while it is full. While the actor waits for a call to the agent it goes on emptying that
    queue (`AgentCalls`), because an agent may have to write output before it can answer.
    """

    def __init__(self) -> None:
        self._agent_mail: deque[AgentMail] = deque()
        self._control_mail: deque[ControlMail] = deque()
        self._room = asyncio.Semaphore(_MAX_OUTPUT_BATCHES)
        self._posted = asyncio.Event()
        self._control_first = False

    def post(self, mail: Mail) -> None:
        if isinstance(mail, AgentOutput | LaunchStopped):
            self._agent_mail.append(mail)
        else:
            self._control_mail.append(mail)
        self._posted.set()

    async def receive(self) -> Mail:
        """Wait for the next mail and remove it."""
        while not self._agent_mail and not self._control_mail:
            await self._wait()
        self._control_first = not self._control_first
        if self._control_mail and (self._control_first or not self._agent_mail):
            return self._control_mail.popleft()
        return self.next_agent_mail()

    @property
    def has_agent_mail(self) -> bool:
        return bool(self._agent_mail)

    @property
    def next_is_exit(self) -> bool:
        """Whether the agent's oldest mail says that its process is gone, and nothing else."""
        mail = self._agent_mail[0] if self._agent_mail else None
        if isinstance(mail, AgentOutput):
            return bool(mail.outputs) and isinstance(mail.outputs[0], Exited)
        return mail is not None

    async def wait_for_agent_mail(self) -> None:
        while not self._agent_mail:
            await self._wait()

    def next_agent_mail(self) -> AgentMail:
        """Remove and return the agent's oldest mail. Raises IndexError if there is none."""
        mail = self._agent_mail.popleft()
        if isinstance(mail, AgentOutput):
            self._room.release()
        return mail

    async def wait_for_urgent(self) -> ControlMail:
        """Wait for mail that asks for the end of the turn or of the process. It stays in the mailbox."""
        while True:
            for mail in self._control_mail:
                if _is_urgent(mail):
                    return mail
            await self._wait()

    def withdraw(self, mail: ControlMail) -> None:
        """Remove `mail` unread."""
        self._control_mail.remove(mail)

    def drain(self) -> list[Mail]:
        """Remove and return everything that is left."""
        left: list[Mail] = [*self._control_mail]
        self._control_mail.clear()
        while self._agent_mail:
            left.append(self.next_agent_mail())
        return left

    def sink(self, generation: int) -> MailboxSink:
        return MailboxSink(self, generation, self._room)

    async def _wait(self) -> None:
        self._posted.clear()
        await self._posted.wait()


class MailboxSink:
    """The `Sink` of one launch. `put` waits while the mailbox is full."""

    def __init__(self, mailbox: Mailbox, generation: int, room: asyncio.Semaphore) -> None:
        self._mailbox = mailbox
        self._generation = generation
        self._room = room

    async def put(self, outputs: Sequence[Output]) -> None:
        """Post the outputs. The exit is a mail of its own, because the end of a call may have to come before it."""
        has_exited = bool(outputs) and isinstance(outputs[-1], Exited)
        parts = (outputs[:-1], outputs[-1:]) if has_exited and len(outputs) > 1 else (outputs,)
        for part in parts:
            await self._room.acquire()
            self._mailbox.post(AgentOutput(self._generation, part))


def _is_urgent(mail: ControlMail) -> bool:
    if isinstance(mail, Shutdown):
        return True
    match mail.command if isinstance(mail, CommandRequest) else None:
        case commands.Abort() | commands.Stop() | commands.Delete() | commands.SendNow() | commands.Rewind():
            return True
        case commands.Send(item=item):
            return item.delivery is Delivery.NOW
        case _:
            return False


def resolve(done: asyncio.Future[Any], error: FarsteerError | None, result: object = None) -> None:
    """Set the result or the error of `done`, unless it is done or was cancelled."""
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
