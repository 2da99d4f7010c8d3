"""What one line holds. Parameters and results stay as they are: nothing that we have no word for is lost."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import msgspec

from farsteer.core.lines import Line, Oversized
from farsteer.jsonrpc.errors import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, RpcError

Id = str | int | float | None
"""A request's name. Nobody should use null, and it is answered all the same."""
_SHOWN = 200


class Request(NamedTuple):
    id: Id
    method: str
    params: Any


class Notification(NamedTuple):
    method: str
    params: Any


class Answer(NamedTuple):
    id: Id
    result: Any
    error: RpcError | None


class Malformed(NamedTuple):
    """What is no message; the sender is told, where it can be known that it waits."""

    id: Id
    error: RpcError


Message = Request | Notification | Answer | Malformed


def fields(value: Any) -> dict[str, Any] | None:
    """The value as an object, if it is one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


_decoder = msgspec.json.Decoder()


def read(line: Line) -> list[Message]:
    """The messages of a line: one, or those of a batch."""
    if isinstance(line, Oversized):
        return [Malformed(None, RpcError(INVALID_REQUEST, f"a line of {line.size} bytes is too long"))]
    try:
        found = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        shown = line[:_SHOWN].decode(errors="replace")
        return [Malformed(None, RpcError(PARSE_ERROR, "this is no JSON", {"line": shown}))]
    if isinstance(found, list) and found:
        return [_message(one) for one in cast("list[Any]", found)]
    return [_message(found)]


def _message(value: Any) -> Message:
    found = fields(value)
    if found is None:
        return Malformed(None, RpcError(INVALID_REQUEST, "a message is an object"))
    given = found.get("id")
    id = given if isinstance(given, str | int | float) and not isinstance(given, bool) else None
    if "id" in found and given is not None and id is None:
        return Malformed(None, RpcError(INVALID_REQUEST, "an id is a string or a number"))
    if "method" not in found:
        return _answer(found, id)
    method, params = found["method"], found.get("params")
    if not isinstance(method, str):
        return Malformed(id, RpcError(INVALID_REQUEST, "a method is a string"))
    return Request(id, method, params) if "id" in found else Notification(method, params)


def _answer(found: dict[str, Any], id: Id) -> Message:
    if "id" not in found or not ("result" in found or "error" in found):
        return Malformed(id, RpcError(INVALID_REQUEST, "neither a request nor an answer"))
    if found.get("error") is None:
        return Answer(id, found.get("result"), None)
    error = fields(found["error"])
    if error is None:
        return Answer(id, None, RpcError(INTERNAL_ERROR, str(found["error"])))
    code = error.get("code")
    known = code if isinstance(code, int) else INTERNAL_ERROR
    return Answer(id, None, RpcError(known, str(error.get("message") or ""), error.get("data")))
