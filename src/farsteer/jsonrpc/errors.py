"""Errors as JSON-RPC has them."""

from __future__ import annotations

from typing import Any

from farsteer.core.errors import (
    AgentError,
    BadRequest,
    ErrorCode,
    FarsteerError,
    Forbidden,
    NotFound,
    Unauthorized,
    Unprocessable,
)

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002
CANCELLED = -32800


class RpcError(Exception):
    """What a request is answered with, or was."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        return body if self.data is None else {**body, "data": self.data}


class Disconnected(RpcError):
    """The other end is gone; there will be no answer."""

    def __init__(self) -> None:
        super().__init__(INTERNAL_ERROR, "the other end is gone")


def unknown_method(method: str) -> RpcError:
    return RpcError(METHOD_NOT_FOUND, f"there is no method {method!r}", {"method": method})


def rpc_error(error: FarsteerError) -> RpcError:
    """One of ours, for the other end. Its stable code travels along."""
    match error:
        case Unauthorized() | Forbidden():
            code = AUTH_REQUIRED
        case NotFound():
            code = RESOURCE_NOT_FOUND
        case AgentError():
            code = INTERNAL_ERROR
        case BadRequest() | Unprocessable():
            code = INVALID_PARAMS
        case _:
            code = INTERNAL_ERROR
    details = {} if error.code is ErrorCode.INTERNAL else error.details
    return RpcError(code, error.message, {**details, "code": error.code.value})
