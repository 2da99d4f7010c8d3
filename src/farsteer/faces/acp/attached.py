"""One session that one client is in: told in order, prompted, asked, and left without harm."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any

from farsteer.client.live import Gap, LiveEvent
from farsteer.client.steering import Steering
from farsteer.core import events as ev
from farsteer.core.api import SessionView
from farsteer.core.approvals import Approval
from farsteer.core.errors import AlreadyAnswered, Conflict, FarsteerError, NotFound
from farsteer.core.events import Entry, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.queue import ItemState
from farsteer.core.session import SessionState
from farsteer.faces.acp.asking import Desk
from farsteer.faces.acp.content import Message
from farsteer.faces.acp.updates import Narrator, Update, commands, usage
from farsteer.rpc.errors import INTERNAL_ERROR, RpcError
from farsteer.rpc.peer import Peer

_log = logging.getLogger(__name__)

UPDATE = "session/update"
_REMEMBERED = 200

_STOPS = {
    TurnEndReason.END_TURN: "end_turn",
    TurnEndReason.MAX_TOKENS: "max_tokens",
    TurnEndReason.MAX_TURN_REQUESTS: "max_turn_requests",
    TurnEndReason.REFUSAL: "refusal",
    TurnEndReason.CANCELLED: "cancelled",
}
_NEVER_RAN = (ItemState.CANCELLED, ItemState.FAILED, ItemState.UNKNOWN)

Ending = str | RpcError
"""A stop reason, or what went wrong."""


class Attached:
    """`name` is what the client calls the session; mostly that is its id."""

    def __init__(self, peer: Peer, steering: Steering, desk: Desk, session_id: str, name: str) -> None:
        self.id = session_id
        self.name = name
        self._peer = peer
        self._steering = steering
        self._desk = desk
        self._narrator = Narrator(SessionState(id=session_id, agent="", directory=""))
        self._opened = AsyncExitStack()
        self._events: AsyncIterator[LiveEvent] | None = None
        self._following: asyncio.Task[None] | None = None
        self._own: set[str] = set()
        """Local ids of what this client has said."""
        self._waiting: dict[str, asyncio.Future[Ending]] = {}
        """Who waits for the end of the turn of each queue item."""
        self._ended: OrderedDict[str, Ending] = OrderedDict()
        """How the latest items ended: their turn may be over before the hub has told us their names."""
        self._turns: dict[str, str] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._cancelling = False
        self._past = 0
        """What is to be told before anything live."""

    # -- coming and going

    async def enter(self, *, replay: bool, late: bool = False) -> SessionView:
        """Be told everything from now on, after the past if that is wanted; `late`: when it begins."""
        self._events = await self._opened.enter_async_context(self._steering.follow(self.id))
        view = await self._steering.session(self.id)
        if replay:
            await self._read(upto=view.seq)
        self._past = view.seq if late else 0
        self._narrator.state = _state(view, 0 if late else max(view.seq, self._narrator.seq))
        return view

    def begin(self) -> None:
        """Go on live, from the next turn of the event loop on."""
        self._following = asyncio.get_running_loop().create_task(self._follow(), name=f"acp {self.id}")

    async def leave(self) -> None:
        """The session goes on without this client."""
        tasks = [*self._asking.values()]
        if self._following is not None:
            tasks.append(self._following)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._opened.aclose()
        gone = RpcError(INTERNAL_ERROR, "the session is no longer followed here")
        for waiting in self._waiting.values():
            _settle(waiting, gone)

    # -- what the client does

    async def prompt(self, message: Message) -> str:
        """Say it, and wait until its turn has ended and everything of it was told. The stop reason."""
        local_id = new_id()
        self._own.add(local_id)
        self._cancelling = False
        accepted = await self._steering.send(
            self.id, message.text, attachments=message.attachments, local_id=local_id
        )
        waiting: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._waiting[accepted.id] = waiting
        if accepted.id in self._ended:
            _settle(waiting, self._ended[accepted.id])
        try:
            ending = await waiting
        except asyncio.CancelledError:
            # Who no longer waits for this one has cancelled it; who has gone has not.
            if not self._peer.closed:
                await asyncio.shield(self.cancel())
            raise
        finally:
            del self._waiting[accepted.id]
        if isinstance(ending, str):
            return ending
        if self._cancelling:
            return "cancelled"
        raise ending

    async def cancel(self) -> None:
        """End the running turn, and what this client has waiting behind it."""
        self._cancelling = True
        for item in [*self._waiting]:
            # The one that runs cannot be taken back; the abort is for it.
            with suppress(Conflict, NotFound):
                await self._steering.cancel(self.id, item)
        with suppress(Conflict):
            await self._steering.abort(self.id)

    # -- what happens

    async def _follow(self) -> None:
        assert self._events is not None
        try:
            if self._past:
                await self._read(upto=self._past)
            self._introduce()
            async for event in self._events:
                if isinstance(event, Gap):
                    await self._read()
                elif event.type == "session-removed":
                    self._fail(RpcError(INTERNAL_ERROR, "the session was deleted"))
                    return
                elif event.entry is not None:
                    await self._entry(event.entry)
                elif event.delta is not None:
                    for update in self._narrator.fragment(event.delta):
                        self._tell(update)
                await self._peer.room()
        except FarsteerError as error:
            _log.error("session %s is no longer followed: %s", self.id, error.message)
            self._fail(RpcError(INTERNAL_ERROR, f"the session is no longer followed: {error.message}"))

    def _introduce(self) -> None:
        """What the session is and waits for now."""
        state = self._narrator.state
        if state.commands:
            self._tell(commands(state.commands))
        for update in usage(state.usage):
            self._tell(update)
        for approval in state.approvals:
            self._ask(approval)

    async def _read(self, upto: int | None = None) -> None:
        """What the log has beyond what was told."""
        async for entry in self._steering.messages(self.id, after=self._narrator.seq):
            if upto is not None and entry.seq > upto:
                return
            await self._entry(entry, live=upto is None)
            await self._peer.room()

    async def _entry(self, entry: Entry, *, live: bool = True) -> None:
        if entry.seq <= self._narrator.seq:
            return
        own = isinstance(entry.content, ev.UserMessage) and entry.local_id in self._own
        before = self._narrator.state
        for update in self._narrator.entry(entry, own=own):
            self._tell(update)
        if live:
            await self._react(entry.content, before)

    async def _react(self, event: ev.SessionEvent, before: SessionState) -> None:
        match event:
            case ev.ApprovalRequested():
                self._ask(event.approval)
            case ev.ApprovalResolved():
                asking = self._asking.pop(event.approval_id, None)
                if asking is not None:
                    asking.cancel()
            case ev.TurnStart() if event.item_id is not None:
                self._turns[event.turn_id] = event.item_id
            case ev.TurnEnd():
                item = self._turns.pop(event.turn_id, None)
                if item is not None:
                    self._end(item, _ending(event))
            case ev.QueueUpdate() if event.state in _NEVER_RAN and event.item_id != before.turn_item:
                why = event.reason or event.state.value
                cancelled = event.state is ItemState.CANCELLED
                self._end(
                    event.item_id,
                    "cancelled" if cancelled else RpcError(INTERNAL_ERROR, why, {"state": event.state.value}),
                )
            case ev.ModeUpdate():
                await self._modes(event)
            case _:
                pass

    async def _modes(self, event: ev.ModeUpdate) -> None:
        if event.permission_mode is not None:
            self._tell({"sessionUpdate": "current_mode_update", "currentModeId": event.permission_mode.value})
        options = await self.options()
        self._tell({"sessionUpdate": "config_option_update", "configOptions": options})

    async def options(self) -> list[dict[str, Any]]:
        from farsteer.faces.acp.options import config_options

        view = await self._steering.session(self.id)
        machines = {machine.id: machine for machine in await self._steering.machines()}
        return config_options(view, machines.get(view.machine_id))

    def _ask(self, approval: Approval) -> None:
        if approval.id not in self._asking:
            work = self._asked(approval)
            self._asking[approval.id] = asyncio.get_running_loop().create_task(work)

    async def _asked(self, approval: Approval) -> None:
        try:
            decision = await self._desk.ask(self.name, approval)
            if decision is not None:
                with suppress(AlreadyAnswered, NotFound):
                    await self._steering.answer(self.id, approval.id, decision)
        except FarsteerError as error:
            _log.warning("the answer to %s did not arrive: %s", approval.id, error.message)
        finally:
            self._asking.pop(approval.id, None)

    def _end(self, item: str, ending: Ending) -> None:
        self._ended[item] = ending
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
        waiting = self._waiting.get(item)
        if waiting is not None:
            _settle(waiting, ending)

    def _fail(self, error: RpcError) -> None:
        for item in [*self._waiting]:
            self._end(item, error)

    def _tell(self, update: Update) -> None:
        self._peer.tell(UPDATE, {"sessionId": self.name, "update": update})


def _ending(event: ev.TurnEnd) -> Ending:
    reason = _STOPS.get(event.reason)
    if reason is not None:
        return reason
    return RpcError(
        INTERNAL_ERROR, event.error or f"the turn {event.reason.value}", {"reason": event.reason.value}
    )


def _settle(waiting: asyncio.Future[Ending], ending: Ending) -> None:
    if not waiting.done():
        waiting.set_result(ending)


def _state(view: SessionView, seq: int) -> SessionState:
    return SessionState(
        id=view.id, agent=view.agent, directory=view.directory, status=view.status, seq=seq, title=view.title,
        permission_mode=view.permission_mode, model=view.model, effort=view.model_reasoning_effort,
        turn_id=view.turn_id, queue=view.queue, approvals=view.approvals, usage=view.usage, commands=view.commands,
    )  # fmt: skip
