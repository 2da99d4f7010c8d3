"""One session that one client follows: its history, its live updates, its prompts and its approvals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from enum import Enum, auto

from farsteer.client.hub_client import HubClient
from farsteer.client.live_events import Gap, LiveEvent
from farsteer.core import events as ev
from farsteer.core.api import SessionView
from farsteer.core.errors import FarsteerError
from farsteer.core.events import Entry
from farsteer.core.live_events import SessionUpdatedEvent
from farsteer.core.session import SessionState
from farsteer.core.wire import encode
from farsteer.faces.acp.approvals import ApprovalPrompter
from farsteer.faces.acp.params import PromptContent
from farsteer.faces.acp.prompts import ClientPrompts
from farsteer.faces.acp.settings import describe_config_options
from farsteer.faces.acp.updates import Update, UpdateTranslator, commands_update, usage_updates
from farsteer.jsonrpc.errors import INTERNAL_ERROR, RpcError
from farsteer.jsonrpc.peer import Peer

_logger = logging.getLogger(__name__)

_UPDATE_PREFIX = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":'


class Replay(Enum):
    """When the history of a session is sent to the client that attaches to it."""

    NONE = auto()
    BEFORE_RESPONSE = auto()
    AFTER_RESPONSE = auto()
    """For `session/new`, whose response tells the client the session id."""


class AttachedSession:
    """Call `attach`, then `start`, and finally `detach`. The session itself goes on without the client.

    `session_id` is the hub's id of the session, `acp_id` the client's. They differ only if the agent was replaced.
    """

    def __init__(self, peer: Peer, hub: HubClient, session_id: str, acp_id: str, *, forms: bool) -> None:
        self.session_id = session_id
        self.acp_id = acp_id
        self._peer = peer
        self._hub = hub
        self._approvals = ApprovalPrompter(peer, hub, session_id, acp_id, forms=forms)
        self._prompts = ClientPrompts(peer, hub, session_id)
        self._translator = self._new_translator()
        self._update_prefix = _UPDATE_PREFIX % encode(acp_id)
        self._subscription = AsyncExitStack()
        self._events: AsyncIterator[LiveEvent] | None = None
        self._follower: asyncio.Task[None] | None = None
        self._restart_lock = asyncio.Lock()
        self._send_lock = asyncio.Lock()
        """Held while updates are sent, so that a replay and live updates do not mix."""
        self._deferred_replay: SessionView | None = None
        """The session up to whose `seq` the history is sent once the session is started."""

    # -- attaching and detaching

    async def attach(self, replay: Replay) -> SessionView:
        """Subscribe to the session and send its history, if that belongs before the response."""
        await self._subscribe()
        view = await self._hub.session(self.session_id)
        match replay:
            case Replay.AFTER_RESPONSE:
                self._deferred_replay = view
            case Replay.BEFORE_RESPONSE:
                await self._replay(self._translator, view.seq)
                self._translator.skip_to(view.seq, view.state())
            case Replay.NONE:
                self._translator.skip_to(view.seq, view.state())
        return view

    def start(self) -> None:
        """Forward what happens. Sends nothing before the next iteration of the event loop."""
        self._start_follower(self._send_initial_updates)

    async def reattach(self, *, replay: bool) -> SessionView:
        """Attach a client that is attached already. Its open prompts go on."""
        await self._ensure_following()
        async with self._send_lock:
            if replay:
                before = self._translator
                translator = self._new_translator()
                await self._replay(translator, before.seq)
                translator.skip_to(before.seq, before.state)
                self._translator = translator
            return await self._hub.session(self.session_id)

    def ask_approvals_again(self) -> None:
        self._approvals.ask_again(self._translator.state.approvals)

    async def detach(self) -> None:
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)
        await self._approvals.close()
        await self._subscription.aclose()
        self._prompts.fail(RpcError(INTERNAL_ERROR, "the client is no longer attached to the session"))

    # -- prompts

    async def prompt(self, content: PromptContent) -> str:
        """Send a prompt. Returns its stop reason after every update of its turn has been sent."""
        await self._ensure_following()
        return await self._prompts.send(content)

    async def cancel(self) -> None:
        """Abort the running turn and cancel the prompts of this client that wait behind it."""
        await self._prompts.cancel()

    async def wait_for_prompts(self, seconds: float) -> None:
        await self._prompts.wait(seconds)

    # -- following the session

    async def _subscribe(self) -> None:
        self._events = await self._subscription.enter_async_context(self._hub.follow(self.session_id))

    def _start_follower(self, prepare: Callable[[], Awaitable[None]]) -> None:
        follow = self._follow(prepare)
        self._follower = asyncio.get_running_loop().create_task(follow, name=f"acp {self.session_id}")

    async def _ensure_following(self) -> None:
        """Subscribe again if the subscription has failed, and send what was missed."""
        async with self._restart_lock:
            if self._follower is None or not self._follower.done():
                return
            await self._subscription.aclose()
            self._subscription = AsyncExitStack()
            await self._subscribe()
            self._start_follower(self._catch_up)

    async def _follow(self, prepare: Callable[[], Awaitable[None]]) -> None:
        assert self._events is not None
        reason = "its event stream ended"
        try:
            async with self._send_lock:
                await prepare()
            async for event in self._events:
                if event.type == "session-removed":
                    reason = "it was deleted"
                    break
                async with self._send_lock:
                    await self._handle_event(event)
                await self._peer.drain()
        except FarsteerError as error:
            reason = error.message
        except Exception as error:
            _logger.exception("following session %s failed", self.session_id)
            reason = type(error).__name__
        _logger.info("session %s is no longer followed: %s", self.session_id, reason)
        self._prompts.fail(RpcError(INTERNAL_ERROR, f"the session is no longer followed: {reason}"))

    async def _send_initial_updates(self) -> None:
        if self._deferred_replay is not None:
            view = self._deferred_replay
            await self._replay(self._translator, view.seq)
            self._translator.skip_to(view.seq, view.state())
            self._deferred_replay = None
        else:
            self._send_commands_and_usage()
        for approval in self._translator.state.approvals:
            self._approvals.ask(approval)

    def _send_commands_and_usage(self) -> None:
        state = self._translator.state
        if state.commands:
            self._send_update(commands_update(state.commands))
        for update in usage_updates(state.usage):
            self._send_update(update)

    async def _catch_up(self) -> None:
        if self._deferred_replay is not None:
            await self._send_initial_updates()
        await self._send_missed_entries()

    async def _send_missed_entries(self) -> None:
        async for entry in self._hub.messages(self.session_id, after=self._translator.seq):
            await self._handle_entry(entry)
            await self._peer.drain()

    async def _replay(self, translator: UpdateTranslator, last_seq: int) -> None:
        """Send the history up to `last_seq`, including the prompts of this client."""
        async for entry in self._hub.log(self.session_id):
            if entry.seq > last_seq:
                return
            for update in translator.translate_entry(entry):
                self._send_update(update)
            if self._peer.send_buffer_full:
                await self._peer.drain()

    async def _handle_event(self, event: LiveEvent) -> None:
        if isinstance(event, Gap):
            await self._send_missed_entries()
        elif event.entry is not None:
            await self._handle_entry(event.entry)
        elif event.delta is not None:
            for update in self._translator.translate_delta(event.delta):
                self._send_update(update)
        elif isinstance(event.content, SessionUpdatedEvent):
            self._prompts.handle_session_update(event.content.data)

    async def _handle_entry(self, entry: Entry) -> None:
        if entry.seq <= self._translator.seq:
            return
        running_item = self._translator.state.turn_item
        shown = self._prompts.pop_own_message(entry)
        for update in self._translator.translate_entry(entry, shown=shown):
            self._send_update(update)
        match entry.content:
            case ev.ApprovalRequested(approval=approval):
                self._approvals.ask(approval)
            case ev.ApprovalResolved(approval_id=approval_id):
                self._approvals.withdraw(approval_id)
            case ev.ModeUpdate():
                await self._send_settings(entry.content)
            case event:
                self._prompts.handle_event(event, running_item)

    async def _send_settings(self, event: ev.ModeUpdate) -> None:
        if event.permission_mode is not None:
            mode = event.permission_mode.value
            self._send_update({"sessionUpdate": "current_mode_update", "currentModeId": mode})
        options = await describe_config_options(self._hub, self.session_id)
        self._send_update({"sessionUpdate": "config_option_update", "configOptions": options})

    def _send_update(self, update: Update) -> None:
        self._peer.send_encoded(b"%b%b}}" % (self._update_prefix, encode(update)))

    def _new_translator(self) -> UpdateTranslator:
        return UpdateTranslator(SessionState(id=self.session_id, agent="", directory=""))
