"""One session that one client is in: told in order, prompted, asked, and left without harm."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any, cast

from farsteer.client.hub_client import HubClient
from farsteer.client.live import Gap, LiveEvent
from farsteer.core import events as ev
from farsteer.core.api import SessionView
from farsteer.core.approvals import Approval
from farsteer.core.errors import AlreadyAnswered, Conflict, FarsteerError, NotFound
from farsteer.core.events import Entry, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.queue import ItemState
from farsteer.core.session import SessionState
from farsteer.core.wire import encode
from farsteer.faces.acp.asking import Desk
from farsteer.faces.acp.content import Message
from farsteer.faces.acp.updates import Narrator, Update, commands, usage
from farsteer.jsonrpc.errors import INTERNAL_ERROR, RpcError
from farsteer.jsonrpc.messages import as_object
from farsteer.jsonrpc.peer import Peer

_log = logging.getLogger(__name__)

_ENVELOPE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":'
_REMEMBERED = 200

_STOPS = {
    TurnEndReason.END_TURN: "end_turn",
    TurnEndReason.MAX_TOKENS: "max_tokens",
    TurnEndReason.MAX_TURN_REQUESTS: "max_turn_requests",
    TurnEndReason.REFUSAL: "refusal",
    TurnEndReason.CANCELLED: "cancelled",
}
_NEVER_RAN = (ItemState.CANCELLED, ItemState.FAILED, ItemState.UNKNOWN)
_CANCELLED = "cancelled"

Ending = str | RpcError
"""A stop reason, or what went wrong."""


class _Prompt:
    """Something this client said, until its turn has ended."""

    def __init__(self) -> None:
        self.item: str | None = None
        """Its name in the queue, once the hub has it."""
        self.cancelled = False
        self.ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    def end(self, ending: Ending) -> None:
        if not self.ending.done():
            self.ending.set_result(ending)


class Attached:
    """`name` is what the client calls the session; mostly that is its id."""

    def __init__(self, peer: Peer, steering: HubClient, desk: Desk, session_id: str, name: str) -> None:
        self.id = session_id
        self.name = name
        self._peer = peer
        self._steering = steering
        self._desk = desk
        self._envelope = _ENVELOPE % encode(name)
        self._narrator = _narrator(session_id)
        self._opened = AsyncExitStack()
        self._events: AsyncIterator[LiveEvent] | None = None
        self._following: asyncio.Task[None] | None = None
        self._waking = asyncio.Lock()
        self._telling = asyncio.Lock()
        """Held by whoever tells the client something that has its place."""
        self._own: set[str] = set()
        """Local ids of what this client has said and the log has not shown yet."""
        self._prompts: set[_Prompt] = set()
        self._ended: OrderedDict[str, Ending] = OrderedDict()
        """How the latest items ended: their turn may be over before the hub has told us their names."""
        self._turns: dict[str, str] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._past: SessionView | None = None
        """What is to be told before anything live: everything up to this."""
        self._behind = False
        """The log has to be read before anything live."""

    # -- coming and going

    async def enter(self, *, replay: bool, late: bool = False) -> SessionView:
        """Be told everything from now on, after the past if that is wanted; `late`: when it begins."""
        self._events = await self._opened.enter_async_context(self._steering.follow(self.id))
        view = await self._steering.session(self.id)
        if late:
            self._past = view
            return view
        if replay:
            await self._replay(self._narrator, view.seq)
        self._narrator.settle(view.state())
        return view

    def begin(self) -> None:
        """Go on live, from the next turn of the event loop on."""
        self._following = asyncio.get_running_loop().create_task(self._follow(), name=f"acp {self.id}")

    async def again(self, *, replay: bool) -> SessionView:
        """The client enters a session that it is in. What it has begun goes on."""
        await self._awake()
        async with self._telling:
            if replay:
                told = _narrator(self.id)
                await self._replay(told, self._narrator.seq)
                told.settle(self._narrator.state)
                told.seq = max(told.seq, self._narrator.seq)
                self._narrator = told
            return await self._steering.session(self.id)

    def ask_again(self) -> None:
        """What the client was asked is asked anew: whatever showed it may be gone."""
        for asking in [*self._asking.values()]:
            asking.cancel()
        self._asking.clear()
        for approval in self._narrator.state.approvals:
            self._ask(approval)

    async def leave(self) -> None:
        """The session goes on without this client."""
        tasks = [*self._asking.values()]
        if self._following is not None:
            tasks.append(self._following)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._opened.aclose()
        self._fail(RpcError(INTERNAL_ERROR, "the session is no longer followed here"))

    async def settled(self, seconds: float) -> None:
        """Everything that this client has said has its end, or it takes too long."""
        if self._prompts:
            await asyncio.wait([prompt.ending for prompt in self._prompts], timeout=seconds)

    # -- what the client does

    async def prompt(self, message: Message) -> str:
        """Say it, and wait until its turn has ended and everything of it was told. The stop reason."""
        await self._awake()
        prompt = _Prompt()
        self._prompts.add(prompt)
        saying = asyncio.get_running_loop().create_task(self._say(prompt, message))
        try:
            return await asyncio.shield(saying)
        except asyncio.CancelledError:
            # Who has gone has not cancelled anything; who no longer waits has.
            if self._peer.closed or saying.done():
                raise
            await self.cancel(prompt)
            return await saying
        finally:
            saying.cancel()
            self._prompts.discard(prompt)

    async def _say(self, prompt: _Prompt, message: Message) -> str:
        local_id = new_id()
        self._own.add(local_id)
        try:
            accepted = await self._steering.send(
                self.id, message.text, attachments=message.attachments, local_id=local_id
            )
        except FarsteerError:
            self._own.discard(local_id)
            raise
        prompt.item = accepted.id
        if accepted.id in self._ended:
            prompt.end(self._ended[accepted.id])
        elif prompt.cancelled:
            await self._take_back(prompt)
        ending = await prompt.ending
        if prompt.cancelled:
            return _CANCELLED
        if isinstance(ending, str):
            return ending
        raise ending

    async def cancel(self, only: _Prompt | None = None) -> None:
        """End the running turn, and what this client has waiting behind it; or one thing that it said."""
        prompts = [*self._prompts] if only is None else [only]
        for prompt in prompts:
            prompt.cancelled = True
        running = only is None
        for prompt in prompts:
            running |= prompt.item is not None and not await self._withdrawn(prompt.item)
        if running:
            with suppress(Conflict):
                await self._steering.abort(self.id)

    async def _take_back(self, prompt: _Prompt) -> None:
        """It was cancelled while it was on its way."""
        assert prompt.item is not None
        if not await self._withdrawn(prompt.item):
            with suppress(Conflict):
                await self._steering.abort(self.id)

    async def _withdrawn(self, item: str) -> bool:
        """It waits no more; False: the agent has it."""
        try:
            await self._steering.cancel(self.id, item)
        except Conflict:
            return False
        except NotFound:
            return item in self._ended
        # One that no runner has seen leaves no trace in the log.
        self._end(item, _CANCELLED)
        return True

    # -- what happens

    async def _awake(self) -> None:
        """A session that could no longer be followed is followed again, from where it was left."""
        async with self._waking:
            if self._following is None or not self._following.done():
                return
            await self._opened.aclose()
            self._opened = AsyncExitStack()
            self._events = await self._opened.enter_async_context(self._steering.follow(self.id))
            self._behind = True
            self.begin()

    async def _follow(self) -> None:
        assert self._events is not None
        why = "its events have ended"
        try:
            async with self._telling:
                await self._catch_up()
            async for event in self._events:
                if event.type == "session-removed":
                    why = "it was deleted"
                    break
                async with self._telling:
                    await self._take(event)
                await self._peer.drain()
        except FarsteerError as error:
            why = error.message
        except Exception as error:  # noqa: BLE001
            _log.exception("session %s", self.id)
            why = type(error).__name__
        _log.info("session %s is no longer followed: %s", self.id, why)
        self._fail(RpcError(INTERNAL_ERROR, f"the session is no longer followed: {why}"))

    async def _catch_up(self) -> None:
        """The past, and what the session is and waits for now."""
        if self._past is not None:
            await self._replay(self._narrator, self._past.seq)
            self._narrator.settle(self._past.state())
            self._past = None
        elif self._behind:
            self._behind = False
            await self._read()
            return
        else:
            self._introduce(self._narrator.state)
        for approval in self._narrator.state.approvals:
            self._ask(approval)

    def _introduce(self, state: SessionState) -> None:
        if state.commands:
            self._tell(commands(state.commands))
        for update in usage(state.usage):
            self._tell(update)

    async def _take(self, event: LiveEvent) -> None:
        if isinstance(event, Gap):
            await self._read()
        elif event.entry is not None:
            await self._entry(event.entry)
        elif event.delta is not None:
            for update in self._narrator.fragment(event.delta):
                self._tell(update)
        elif event.type == "session-updated":
            self._unheard(event.data)

    def _unheard(self, changed: Any) -> None:
        """What ends before a runner has it is in no log, only in the queue once more."""
        queue = (as_object(changed) or {}).get("queue")
        for item in cast("list[Any]", queue) if isinstance(queue, list) else []:
            known = as_object(item) or {}
            match known.get("state"):
                case "cancelled":
                    self._end(str(known.get("id")), _CANCELLED)
                case "failed":
                    why = "the message did not reach its machine"
                    self._end(str(known.get("id")), RpcError(INTERNAL_ERROR, why, {"state": "failed"}))
                case _:
                    pass

    async def _replay(self, narrator: Narrator, upto: int) -> None:
        """The past, also what this client has said."""
        async for entry in self._steering.log(self.id):
            if entry.seq > upto:
                return
            for update in narrator.entry(entry):
                self._tell(update)
            if self._peer.send_buffer_full:
                await self._peer.drain()

    async def _read(self) -> None:
        """What the log has beyond what was told."""
        async for entry in self._steering.messages(self.id, after=self._narrator.seq):
            await self._entry(entry)
            await self._peer.drain()

    async def _entry(self, entry: Entry) -> None:
        if entry.seq <= self._narrator.seq:
            return
        own = isinstance(entry.content, ev.UserMessage) and entry.local_id in self._own
        if own:
            self._own.discard(str(entry.local_id))
        before = self._narrator.state
        for update in self._narrator.entry(entry, own=own):
            self._tell(update)
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
                    _CANCELLED if cancelled else RpcError(INTERNAL_ERROR, why, {"state": event.state.value}),
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
            if self._asking.get(approval.id) is asyncio.current_task():
                del self._asking[approval.id]

    def _end(self, item: str, ending: Ending) -> None:
        self._ended[item] = ending
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
        for prompt in self._prompts:
            if prompt.item == item:
                prompt.end(ending)

    def _fail(self, error: RpcError) -> None:
        for prompt in self._prompts:
            prompt.end(error)

    def _tell(self, update: Update) -> None:
        self._peer.send_encoded(b"%b%b}}" % (self._envelope, encode(update)))


def _ending(event: ev.TurnEnd) -> Ending:
    reason = _STOPS.get(event.reason)
    if reason is not None:
        return reason
    return RpcError(
        INTERNAL_ERROR, event.error or f"the turn {event.reason.value}", {"reason": event.reason.value}
    )


def _narrator(session_id: str) -> Narrator:
    """One that has told nothing yet."""
    return Narrator(SessionState(id=session_id, agent="", directory=""))
