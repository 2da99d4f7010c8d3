"""The lines of `stream-jsonrpc`, from the side that answers: reading requests and answers, writing everything else."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from farsteer.core.wire import WireStruct, encode
from farsteer.faces.droid.dialect import Dialect
from farsteer.faces.droid.notes import SESSIONLESS, Note

API = "1.0.0"
NOTIFICATION = "droid.session_notification"
REQUEST_PERMISSION = "droid.request_permission"
ASK_USER = "droid.ask_user"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
NOT_FOUND = -32004

NOT_JSON = "Invalid JSON"
NOT_RPC = "Invalid JSON-RPC message"
NOT_UNDERSTOOD = "Invalid request format"
NO_SESSION = "No active session. Call initialize_session or load_session first."


class _Envelope(WireStruct):
    jsonrpc: Literal["2.0"]
    factory_api_version: Literal["1.0.0"]


class Request(_Envelope, tag_field="type", tag="request"):
    id: str
    method: str
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Failure(WireStruct):
    code: int = 0
    message: str = ""


class Answer(_Envelope, tag_field="type", tag="response"):
    """What the client says to a request of ours."""

    id: str | None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: Failure | None = None


class Message(_Envelope, tag_field="type", tag="notification"):
    """Nothing a client tells unasked means anything here."""

    method: str


class Unreadable(msgspec.Struct, frozen=True):
    """A line that is none of these, and what to answer."""

    message: str


Line = Request | Answer | Message

_decoder = msgspec.json.Decoder(Line)


def decode(line: bytes) -> Line | Unreadable:
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        return Unreadable(NOT_RPC if _is_json(line) else NOT_JSON)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Unreadable(NOT_JSON)


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


class Writing:
    """Makes lines in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._head: dict[str, Any] = {"jsonrpc": "2.0", "factoryApiVersion": API}
        if dialect.protocol is not None:
            self._head["factoryProtocolVersion"] = dialect.protocol

    def result(self, request_id: str, result: Any) -> bytes:
        return self._line(type="response", id=request_id, result=result)

    def error(self, request_id: str | None, code: int, message: str) -> bytes:
        return self._line(type="response", id=request_id, error={"code": code, "message": message})

    def request(self, request_id: str, method: str, params: Any) -> bytes:
        return self._line(type="request", method=method, id=request_id, params=params)

    def note(self, note: Note | dict[str, Any], session: str | None = None) -> bytes:
        params: dict[str, Any] = {"notification": note}
        if self._dialect.names_session and session is not None and not isinstance(note, SESSIONLESS):
            params = {"sessionId": session, **params}
        return self._line(type="notification", method=NOTIFICATION, params=params)

    def _line(self, **fields: Any) -> bytes:
        return encode({**self._head, **fields}) + b"\n"
