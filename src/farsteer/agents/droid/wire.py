"""The lines of Droid's `stream-jsonrpc`, typed, and read in one decode each.

A line with exactly the known fields takes the fast road. Anything else gets a second look, which keeps a notification
of an unknown kind whole and an unknown field of a known one in `extra`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farsteer.agents.droid.notes import Known, Note
from farsteer.core.wire import WireStruct, encode

REQUEST_PERMISSION = "droid.request_permission"
ASK_USER = "droid.ask_user"

_ENVELOPE = {"jsonrpc": "2.0", "factoryApiVersion": "1.0.0"}
_HEAD = 400


class Params(WireStruct):
    notification: Known
    session_id: str | None = None


class Notification(WireStruct, tag_field="type", tag="notification"):
    params: Params
    factory_protocol_version: str | None = None


class Request(WireStruct, tag_field="type", tag="request"):
    """Something Droid wants answered."""

    id: str | int
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")


class Failure(WireStruct):
    code: int = 0
    message: str = ""
    data: Any = None


class Response(WireStruct, tag_field="type", tag="response"):
    id: str | int | None = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: Failure | None = None
    factory_protocol_version: str | None = None


class Unknown(msgspec.Struct, frozen=True):
    """A notification of a kind we have no word for, or one whose fields are not what they were."""

    kind: str
    data: Any
    session_id: str | None = None


class Garbage(msgspec.Struct, frozen=True):
    """A line that is no line of this protocol."""

    text: str


Line = Notification | Request | Response | Unknown | Garbage

_decoder = msgspec.json.Decoder(Notification | Request | Response)
_KINDS: dict[str, type[Note]] = {str(kind.__struct_config__.tag): kind for kind in Known.__args__}


def decode(line: bytes) -> Line:
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _second_look(line)


def request(request_id: str, method: str, params: dict[str, Any]) -> bytes:
    envelope = {
        **_ENVELOPE,
        "type": "request",
        "id": request_id,
        "method": f"droid.{method}",
        "params": params,
    }
    return encode(envelope) + b"\n"


def response(request_id: str | int, result: dict[str, Any]) -> bytes:
    return encode({**_ENVELOPE, "type": "response", "id": request_id, "result": result}) + b"\n"


def refusal(request_id: str | int, code: int, message: str) -> bytes:
    """An error response. Droid knows JSON-RPC's own codes only and takes no other."""
    error = {"code": code, "message": message}
    return encode({**_ENVELOPE, "type": "response", "id": request_id, "error": error}) + b"\n"


def _second_look(line: bytes) -> Line:
    garbage = Garbage(line[:_HEAD].decode(errors="replace"))
    try:
        raw = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return garbage
    method = raw.get("method")
    if raw.get("type") == "response" or (method is None and ("result" in raw or "error" in raw)):
        return _response(raw) or garbage
    if not isinstance(method, str):
        return garbage
    if raw.get("type") == "request" or "id" in raw:
        known_id = isinstance(raw.get("id"), str | int)
        return (
            Request(id=raw["id"], method=method, params=_raw(raw.get("params", {}))) if known_id else garbage
        )
    return _notification(method, raw)


def _response(raw: dict[str, Any]) -> Response | None:
    """Also one without its type, or whose error is not an object."""
    error = raw.get("error")
    if error is not None and not isinstance(error, dict):
        error = {"message": str(error)}
    try:
        failure = None if error is None else msgspec.convert(error, Failure, strict=False)
        given = msgspec.convert(raw.get("id"), str | int | None)
    except msgspec.ValidationError:
        return None
    return Response(id=given, result=_raw(raw.get("result")), error=failure)


def _notification(method: str, raw: dict[str, Any]) -> Notification | Unknown:
    params: dict[str, Any] = raw["params"] if isinstance(raw.get("params"), dict) else {}
    data: dict[str, Any] = params["notification"] if isinstance(params.get("notification"), dict) else {}
    session = params.get("sessionId")
    session = session if isinstance(session, str) else None
    if not isinstance(data.get("type"), str):
        return Unknown(method, raw.get("params"), session)
    kind = _KINDS.get(data["type"])
    if kind is None:
        return Unknown(data["type"], data, session)
    known = {"type", *kind.__struct_encode_fields__} - {"extra"}
    strange = {name: value for name, value in data.items() if name not in known}
    fields = {name: value for name, value in data.items() if name in known}
    try:
        note: Any = msgspec.convert({**fields, "extra": strange or None}, kind)
    except msgspec.ValidationError:
        return Unknown(data["type"], data, session)
    version = raw.get("factoryProtocolVersion")
    return Notification(
        params=Params(notification=note, session_id=session),
        factory_protocol_version=version if isinstance(version, str) else None,
    )


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(encode(value))
