"""A client of a hub in the same process, without HTTP: for the hub's own faces and for commands that run a hub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

import msgspec

from farsteer.client.errors import hub_error
from farsteer.client.live_events import Gap, LiveEvent, decode_event
from farsteer.core import api
from farsteer.core.errors import BadRequest
from farsteer.core.events import Entry, decode_entries
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import QueueItem
from farsteer.hub import Caller, CreationResult, Hub
from farsteer.hub.feed import SyncEvent

T = TypeVar("T", bound=msgspec.Struct)

_PAGE_SIZE = 200
_MAX_QUEUED_EVENTS = 10_000


class _MessagesPage(msgspec.Struct):
    messages: list[msgspec.Raw]
    page: api.Page


class ForkedSession(msgspec.Struct, frozen=True):
    id: str


class InProcessClient:
    """A `HubClient` that calls the hub's services directly, on behalf of one caller."""

    def __init__(self, hub: Hub, caller: Caller) -> None:
        self._hub = hub
        self._caller = caller

    async def machines(self) -> list[api.MachineView]:
        return (await self._hub.machines.list(self._caller)).machines

    async def create_session(self, request: api.CreateSession) -> api.SessionCreated:
        return _created_session(await self._hub.sessions.create(self._caller, _checked(request)))

    async def fork(
        self, session_id: str, *, seq: int | None = None, title: str | None = None
    ) -> ForkedSession:
        request = _checked(api.ForkSession(seq=seq, title=title))
        forked = _created_session(await self._hub.forks.fork(self._caller, session_id, request))
        return ForkedSession(forked.session_id)

    async def rewind(self, session_id: str, seq: int, *, restore_files: bool = True) -> api.SessionRewound:
        request = _checked(api.RewindSession(seq=seq, restore_files=restore_files))
        return await self._hub.rewinds.rewind(self._caller, session_id, request)

    async def delete(self, session_id: str) -> None:
        await self._hub.sessions.delete(self._caller, session_id)

    async def session(self, session_id: str) -> api.SessionView:
        return await self._hub.sessions.get(self._caller, session_id)

    async def sessions(self) -> AsyncIterator[api.SessionView]:
        cursor: str | None = None
        while True:
            page = await self._hub.sessions.list(self._caller, cursor=cursor)
            for session in page.sessions:
                yield session
            cursor = page.next_cursor
            if cursor is None:
                return

    async def messages(self, session_id: str, *, after: int = 0) -> AsyncIterator[Entry]:
        while True:
            body = await self._hub.messages.list(self._caller, session_id, limit=_PAGE_SIZE, after_seq=after)
            result = msgspec.json.decode(body, type=_MessagesPage)
            for entry in decode_entries([bytes(raw) for raw in result.messages]):
                yield entry
            if not result.page.has_more or result.page.next_after_seq is None:
                return
            after = result.page.next_after_seq

    async def log(self, session_id: str) -> AsyncIterator[Entry]:
        async with aclosing(self._hub.exports.pages(self._caller, session_id)) as pages:
            async for bodies in pages:
                for entry in decode_entries(bodies):
                    yield entry

    async def send(
        self,
        session_id: str,
        text: str,
        *,
        attachments: Sequence[api.NewAttachment] = (),
        local_id: str | None = None,
    ) -> api.MessageAccepted:
        message = api.SendMessage(text=text, local_id=local_id or new_id(), attachments=list(attachments))
        return await self._hub.messages.send(self._caller, session_id, _checked(message))

    async def answer(
        self, session_id: str, approval_id: str, decision: api.Approve | api.Deny | bool
    ) -> api.ApprovalAnswered:
        if isinstance(decision, bool):
            decision = api.Approve() if decision else api.Deny()
        answer = _checked(decision).answer(self._caller.name)
        return await self._hub.approvals.answer(self._caller, session_id, approval_id, answer)

    async def rename(self, session_id: str, title: str) -> None:
        await self._hub.sessions.rename(self._caller, session_id, _checked(api.RenameSession(title=title)))

    async def set_permission_mode(self, session_id: str, mode: PermissionMode) -> None:
        await self._hub.sessions.configure(self._caller, session_id, permission_mode=mode)

    async def set_model(self, session_id: str, model: str, *, effort: ReasoningEffort | None = None) -> None:
        request = _checked(api.SetModel(model=model, reasoning_effort=effort))
        await self._hub.sessions.configure(
            self._caller, session_id, model=request.model, effort=request.reasoning_effort
        )

    async def queue(self, session_id: str) -> list[QueueItem]:
        return (await self._hub.messages.queue(self._caller, session_id)).items

    async def cancel(self, session_id: str, item_id: str) -> None:
        await self._hub.messages.cancel(self._caller, session_id, item_id)

    async def abort(self, session_id: str) -> None:
        await self._hub.sessions.abort(self._caller, session_id)

    async def stop(self, session_id: str) -> None:
        await self._hub.sessions.stop(self._caller, session_id)

    @asynccontextmanager
    async def follow(self, session_id: str) -> AsyncGenerator[AsyncIterator[LiveEvent]]:
        events = _SessionEvents(session_id)
        unsubscribe = self._hub.feed.listen(events.put)
        try:
            yield events
        finally:
            unsubscribe()


def _checked(request: T) -> T:
    """Return the request if it is within the limits of the REST API, which are checked when a body is decoded.

    Raises:
        BadRequest: a field is too long, or a list has too many elements.
    """
    try:
        return msgspec.convert(msgspec.to_builtins(request), type(request))
    except msgspec.ValidationError as error:
        raise BadRequest(str(error)) from None


def _created_session(result: CreationResult) -> api.SessionCreated:
    """Return the created session, or raise the error of a failed creation."""
    if isinstance(result, api.SessionCreated):
        return result
    raise hub_error(result.error.status, result.error.message, logs=result.logs)


class _SessionEvents:
    """The feed's events of one session, queued until they are read.

    The queue is bounded. When it overflows it is emptied and the reader gets a `Gap`, after which it must read the log.
    Transient events, which have no cursor, are dropped instead.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._queue: asyncio.Queue[SyncEvent | None] = asyncio.Queue()
        """None stands for a gap."""

    def put(self, events: list[SyncEvent]) -> None:
        for event in events:
            if event.subject != self._session_id:
                continue
            if self._queue.qsize() < _MAX_QUEUED_EVENTS:
                self._queue.put_nowait(event)
            elif event.cursor is not None:
                self._queue = asyncio.Queue()
                self._queue.put_nowait(None)

    def __aiter__(self) -> AsyncIterator[LiveEvent]:
        return self

    async def __anext__(self) -> LiveEvent:
        event = await self._queue.get()
        return Gap("gap") if event is None else decode_event(event.data)
