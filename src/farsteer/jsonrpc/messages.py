"""Decoding of JSON-RPC messages. Parameters and results stay plain JSON values, so unknown fields are kept."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import msgspec

from farsteer.core.lines import Line, Oversized
from farsteer.jsonrpc.errors import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, RpcError

RequestId = str | int | float | None
"""JSON-RPC discourages null as a request id but allows it, so such requests are answered too."""
_QUOTED_BYTES = 200
"""How much of a line that is not JSON is sent back with the error."""


class RpcRequest(NamedTuple):
    id: RequestId
    method: str
    params: Any


class RpcNotification(NamedTuple):
    method: str
    params: Any


class RpcResponse(NamedTuple):
    id: RequestId
    result: Any
    error: RpcError | None


class InvalidMessage(NamedTuple):
    """Something that is not a JSON-RPC message, and the error to answer it with. `id` is None if it has no valid id."""

    id: RequestId
    error: RpcError


RpcMessage = RpcRequest | RpcNotification | RpcResponse | InvalidMessage


def as_object(value: Any) -> dict[str, Any] | None:
    """Return `value` if it is a JSON object, else None."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


_decoder = msgspec.json.Decoder()


def decode_line(line: Line) -> list[RpcMessage]:
    """Return the message of a line, or the messages of a batch. Never raises."""
    if isinstance(line, Oversized):
        return [_invalid(None, f"a line of {line.size} bytes is too long")]
    try:
        value = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        quoted = line[:_QUOTED_BYTES].decode(errors="replace")
        return [InvalidMessage(None, RpcError(PARSE_ERROR, "not valid JSON", {"line": quoted}))]
    if isinstance(value, list) and value:
        return [_to_message(element) for element in cast("list[Any]", value)]
    return [_to_message(value)]


def _to_message(value: Any) -> RpcMessage:
    message = as_object(value)
    if message is None:
        return _invalid(None, "a message must be an object")
    id = message.get("id")
    if isinstance(id, bool) or not isinstance(id, str | int | float | None):
        return _invalid(None, "an id must be a string or a number")
    if "method" not in message:
        return _to_response(message, id)
    method, params = message["method"], message.get("params")
    if not isinstance(method, str):
        return _invalid(id, "a method must be a string")
    return RpcRequest(id, method, params) if "id" in message else RpcNotification(method, params)


def _to_response(message: dict[str, Any], id: RequestId) -> RpcMessage:
    if "id" not in message or not ("result" in message or "error" in message):
        return _invalid(id, "neither a request nor a response")
    if message.get("error") is None:
        return RpcResponse(id, message.get("result"), None)
    error = as_object(message["error"])
    if error is None:
        return RpcResponse(id, None, RpcError(INTERNAL_ERROR, str(message["error"])))
    code = error.get("code")
    if not isinstance(code, int):
        code = INTERNAL_ERROR
    return RpcResponse(id, None, RpcError(code, str(error.get("message") or ""), error.get("data")))


def _invalid(id: RequestId, reason: str) -> InvalidMessage:
    return InvalidMessage(id, RpcError(INVALID_REQUEST, reason))
