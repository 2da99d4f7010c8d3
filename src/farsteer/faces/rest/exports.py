"""Exports: a session as a file."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator

from starlette.responses import StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from farsteer.core.api import RequestBody
from farsteer.core.errors import FarsteerError
from farsteer.faces.rest.endpoint import AnyEndpoint, Call, Endpoint
from farsteer.hub import Scope
from farsteer.hub.services.exports import Export, ExportFormat
from farsteer.server.responses import HEADERS

_log = logging.getLogger(__name__)


class ExportQuery(RequestBody):
    format: ExportFormat = "jsonl"


class _Download(StreamingResponse):
    """One that fails on the way ends without its last chunk, so that nobody takes it for whole."""

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
            _log.info("an export ended early: %s", error)


async def export_session(call: Call[None, ExportQuery]) -> StreamingResponse:
    export = await call.hub.exports.export(call.caller, call.id("sessionId"), call.query.format)
    chunks = _nothing() if call.request.method == "HEAD" else export.chunks
    return _Download(chunks, _headers(export))


def _headers(export: Export) -> dict[str, str]:
    return {**HEADERS, "content-type": export.media_type, "content-disposition": export.disposition}


async def _nothing() -> AsyncGenerator[bytes]:
    return
    yield b""


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/sessions/{sessionId}/export", handler=export_session, scope=Scope.READ,
        query=ExportQuery, response=None,
        media_type="application/x-ndjson", other_media_types=("text/markdown",),
        tag="Messages", summary="Export a session",
        description="What is visible of it now, as a download. `jsonl`: first a line with `format`, `version` and the "
        "`session`, then each message as `GET .../messages` shows it. `markdown`: a page to read. Attachments are "
        "named, not included.",
    ),
)  # fmt: skip
