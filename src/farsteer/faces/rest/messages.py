"""Endpoints for messages: the log of a session, its queue of waiting messages, and its export."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import Annotated
from urllib.parse import quote

from msgspec import Meta
from starlette.responses import StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

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
from farsteer.core.errors import FarsteerError
from farsteer.faces.rest.endpoint import AnyEndpoint, EmptyBody, Endpoint, EndpointCall
from farsteer.hub import Scope
from farsteer.hub.services.exports import Export, ExportFormat
from farsteer.server.responses import DEFAULT_HEADERS

_logger = logging.getLogger(__name__)

_EXPORT_MEDIA_TYPES: dict[ExportFormat, str] = {
    "jsonl": "application/x-ndjson",
    "markdown": "text/markdown; charset=utf-8",
}

Seq = Annotated[int, Meta(ge=0, le=2**53)]


class ExportQuery(RequestBody):
    format: ExportFormat = "jsonl"


class MessagesQuery(RequestBody):
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    before_seq: Seq | None = None
    after_seq: Seq | None = None


async def list_messages(call: EndpointCall[None, MessagesQuery]) -> bytes:
    query = call.query
    return await call.hub.messages.list(
        call.caller,
        call.id("sessionId"),
        limit=query.limit,
        before_seq=query.before_seq,
        after_seq=query.after_seq,
    )


async def send_message(call: EndpointCall[SendMessage, None]) -> MessageAccepted:
    return await call.hub.messages.send(call.caller, call.id("sessionId"), call.body)


async def clear_messages(call: EndpointCall[ClearMessages, None]) -> MessagesCleared:
    return await call.hub.messages.clear(call.caller, call.id("sessionId"), call.body)


async def list_queue(call: EndpointCall[None, None]) -> QueueResponse:
    return await call.hub.messages.queue(call.caller, call.id("sessionId"))


async def cancel_message(call: EndpointCall[None, None]) -> Done:
    return await call.hub.messages.cancel(call.caller, call.id("sessionId"), call.id("itemId"))


async def send_message_now(call: EndpointCall[EmptyBody, None]) -> Done:
    return await call.hub.messages.send_now(call.caller, call.id("sessionId"), call.id("itemId"))


class _Download(StreamingResponse):
    """A streamed file. If it fails midway, the last chunk is missing, so that clients notice that it is incomplete."""

    def __init__(self, chunks: AsyncGenerator[bytes], headers: dict[str, str]) -> None:
        super().__init__(chunks, headers=headers)
        self._chunks = chunks

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._chunks.aclose()

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except FarsteerError as error:
            _logger.info("export failed midway: %s", error)


async def export_session(call: EndpointCall[None, ExportQuery]) -> StreamingResponse:
    export = await call.hub.exports.export(call.caller, call.id("sessionId"), call.query.format)
    chunks = _no_chunks() if call.request.method == "HEAD" else export.chunks
    headers = {
        **DEFAULT_HEADERS,
        "content-type": _EXPORT_MEDIA_TYPES[call.query.format],
        "content-disposition": _content_disposition(export),
    }
    return _Download(chunks, headers)


def _content_disposition(export: Export) -> str:
    value = f'attachment; filename="{export.ascii_filename}"'
    if export.filename != export.ascii_filename:
        value += f"; filename*=UTF-8''{quote(export.filename)}"
    return value


async def _no_chunks() -> AsyncGenerator[bytes]:
    return
    yield b""


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/sessions/{sessionId}/messages", handler=list_messages, scope=Scope.READ,
        query=MessagesQuery, response=MessagesResponse,
        tag="Messages", summary="List messages",
        description="Returns the newest messages, or those before `beforeSeq` or after `afterSeq`, always oldest "
        "first.",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/messages", handler=send_message, scope=Scope.WRITE,
        body=SendMessage, max_body=MAX_BODY, response=MessageAccepted, status=202, errors=(409, 422),
        tag="Messages", summary="Send a message",
        description="The message is stored before the response is sent. It ends as delivered, cancelled, failed "
        "or unknown. A repeated request with the same `localId` refers to the same message. Attachments are "
        "base64. `delivery`: `queue` waits for earlier messages, `now` is sent first and interrupts the running "
        "turn, `steer` is added to the running turn if the agent is capable of it (otherwise 422 `not_capable`).",
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
        tag="Messages", summary="List queued messages",
    ),
    Endpoint(
        method="DELETE", path="/api/sessions/{sessionId}/queue/{itemId}", handler=cancel_message,
        scope=Scope.WRITE, response=Done, errors=(409, 503),
        tag="Messages", summary="Cancel a queued message",
        description="409 if the agent already has it.",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/queue/{itemId}/send-now", handler=send_message_now,
        scope=Scope.WRITE, body=EmptyBody, body_optional=True, response=Done, errors=(409, 503),
        tag="Messages", summary="Send a queued message now",
        description="The message is sent before all others, and the running turn is interrupted. 409 if the agent "
        "already has it.",
    ),
    Endpoint(
        method="GET", path="/api/sessions/{sessionId}/export", handler=export_session, scope=Scope.READ,
        query=ExportQuery, response=None,
        media_type="application/x-ndjson", other_media_types=("text/markdown",),
        tag="Messages", summary="Export a session",
        description="Downloads the visible part of the session. `jsonl`: a line with `format`, `version` and "
        "`session`, then one line for each message as in `GET .../messages`. `markdown`: a readable page. "
        "Attachments are listed by name, their content is not included.",
    ),
)  # fmt: skip
