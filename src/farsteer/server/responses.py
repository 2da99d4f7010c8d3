"""HTTP answers: JSON encoded once, errors in their one shape, and the headers every answer carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from farsteer.core.api import ErrorBody, ErrorResponse
from farsteer.core.errors import FarsteerError
from farsteer.core.wire import encode

HEADERS = {
    "content-type": "application/json",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


def reply(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`body` as JSON; bytes are JSON already, or what `headers` say they are."""
    content = body if isinstance(body, bytes) else encode(body)
    return Response(content, status, {**HEADERS, **headers} if headers else HEADERS)


def error_body(error: FarsteerError) -> ErrorResponse:
    return ErrorResponse(
        error=ErrorBody(code=error.code, message=error.message, details=error.details or None)
    )


def error_reply(error: FarsteerError) -> Response:
    return reply(error_body(error), error.status, error_headers(error))


def error_headers(error: FarsteerError) -> dict[str, str]:
    """What HTTP wants beside the body of an error."""
    match error.status:
        case 401:
            return {"www-authenticate": "Bearer"}
        case 405:
            return {"allow": ", ".join(error.details.get("allow", ()))}
        case 429 if "retryAfter" in error.details:
            return {"retry-after": str(error.details["retryAfter"])}
        case _:
            return {}
