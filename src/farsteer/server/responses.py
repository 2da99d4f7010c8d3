"""HTTP responses: JSON bodies, error bodies, and the headers that every response carries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from farsteer.core.api import ErrorBody, ErrorResponse
from farsteer.core.errors import FarsteerError
from farsteer.core.wire import encode

WHOLE_RESPONSE = "farsteer.response"
"""An ASGI message with status, headers and body, for servers that name it in the `extensions` of the scope."""

DEFAULT_HEADERS = {
    "content-type": "application/json",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


_DEFAULT_FIELDS = [(name.encode(), value.encode()) for name, value in DEFAULT_HEADERS.items()]


class WholeResponse(Response):
    """A response that is sent in one piece, head and body together, where the server can do that."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if WHOLE_RESPONSE not in scope.get("extensions", ()):
            await super().__call__(scope, receive, send)
            return
        await send(
            {
                "type": WHOLE_RESPONSE,
                "status": self.status_code,
                "headers": self.raw_headers,
                "body": self.body,
            }
        )

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        if headers is None:
            length = b"%d" % len(self.body)
            self.raw_headers = [*_DEFAULT_FIELDS, (b"content-length", length)]
        else:
            super().init_headers({**DEFAULT_HEADERS, **headers})


def make_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with `body` encoded as JSON.

    Bytes are sent as they are: they are JSON already, or of the content type given in `headers`.
    """
    content = body if isinstance(body, bytes) else encode(body)
    return WholeResponse(content, status, headers or None)


def error_body(error: FarsteerError) -> ErrorResponse:
    return ErrorResponse(
        error=ErrorBody(code=error.code, message=error.message, details=error.details or None)
    )


def error_response(error: FarsteerError) -> Response:
    return make_response(error_body(error), error.status, error_headers(error))


def encode_error(error: FarsteerError) -> bytes:
    """Return the bytes of a whole HTTP response, for a request that no application sees. It closes the connection."""
    body = encode(error_body(error))
    closing = [(b"connection", b"close"), (b"content-length", b"%d" % len(body))]
    return encode_response(error.status, [*_DEFAULT_FIELDS, *closing], body)


def encode_response(status: int, fields: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes:
    """Return the bytes of a whole HTTP/1.1 response."""
    head = b"".join([b"%b: %b\r\n" % field for field in fields])
    return b"%b%b\r\n%b" % (_status_line(status), head, body)


@cache
def _status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()


def error_headers(error: FarsteerError) -> dict[str, str]:
    """Return the headers that HTTP requires for the status of an error."""
    match error.status:
        case 401:
            return {"www-authenticate": "Bearer"}
        case 405:
            return {"allow": ", ".join(error.details.get("allow", ()))}
        case 429 if "retryAfter" in error.details:
            return {"retry-after": str(error.details["retryAfter"])}
        case _:
            return {}
