"""Messages: the log of a session, what people add to it, and the queue in between."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from farsteer.core.api import (
    MAX_BODY,
    ClearMessages,
    Done,
    MessageAccepted,
    MessagesCleared,
    MessagesResponse,
    QueueResponse,
    RequestBody,
    SendMessage,
)
from farsteer.faces.rest.endpoint import AnyEndpoint, Call, Endpoint, Nothing
from farsteer.hub import Scope

Seq = Annotated[int, Meta(ge=0, le=2**53)]


class MessagesQuery(RequestBody):
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    before_seq: Seq | None = None
    after_seq: Seq | None = None


async def list_messages(call: Call[None, MessagesQuery]) -> bytes:
    query = call.query
    return await call.hub.sessions.messages(
        call.caller,
        call.id("sessionId"),
        limit=query.limit,
        before_seq=query.before_seq,
        after_seq=query.after_seq,
    )


async def send_message(call: Call[SendMessage, None]) -> MessageAccepted:
    return await call.hub.sessions.send(call.caller, call.id("sessionId"), call.body)


async def clear_messages(call: Call[ClearMessages, None]) -> MessagesCleared:
    return await call.hub.sessions.clear(call.caller, call.id("sessionId"), call.body)


async def list_queue(call: Call[None, None]) -> QueueResponse:
    return await call.hub.sessions.queue(call.caller, call.id("sessionId"))


async def cancel_message(call: Call[None, None]) -> Done:
    return await call.hub.sessions.cancel(call.caller, call.id("sessionId"), call.id("itemId"))


async def send_message_now(call: Call[Nothing, None]) -> Done:
    return await call.hub.sessions.send_now(call.caller, call.id("sessionId"), call.id("itemId"))


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/sessions/{sessionId}/messages", handler=list_messages, scope=Scope.READ,
        query=MessagesQuery, response=MessagesResponse,
        tag="Messages", summary="Read messages",
        description="The newest ones, or those before or after a `seq`; always oldest first.",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/messages", handler=send_message, scope=Scope.WRITE,
        body=SendMessage, max_body=MAX_BODY, response=MessageAccepted, status=202, errors=(409, 422),
        tag="Messages", summary="Send a message",
        description="Stored before it is answered; it ends as delivered, cancelled, failed or unknown. "
        "The same `localId` again is the same message. Attachments are base64. `delivery`: `queue` waits its turn, "
        "`now` goes first and interrupts the running turn, `steer` goes into the running turn where the agent can "
        "(else 422 `not_capable`).",
        example={"text": "fix the failing test", "localId": "1"},
    ),
    Endpoint(
        method="DELETE", path="/api/sessions/{sessionId}/messages", handler=clear_messages, scope=Scope.WRITE,
        body=ClearMessages, body_optional=True, response=MessagesCleared,
        tag="Messages", summary="Clear the visible history",
        example={"keepCount": 30},
    ),
    Endpoint(
        method="GET", path="/api/sessions/{sessionId}/queue", handler=list_queue, scope=Scope.READ,
        response=QueueResponse,
        tag="Messages", summary="List messages on their way to the agent",
    ),
    Endpoint(
        method="DELETE", path="/api/sessions/{sessionId}/queue/{itemId}", handler=cancel_message,
        scope=Scope.WRITE, response=Done, errors=(409, 503),
        tag="Messages", summary="Take a message back",
        description="409 once the agent has it.",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/queue/{itemId}/send-now", handler=send_message_now,
        scope=Scope.WRITE, body=Nothing, body_optional=True, response=Done, errors=(409, 503),
        tag="Messages", summary="Send a waiting message next",
        description="It goes first, and the running turn is interrupted for it. 409 once the agent has it.",
    ),
)  # fmt: skip
