"""Messages of a session: reading its log, sending messages, and changing those that wait."""

from __future__ import annotations

import asyncio
import base64
from contextlib import nullcontext, suppress

from farsteer.core import commands
from farsteer.core.api import (
    ClearMessages,
    Done,
    MessageAccepted,
    MessagesCleared,
    NewAttachment,
    Page,
    QueueResponse,
    SendMessage,
)
from farsteer.core.clock import now_ms
from farsteer.core.errors import BadRequest, Conflict, FarsteerError, NotCapable, NotFound
from farsteer.core.ids import new_id
from farsteer.core.queue import Attachment, Delivery, ItemState, QueueItem
from farsteer.core.wire import encode
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.link.machine_links import CALL_SECONDS, MachineLinks
from farsteer.hub.metrics import Metrics
from farsteer.hub.services.delivery import MessageDelivery
from farsteer.hub.services.machines import Machines
from farsteer.hub.services.outcomes import OutcomeReports
from farsteer.hub.store.base import AcceptedItem, Store

MAX_MESSAGES = 200
_DECODED_CHARS = 1024 * 1024
"""How much base64 is decoded at a time: a multiple of four."""


class Messages:
    def __init__(
        self, store: Store, machines: Machines, links: MachineLinks, delivery: MessageDelivery,
        outcomes: OutcomeReports, metrics: Metrics,
    ) -> None:  # fmt: skip
        self._store = store
        self._machines = machines
        self._links = links
        self._delivery = delivery
        self._outcomes = outcomes
        self._metrics = metrics

    async def list(
        self,
        caller: Caller,
        session_id: str,
        *,
        limit: int = 50,
        before_seq: int | None = None,
        after_seq: int | None = None,
    ) -> bytes:
        """Return the JSON of a `MessagesResponse`, joined from stored bytes. The oldest message comes first."""
        caller.require(Scope.READ)
        if not 1 <= limit <= MAX_MESSAGES:
            raise BadRequest(f"limit must be between 1 and {MAX_MESSAGES}")
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

    async def clear(self, caller: Caller, session_id: str, request: ClearMessages) -> MessagesCleared:
        """Hide all but the newest messages."""
        caller.require(Scope.WRITE)
        return await self._store.clear_messages(caller.namespace, session_id, request.keep_count)

    async def send(self, caller: Caller, session_id: str, request: SendMessage) -> MessageAccepted:
        """Store a message and start its delivery. From then on it has an outcome.

        Raises NotCapable for `delivery: steer` if the agent takes no message into a running turn.
        """
        caller.require(Scope.WRITE)
        if request.delivery is Delivery.STEER:
            session = await self._store.get_session(caller.namespace, session_id)
            if not (await self._machines.capabilities(session)).steer:
                raise NotCapable("this agent takes no message into a running turn")
        item = QueueItem(
            id=new_id(),
            text=request.text,
            created_at=now_ms(),
            local_id=request.local_id,
            attachments=tuple([await _check_attachment(attachment) for attachment in request.attachments]),
            sent_from=caller.name,
            identity=caller.identity,
            delivery=request.delivery,
        )
        accepted = await self._accept(caller.namespace, session_id, item)
        if not accepted.repeated:
            self._metrics.messages_accepted += 1
            self._delivery.offer(caller.namespace, session_id, accepted, item)
        elif accepted.item.state is ItemState.ACCEPTED:
            self._delivery.start(caller.namespace, accepted.machine_id, session_id, again=True)
        return MessageAccepted(
            id=accepted.item.id,
            local_id=accepted.item.local_id,
            state=accepted.item.state,
            position=accepted.position,
        )

    async def _accept(self, namespace: str, session_id: str, item: QueueItem) -> AcceptedItem:
        claim = self._delivery.claim_for(namespace, session_id)
        try:
            return await self._store.accept_item(namespace, session_id, item, claim)
        except BaseException as error:
            # A failed write, or a sender that has gone: it may be stored all the same.
            if not isinstance(error, FarsteerError) or error.status >= 500:
                self._delivery.check(namespace, session_id)
            raise

    async def queue(self, caller: Caller, session_id: str) -> QueueResponse:
        """Return the messages that the agent does not have yet."""
        caller.require(Scope.READ)
        return QueueResponse(items=[*await self._store.read_queue(caller.namespace, session_id)])

    async def cancel(self, caller: Caller, session_id: str, item_id: str) -> Done:
        """Cancel a waiting message. If the runner may have it, the runner cancels it.

        Raises NotFound, Conflict if the agent has it or it has another outcome, and MachineOffline.
        """
        caller.require(Scope.WRITE)
        namespace, command = caller.namespace, commands.Cancel(item_id=item_id)
        is_cancelled = await self._store.cancel_item(namespace, session_id, item_id)
        row = await self._store.get_session(namespace, session_id)
        if is_cancelled:
            self._outcomes.start(namespace, row.machine_id)
            return Done()
        address = (namespace, row.machine_id, session_id)
        try:
            reply = await self._links.call(*address, command)
        except NotFound:
            # A runner of an earlier version does not know it: it is on its way there, or it has an outcome by now.
            await self._delivery.deliver(*address, CALL_SECONDS)
            if not await self._store.cancel_item(namespace, session_id, item_id):
                await self._links.call(*address, command)
        except Conflict as error:
            await self._outcomes.record(*address, item_id, {"outcome": error.details.get("state")})
            raise
        else:
            await self._outcomes.record(*address, item_id, reply.result)
        return Done()

    async def send_now(self, caller: Caller, session_id: str, item_id: str) -> Done:
        """Put a waiting message first and interrupt the running turn for it. Raises as `cancel` does."""
        caller.require(Scope.WRITE)
        namespace, command = caller.namespace, commands.SendNow(item_id=item_id)
        prioritized = await self._store.prioritize_item(namespace, session_id, item_id)
        address = (namespace, prioritized.machine_id, session_id)
        if not prioritized.claimed:
            self._delivery.start(*address)
            return Done()
        try:
            await self._links.call(*address, command)
        except NotFound:
            # It was claimed and the runner does not have it: the call is under way, or the link broke.
            prioritized = await self._store.prioritize_item(namespace, session_id, item_id, ignore_claim=True)
            await self._delivery.deliver(*address, CALL_SECONDS)
            with nullcontext() if prioritized.claimed else suppress(NotFound, Conflict):
                await self._links.call(*address, command)
        return Done()


async def _check_attachment(new: NewAttachment) -> Attachment:
    try:
        size = await _decoded_size(new.data)
    except ValueError:
        raise BadRequest(f"attachment {new.name!r} is not valid base64") from None
    return new.attachment(size)


async def _decoded_size(data: str) -> int:
    """Raises ValueError if the data is not base64. Other tasks run while much of it is decoded."""
    size = 0
    for start in range(0, len(data), _DECODED_CHARS):
        if start:
            await asyncio.sleep(0)
        piece = data[start : start + _DECODED_CHARS]
        if start + _DECODED_CHARS < len(data) and piece.endswith("="):
            raise ValueError("padding before the end")
        size += len(base64.b64decode(piece, validate=True))
    return size
