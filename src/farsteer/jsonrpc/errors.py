"""JSON-RPC errors: every code that ACP and Droid use, and the exceptions that carry them."""

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

# JSON-RPC 2.0
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

# Agent Client Protocol
AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002
REQUEST_CANCELLED = -32800

# Droid's stream-jsonrpc
SESSION_NOT_FOUND = -32004
DISCONNECTED = -32005


class RpcError(Exception):
    """An error response, received or to be sent.

    A handler raises it to refuse a request; `Peer.request` raises it when the other side refuses one.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    @property
    def body(self) -> dict[str, Any]:
        """The `error` member of the response."""
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        return body if self.data is None else {**body, "data": self.data}


class PeerDisconnected(RpcError):
    """The connection closed before the response arrived."""

    def __init__(self) -> None:
        super().__init__(INTERNAL_ERROR, "the connection is closed")


def unknown_method(method: str) -> RpcError:
    return RpcError(METHOD_NOT_FOUND, f"unknown method {method!r}", {"method": method})


def request_cancelled() -> RpcError:
    return RpcError(REQUEST_CANCELLED, "the request was cancelled")


def rpc_error(error: FarsteerError) -> RpcError:
    """Translate a Farsteer error. `data.code` is its stable code; details of internal errors are left out."""
    match error:
        case Unauthorized() | Forbidden():
            code = AUTH_REQUIRED
        case NotFound():
            code = RESOURCE_NOT_FOUND
        case AgentError():  # a subclass of Unprocessable, but not the caller's fault
            code = INTERNAL_ERROR
        case BadRequest() | Unprocessable():
            code = INVALID_PARAMS
        case _:
            code = INTERNAL_ERROR
    details = {} if error.code is ErrorCode.INTERNAL else error.details
    return RpcError(code, error.message, {**details, "code": error.code.value})
