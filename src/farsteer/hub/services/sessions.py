"""Sessions: what a client can do with them. The logic of creating one and of handing messages over is beside this."""

from __future__ import annotations

import base64
import binascii
from contextlib import nullcontext, suppress

from farsteer.core import commands
from farsteer.core.api import (
    ClearMessages,
    CreateSession,
    Done,
    MessageAccepted,
    MessagesCleared,
    NewAttachment,
    Page,
    QueueResponse,
    RenameSession,
    SendMessage,
    SessionsResponse,
    SessionView,
)
from farsteer.core.clock import now_ms
from farsteer.core.errors import BadRequest, Conflict, NotCapable, NotFound
from farsteer.core.events import SessionStatus
from farsteer.core.ids import is_uuid, new_id
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import Attachment, Delivery, QueueItem
from farsteer.core.wire import encode
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.capable import capabilities
from farsteer.hub.dispatch import Dispatch
from farsteer.hub.metrics import Metrics
from farsteer.hub.rules.queue import combined_queue
from farsteer.hub.rules.view import session_view
from farsteer.hub.services.creation import Creation, Creator
from farsteer.hub.services.machines import Machines
from farsteer.hub.store.base import SessionFilter, Store

MAX_SESSIONS = 200
MAX_MESSAGES = 200
_HALT_SECONDS = 1.0
"""How long a stop lets the messages before it go first."""


class Sessions:
    def __init__(
        self, store: Store, machines: Machines, dispatch: Dispatch, creator: Creator, metrics: Metrics
    ) -> None:
        self._store = store
        self._machines = machines
        self._dispatch = dispatch
        self._creator = creator
        self._metrics = metrics

    async def create(
        self, caller: Caller, request: CreateSession, *, idempotency_key: str | None = None
    ) -> Creation:
        """Raises only for a wrong key (BadRequest, Conflict `idempotency_mismatch`) or a missing scope."""
        caller.require(Scope.WRITE)
        return await self._creator.create(caller, request, idempotency_key)

    async def list(
        self,
        caller: Caller,
        *,
        machine_id: str | None = None,
        agent: str | None = None,
        status: SessionStatus | None = None,
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> SessionsResponse:
        """Where something was said or done last comes first. `cursor` is the `next_cursor` of the page before."""
        caller.require(Scope.READ)
        _check_limit(limit, MAX_SESSIONS)
        rows = await self._store.list_sessions(
            caller.namespace,
            SessionFilter(machine_id=machine_id, agent=agent, status=status, text=text),
            limit=limit + 1,
            after=None if cursor is None else _parse_place(cursor),
        )
        more = len(rows) > limit
        rows = rows[:limit]
        return SessionsResponse(
            sessions=[session_view(row) for row in rows],
            next_cursor=f"{rows[-1].updated_at}_{rows[-1].id}" if more else None,
        )

    async def get(self, caller: Caller, session_id: str) -> SessionView:
        caller.require(Scope.READ)
        return session_view(await self._store.get_session(caller.namespace, session_id))

    async def rename(self, caller: Caller, session_id: str, request: RenameSession) -> Done:
        title = request.title.strip()
        if not title:
            raise BadRequest("a title must not be blank")
        return await self._command(caller, session_id, commands.Configure(title=title))

    async def delete(self, caller: Caller, session_id: str) -> Done:
        """Gone at once, also while its machine is offline."""
        caller.require(Scope.WRITE)
        machine_id = await self._store.delete_session(caller.namespace, session_id)
        self._machines.forget(caller.namespace, machine_id, session_id)
        return Done()

    async def messages(
        self,
        caller: Caller,
        session_id: str,
        *,
        limit: int = 50,
        before_seq: int | None = None,
        after_seq: int | None = None,
    ) -> bytes:
        """The JSON of a `MessagesResponse`, spliced from stored bytes; oldest message first."""
        caller.require(Scope.READ)
        _check_limit(limit, MAX_MESSAGES)
        found = await self._store.read_page(
            caller.namespace, session_id, limit=limit, before=before_seq, after=after_seq
        )
        page = Page(
            limit=limit,
            before_seq=before_seq,
            after_seq=after_seq,
            next_before_seq=found.first_seq if found.has_older else None,
            next_after_seq=found.last_seq if found.has_newer else None,
            has_more=found.has_older if after_seq is None else found.has_newer,
        )
        return b"".join((b'{"messages":[', b",".join(found.bodies), b'],"page":', encode(page), b"}"))

    async def send(self, caller: Caller, session_id: str, request: SendMessage) -> MessageAccepted:
        """The message is stored when this returns, and from then on it has an outcome."""
        caller.require(Scope.WRITE)
        if request.delivery is Delivery.STEER:
            row = await self._store.get_session(caller.namespace, session_id)
            if not (await capabilities(self._store, row)).steer:
                raise NotCapable("this agent takes no message into a running turn")
        item = QueueItem(
            id=new_id(),
            text=request.text,
            created_at=now_ms(),
            local_id=request.local_id,
            attachments=tuple(_attachment(attachment) for attachment in request.attachments),
            sent_from=caller.name,
            delivery=request.delivery,
        )
        accepted = await self._store.accept_item(caller.namespace, session_id, item)
        if not accepted.repeated:
            self._metrics.messages_accepted += 1
            self._dispatch.kick(caller.namespace, accepted.machine_id, session_id)
        return MessageAccepted(
            id=accepted.item.id,
            local_id=accepted.item.local_id,
            state=accepted.item.state,
            position=accepted.position,
        )

    async def clear(self, caller: Caller, session_id: str, request: ClearMessages) -> MessagesCleared:
        caller.require(Scope.WRITE)
        return await self._store.clear_messages(caller.namespace, session_id, request.keep_count)

    async def abort(self, caller: Caller, session_id: str) -> Done:
        return await self._halt(caller, session_id, commands.Abort())

    async def stop(self, caller: Caller, session_id: str) -> Done:
        return await self._halt(caller, session_id, commands.Stop())

    async def resume(self, caller: Caller, session_id: str) -> Done:
        return await self._command(caller, session_id, commands.Resume())

    async def configure(
        self,
        caller: Caller,
        session_id: str,
        *,
        permission_mode: PermissionMode | None = None,
        model: str | None = None,
        effort: ReasoningEffort | None = None,
    ) -> Done:
        change = commands.Configure(permission_mode=permission_mode, model=model, effort=effort)
        return await self._command(caller, session_id, change)

    async def queue(self, caller: Caller, session_id: str) -> QueueResponse:
        caller.require(Scope.READ)
        row = await self._store.get_session(caller.namespace, session_id)
        return QueueResponse(items=[*combined_queue(row.state, row.accepted)])

    async def cancel(self, caller: Caller, session_id: str, item_id: str) -> Done:
        """Real or refused: an item that a runner may have is taken back by that runner."""
        caller.require(Scope.WRITE)
        if await self._store.cancel_item(caller.namespace, session_id, item_id):
            return Done()
        return await self._command(caller, session_id, commands.Cancel(item_id=item_id))

    async def send_now(self, caller: Caller, session_id: str, item_id: str) -> Done:
        """Have a waiting message go first, and interrupt the running turn for it."""
        caller.require(Scope.WRITE)
        namespace, command = caller.namespace, commands.SendNow(item_id=item_id)
        prioritized = await self._store.prioritize_item(namespace, session_id, item_id)
        where = (namespace, prioritized.machine_id, session_id)
        if not prioritized.claimed:
            self._dispatch.kick(*where)
            return Done()
        try:
            await self._machines.call(*where, command)
        except NotFound:
            # It is on its way there: over this link, or over the next one because the last one broke.
            prioritized = await self._store.prioritize_item(namespace, session_id, item_id, ignore_claim=True)
            await self._dispatch.drain(*where)
            with nullcontext() if prioritized.claimed else suppress(NotFound, Conflict):
                await self._machines.call(*where, command)
        return Done()

    async def _halt(self, caller: Caller, session_id: str, command: commands.Abort | commands.Stop) -> Done:
        """Behind what was sent before it, which would go on after it otherwise; a hung agent does not hold it up."""
        caller.require(Scope.WRITE)
        row = await self._store.get_session(caller.namespace, session_id)
        if row.accepted:
            await self._dispatch.drain(caller.namespace, row.machine_id, session_id, _HALT_SECONDS)
        await self._machines.call(caller.namespace, row.machine_id, session_id, command)
        return Done()

    async def _command(self, caller: Caller, session_id: str, command: commands.Command) -> Done:
        caller.require(Scope.WRITE)
        row = await self._store.get_session(caller.namespace, session_id)
        await self._machines.call(caller.namespace, row.machine_id, session_id, command)
        return Done()


def _check_limit(limit: int, most: int) -> None:
    if not 1 <= limit <= most:
        raise BadRequest(f"limit must be between 1 and {most}")


def _parse_place(cursor: str) -> tuple[int, str]:
    updated_at, _, id = cursor.partition("_")
    if not (updated_at.isascii() and updated_at.isdigit() and len(updated_at) <= 18 and is_uuid(id)):
        raise BadRequest("this cursor is not one of ours")
    return int(updated_at), id


def _attachment(new: NewAttachment) -> Attachment:
    try:
        size = len(base64.b64decode(new.data, validate=True))
    except (binascii.Error, ValueError):
        raise BadRequest(f"attachment {new.name!r} is not valid base64") from None
    return new.attachment(size)
