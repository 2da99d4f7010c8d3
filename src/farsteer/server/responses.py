"""HTTP responses: JSON bodies, error bodies, and the headers that every response carries."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from farsteer.core.api import ErrorBody, ErrorResponse
from farsteer.core.errors import FarsteerError
from farsteer.core.wire import encode

DEFAULT_HEADERS = {
    "content-type": "application/json",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


def make_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with `body` encoded as JSON.

    Bytes are sent as they are: they are JSON already, or of the content type given in `headers`.
    """
    content = body if isinstance(body, bytes) else encode(body)
    return Response(content, status, {**DEFAULT_HEADERS, **headers} if headers else DEFAULT_HEADERS)


def error_body(error: FarsteerError) -> ErrorResponse:
    return ErrorResponse(
        error=ErrorBody(code=error.code, message=error.message, details=error.details or None)
    )


def error_response(error: FarsteerError) -> Response:
    return make_response(error_body(error), error.status, error_headers(error))


def encode_error(error: FarsteerError) -> bytes:
    """Return the bytes of a whole HTTP response, for a request that no application sees. It closes the connection."""
    body = encode(error_body(error))
    headers = {**DEFAULT_HEADERS, "connection": "close", "content-length": str(len(body))}
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n{fields}\r\n".encode() + body


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
