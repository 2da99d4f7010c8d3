"""A session as a client sees it, with access to the runner's side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import psutil

from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.api import MessagesResponse, SendMessage, SessionView
from farsteer.core.approvals import Answer, Approval, Outcome
from farsteer.core.events import Entry, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.queue import Delivery, ItemState, QueueItem
from farsteer.core.session import SessionState
from farsteer.core.wire import decode
from tests.support.eventually import eventually
from tests.support.processes import is_alive

if TYPE_CHECKING:
    from tests.scenarios.agents import Recording
    from tests.scenarios.world import World

SECONDS = 15.0
E = TypeVar("E", bound=ev.Event)


@dataclass(frozen=True, slots=True)
class Turn:
    """The log entries of one turn."""

    entries: list[Entry]

    @property
    def reason(self) -> TurnEndReason:
        return self.of(ev.TurnEnd)[-1].reason

    @property
    def error(self) -> str | None:
        return self.of(ev.TurnEnd)[-1].error

    @property
    def answer(self) -> str:
        """The text of all messages of the agent."""
        return "\n".join(message.text for message in self.of(ev.AgentMessage))

    def of(self, kind: type[E]) -> list[E]:
        return [entry.content for entry in self.entries if isinstance(entry.content, kind)]


class Chat:
    def __init__(self, world: World, id: str, agent: str) -> None:
        self.world = world
        self.id = id
        self.agent = agent
        self.entries: list[Entry] = []
        """What the hub has broadcast of this session's log."""
        self.deltas: list[ev.Delta] = []
        self.news = asyncio.Event()

    # -- what a client does

    async def send(self, text: str, **fields: Any) -> str:
        """Send a message and return the id of its queue item."""
        request = SendMessage(text=text, **fields)
        return (await self.world.hub.messages.send(self.world.caller, self.id, request)).id

    async def say(self, text: str, **fields: Any) -> Turn:
        """Send a message and wait for the end of its turn."""
        return await self.turn(await self.send(text, **fields))

    async def begin(self, text: str) -> str:
        """Send a message and wait until its turn runs."""
        item = await self.send(text)
        assert await self.outcome(item) is ItemState.DELIVERED
        return item

    async def hurry(self, text: str) -> str:
        """Send a message that interrupts the running turn."""
        return await self._deliver(text, Delivery.NOW)

    async def steer(self, text: str) -> str:
        return await self._deliver(text, Delivery.STEER)

    async def _deliver(self, text: str, delivery: Delivery) -> str:
        item = QueueItem(id=new_id(), text=text, created_at=1, delivery=delivery)
        await self.command(commands.Send(item=item))
        return item.id

    async def command(self, command: commands.Command) -> Any:
        """Send a command over the link directly."""
        world = self.world
        return await world.hub.links.call(world.caller.namespace, world.machine_id, self.id, command)

    async def abort(self) -> None:
        await self.world.hub.sessions.abort(self.world.caller, self.id)

    async def stop(self) -> None:
        await self.world.hub.sessions.stop(self.world.caller, self.id)

    async def resume(self) -> None:
        await self.world.hub.sessions.resume(self.world.caller, self.id)

    async def warm(self) -> None:
        """Ask for a prewarmed process without waiting for it."""
        await self.command(commands.Prewarm())

    async def cancel(self, item: str) -> None:
        await self.world.hub.messages.cancel(self.world.caller, self.id, item)

    async def delete(self) -> None:
        await self.world.hub.sessions.delete(self.world.caller, self.id)

    async def configure(self, **changes: Any) -> None:
        await self.world.hub.sessions.configure(self.world.caller, self.id, **changes)

    async def asked(self, count: int = 1) -> Approval:
        """Return the `count`th approval."""
        return (await self.until(ev.ApprovalRequested, count)).approval

    async def answer(self, approval: Approval, outcome: Outcome = Outcome.APPROVED, **more: Any) -> None:
        answer = Answer(outcome=outcome, **more)
        await self.world.hub.approvals.answer(self.world.caller, self.id, approval.id, answer)

    # -- what a client sees

    async def view(self) -> SessionView:
        return await self.world.hub.sessions.get(self.world.caller, self.id)

    async def log(self) -> list[Entry]:
        """Return the visible log, oldest first."""
        messages, caller = self.world.hub.messages, self.world.caller
        entries: list[Entry] = []
        while True:
            last = entries[-1].seq if entries else 0
            page = decode(await messages.list(caller, self.id, limit=200, after_seq=last), MessagesResponse)
            entries += page.messages
            if not page.page.has_more:
                return entries

    def of(self, kind: type[E], **fields: object) -> list[E]:
        """Return the published events of this kind with these fields."""
        found = [entry.content for entry in self.entries if isinstance(entry.content, kind)]
        return [event for event in found if all(getattr(event, k) == v for k, v in fields.items())]

    def kinds(self) -> list[str]:
        return [ev.kind_of(entry.content) for entry in self.entries]

    async def until(self, kind: type[E], count: int = 1, **fields: object) -> E:
        """Wait for the `count`th such event."""
        await self.when(lambda: len(self.of(kind, **fields)) >= count, f"{kind.__name__} {fields}")
        return self.of(kind, **fields)[count - 1]

    async def when(self, condition: Callable[[], bool], what: str = "") -> None:
        """Wait until a condition holds. It is checked after every published event."""
        try:
            async with asyncio.timeout(SECONDS):
                while not condition():
                    self.news.clear()
                    await self.news.wait()
        except TimeoutError:
            shown = "\n".join(f"{entry.seq} {entry.content}" for entry in self.entries)
            raise AssertionError(f"in vain: {what}\n{shown}") from None

    async def outcome(self, item: str) -> ItemState:
        """Wait for the outcome of a message."""
        await self.when(lambda: bool(self.outcomes(item)), f"an outcome of {item}")
        (state,) = self.outcomes(item)
        return state

    def outcomes(self, item: str) -> list[ItemState]:
        return [update.state for update in self.of(ev.QueueUpdate, item_id=item) if update.state.final]

    async def turn(self, item: str) -> Turn:
        """Wait for the end of the turn that this message started."""
        start = await self.until(ev.TurnStart, item_id=item)
        await self.until(ev.TurnEnd, turn_id=start.turn_id)
        first = next(n for n, entry in enumerate(self.entries) if entry.content == start)
        last = next(
            n
            for n, entry in enumerate(self.entries)
            if isinstance(entry.content, ev.TurnEnd) and entry.content.turn_id == start.turn_id
        )
        return Turn(self.entries[first : last + 1])

    async def idle(self) -> None:
        """Wait until no turn runs, the queue is empty and a process runs."""
        await eventually(lambda: self.state.status is ev.SessionStatus.IDLE and not self.state.queue)

    # -- what it does behind the hub's back

    @property
    def state(self) -> SessionState:
        """The state in the runner."""
        actor = self.world.runner.actor(self.id)
        assert actor is not None
        return actor.state

    @property
    def adapter(self) -> Recording:
        return self.world.agents[self.agent]

    @property
    def pid(self) -> int:
        """The pid of the newest process."""
        return self.adapter.launch.pid

    def alive(self) -> list[int]:
        """The pids of the agent's living processes."""
        return [launch.pid for launch in self.adapter.launches if lives(launch.pid)]

    def unread(self) -> int:
        """The number of commands in the actor's mailbox."""
        actor = self.world.runner.actor(self.id)
        assert actor is not None
        return len(actor._mailbox._control_mail)

    def quiet(self) -> bool:
        """True if no timer will start or restart a process."""
        actor = self.world.runner.actor(self.id)
        assert actor is not None
        return not actor._timers.is_running("prewarm")

    def resting(self) -> bool:
        """True if no process runs, starts, or will be started by a timer."""
        actor = self.world.runner.actor(self.id)
        assert actor is not None
        return actor._launcher.current is None and self.quiet() and not self.unread()

    def ending(self) -> bool:
        """True once the runner has started to end the process."""
        actor = self.world.runner.actor(self.id)
        handle = actor._launcher.current if actor is not None else None
        return handle is not None and handle.stop_reason is not None

    async def kill_agent(self) -> None:
        """Kill the agent's process and wait until the runner has noticed."""
        launch = self.adapter.launch
        psutil.Process(launch.pid).kill()
        await eventually(lambda: not lives(launch.pid))


def lives(pid: int) -> bool:
    try:
        return is_alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False
