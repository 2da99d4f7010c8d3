"""Decoding of JSON-RPC messages. Parameters and results stay plain JSON values, so unknown fields are kept."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import msgspec

from farsteer.core.json_limits import JsonTooComplex
from farsteer.core.lines import Line, Oversized
from farsteer.core.wire import decode_with
from farsteer.jsonrpc.errors import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, RpcError
from farsteer.jsonrpc.input_check import check_input

RequestId = str | int | float | None
"""JSON-RPC discourages null as a request id but allows it, so such requests are answered too."""
MAX_BATCH = 100
"""How many messages one line may hold."""
_MAX_NAME_CHARS = 1000
"""How long an id or the name of a method may be. Both are repeated in responses."""
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
_batch_decoder = msgspec.json.Decoder(list[msgspec.Raw])


async def decode_line(line: Line) -> list[RpcMessage]:
    """Return the message of a line, or the messages of a batch. Never raises."""
    if isinstance(line, Oversized):
        return [_invalid(None, f"a line of {line.size} bytes is too long")]
    try:
        await check_input(line)
        return _decode(line)
    except JsonTooComplex as error:
        return [_invalid(None, str(error))]
    except msgspec.DecodeError:
        quoted = line[:_QUOTED_BYTES].decode(errors="replace")
        return [InvalidMessage(None, RpcError(PARSE_ERROR, "not valid JSON", {"line": quoted}))]


def _decode(line: bytes) -> list[RpcMessage]:
    """Raises msgspec.DecodeError."""
    if line.lstrip()[:1] != b"[":
        return [_to_message(decode_with(_decoder, line))]
    members = decode_with(_batch_decoder, line)
    if not members:
        return [_invalid(None, "a batch must not be empty")]
    if len(members) > MAX_BATCH:
        return [_invalid(None, f"a batch has at most {MAX_BATCH} messages, not {len(members)}")]
    return [_to_message(decode_with(_decoder, member)) for member in members]


def _to_message(value: Any) -> RpcMessage:
    message = as_object(value)
    if message is None:
        return _invalid(None, "a message must be an object")
    id = message.get("id")
    if isinstance(id, bool) or not isinstance(id, str | int | float | None):
        return _invalid(None, "an id must be a string or a number")
    if isinstance(id, str) and len(id) > _MAX_NAME_CHARS:
        return _invalid(None, f"an id must have at most {_MAX_NAME_CHARS} characters")
    if "method" not in message:
        return _to_response(message, id)
    method, params = message["method"], message.get("params")
    if not isinstance(method, str) or len(method) > _MAX_NAME_CHARS:
        return _invalid(id, f"a method must be a string of at most {_MAX_NAME_CHARS} characters")
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
