"""The session a client is in: its events go out as notifications, the client's answers go to the hub."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, suppress

from farsteer.client.hub_client import HubClient
from farsteer.client.live_events import Gap, LiveEvent
from farsteer.core.api import Approve, Deny, SessionView
from farsteer.core.errors import AlreadyAnswered, BadRequest, Conflict, FarsteerError, NotFound
from farsteer.core.events import Entry
from farsteer.faces.droid.approvals import ApprovalRequest, decide, mode_after, selected_value
from farsteer.faces.droid.notifications import NotificationBuilder, Outgoing
from farsteer.faces.droid.protocol import Dialect, LineEncoder, Message, Response, report_error
from farsteer.faces.droid.transcript import Transcript
from farsteer.jsonrpc.stdio import StdoutWriter

_logger = logging.getLogger(__name__)

_INTERRUPT_TIMEOUT = 8.0
"""Longer than the runner takes to end an agent that ignores an interrupt."""


class ProtocolWriter:
    """Writes lines to the client in one dialect."""

    def __init__(self, writer: StdoutWriter, dialect: Dialect) -> None:
        self.dialect = dialect
        self.encoder = LineEncoder(dialect)
        self.write = writer.write

    async def result(self, request_id: str, result: object) -> None:
        await self.write(self.encoder.result(request_id, result))

    async def error(self, request_id: str | None, code: int, message: str) -> None:
        await self.write(self.encoder.error(request_id, code, message))

    async def send(self, outgoing: Outgoing, session_id: str) -> None:
        if isinstance(outgoing, ApprovalRequest):
            line = self.encoder.request(outgoing.approval.id, outgoing.method, outgoing.params)
        else:
            line = self.encoder.notification(outgoing, session_id)
        await self.write(line)


class AttachedSession:
    def __init__(
        self, hub: HubClient, view: SessionView, events: AsyncIterator[LiveEvent], writer: ProtocolWriter,
        notifications: NotificationBuilder, name: str,
    ) -> None:  # fmt: skip
        self.id = view.id
        self.agent = view.agent
        self.directory = view.directory
        self.name = name
        """The session id that the client knows."""
        self.notifications = notifications
        self.messages: list[Message] = []
        self.write_lock = asyncio.Lock()
        """Held while something is written: nothing of a turn may be sent before its request is acknowledged."""
        self._hub = hub
        self._events = events
        self._writer = writer
        self._changed = asyncio.Condition()
        self._resources = AsyncExitStack()
        self._follower: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, hub: HubClient, session_id: str, writer: ProtocolWriter, *, name: str, use_levels: bool, history: bool
    ) -> AttachedSession:  # fmt: skip
        """Subscribe to a session. Nothing is written before `follow`. Raises NotFound."""
        async with AsyncExitStack() as resources:
            events = await resources.enter_async_context(hub.follow(session_id))
            view = await hub.session(session_id)
            transcript = Transcript(view.directory)
            messages: list[Message] = []
            if history:
                async for entry in hub.messages(session_id):
                    if entry.seq > view.seq:
                        break
                    messages += transcript.append(entry)
            notifications = NotificationBuilder(
                view.state(), transcript, writer.dialect, name=name, use_levels=use_levels
            )
            session = cls(hub, view, events, writer, notifications, name)
            session.messages = messages
            session._resources = resources.pop_all()
        return session

    def follow(self) -> None:
        """Start to write what happens in the session."""
        self._follower = asyncio.create_task(self._follow(), name=f"droid face {self.id}")

    async def close(self) -> None:
        """Unsubscribe."""
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)
        await self._resources.aclose()

    async def send(self, outgoing: Iterable[Outgoing]) -> None:
        for one in outgoing:
            await self._writer.send(one, self.name)

    # -- approvals

    async def handle_response(self, response: Response) -> None:
        """Handle the client's answer to an approval request. A late one is ignored."""
        request = self.notifications.open_requests.get(response.id or "")
        if request is None:
            _logger.info("ignored a response to no open request: %s", response.id)
            return
        if response.error is not None:
            decision: Approve | Deny | None = Deny(
                message=response.error.message or "the client failed to ask"
            )
        else:
            decision = decide(request, response.result)
        if decision is None:
            _logger.warning(
                "ignored a malformed answer to %s: answers must be objects with index and answer", response.id
            )
            return
        await self._submit(request, response, decision)

    async def _submit(self, request: ApprovalRequest, response: Response, decision: Approve | Deny) -> None:
        approval_id, value = request.approval.id, selected_value(response.result, decision)
        self.notifications.record_answer(approval_id, value, mode_after(request, value))
        try:
            await self._hub.answer(self.id, approval_id, decision)
        except (AlreadyAnswered, NotFound) as error:
            _logger.info("approval %s was already resolved: %s", approval_id, error.message)
        except BadRequest as error:
            _logger.warning("the answer to approval %s is invalid: %s", approval_id, error.message)
            with suppress(AlreadyAnswered, NotFound, Conflict):
                await self._hub.answer(self.id, approval_id, Deny(message=error.message))
        except FarsteerError as error:
            _logger.error("the answer to approval %s could not be delivered: %s", approval_id, error.message)

    # -- the end of turns

    async def finish(self, timeout: float) -> None:
        """Wait for running turns unless they need an answer, at most `timeout` seconds; then interrupt them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._wait_until_idle(or_asking=True)
        if self.notifications.unfinished_items:
            with suppress(TimeoutError, FarsteerError):
                async with asyncio.timeout(_INTERRUPT_TIMEOUT):
                    await self.interrupt()
                    await self._wait_until_idle(or_asking=False)

    async def interrupt(self) -> None:
        """End the running turn and, as Droid does, discard the messages that wait behind it."""
        for item in sorted(self.notifications.unfinished_items):
            # The running item cannot be cancelled; the abort ends it.
            with suppress(Conflict, NotFound):
                await self._hub.cancel(self.id, item)
        await self._hub.abort(self.id)

    async def _wait_until_idle(self, *, or_asking: bool) -> None:
        """Wait until every message of this client has an outcome or, with `or_asking`, until an approval is open."""
        state = self.notifications
        async with self._changed:
            await self._changed.wait_for(
                lambda: (
                    not state.unfinished_items
                    or (or_asking and bool(state.open_requests))
                    or self._follower is None
                    or self._follower.done()
                )
            )

    # -- live events

    async def _follow(self) -> None:
        try:
            async for event in self._events:
                if not await self._handle_event(event):
                    return
        except FarsteerError as error:
            _logger.error("cannot follow session %s any longer: %s", self.id, error.message)
            await self.send([report_error(error.message, error.code.value)])
        finally:
            self.notifications.unfinished_items.clear()
            async with self._changed:
                self._changed.notify_all()

    async def _handle_event(self, event: LiveEvent) -> bool:
        """Return False if no event can follow."""
        if isinstance(event, Gap):
            async for entry in self._hub.messages(self.id, after=self.notifications.state.seq):
                await self._handle_entry(entry)
        elif event.type == "session-removed":
            await self.send([report_error("the session was deleted", "not_found")])
            return False
        elif event.entry is not None:
            await self._handle_entry(event.entry)
        elif event.delta is not None:
            async with self.write_lock:
                await self.send(self.notifications.for_delta(event.delta))
        return True

    async def _handle_entry(self, entry: Entry) -> None:
        async with self.write_lock:
            if entry.seq > self.notifications.state.seq:
                await self.send(self.notifications.for_entry(entry))
        async with self._changed:
            self._changed.notify_all()
