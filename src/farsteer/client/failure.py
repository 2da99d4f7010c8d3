"""A hub's failure as the exception it meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from farsteer.core.api import LogLineView
from farsteer.core.errors import ErrorCode, ErrorRecord, FarsteerError

_GENERAL_CODES = {
    400: ErrorCode.BAD_REQUEST,
    401: ErrorCode.UNAUTHORIZED,
    403: ErrorCode.FORBIDDEN,
    404: ErrorCode.NOT_FOUND,
    409: ErrorCode.CONFLICT,
    413: ErrorCode.TOO_LARGE,
    422: ErrorCode.BAD_REQUEST,
    429: ErrorCode.RATE_LIMITED,
    503: ErrorCode.UNAVAILABLE,
}


def failure(
    status: int,
    message: str,
    *,
    code: object = None,
    details: dict[str, Any] | None = None,
    logs: Sequence[LogLineView] = (),
) -> FarsteerError:
    """`logs` are the steps of a session that was not created; the last one with a code says which error it was."""
    found = dict(details or {})
    if logs:
        found["logs"] = list(logs)
    named = code or next((line.code for line in reversed(logs) if line.code), None)
    return ErrorRecord(_code(named, status), message, status, found or None).to_error()


def _code(text: object, status: int) -> ErrorCode:
    """A code of a newer hub is told by its status."""
    try:
        return ErrorCode(text)
    except ValueError:
        return _GENERAL_CODES.get(status, ErrorCode.INTERNAL)
