"""Turns an error answer of a hub into the exception it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from farsteer.core.api import LogLineView
from farsteer.core.errors import ErrorCode, ErrorRecord, FarsteerError

_CODES_BY_STATUS = {
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


def hub_error(
    status: int,
    message: str,
    *,
    code: object = None,
    details: dict[str, Any] | None = None,
    logs: Sequence[LogLineView] = (),
) -> FarsteerError:
    """Return the exception for an error answer.

    Args:
        status: The HTTP status. It decides the class of the error if this version does not know `code`.
        message: What went wrong.
        code: The error code, as received.
        details: Further fields of the error.
        logs: The steps of a session creation that failed. The code of the last step that has one is used if `code`
            is not given.
    """
    all_details = dict(details or {})
    if logs:
        all_details["logs"] = list(logs)
    given = code or next((line.code for line in reversed(logs) if line.code), None)
    return ErrorRecord(_known_code(given, status), message, status, all_details or None).to_error()


def _known_code(code: object, status: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        # A newer hub may have codes that this version does not know.
        return _CODES_BY_STATUS.get(status, ErrorCode.INTERNAL)
