"""The lines of Droid's `stream-jsonrpc` from the client's side.

A line with exactly the known fields is decoded in one step. Any other line is decoded again: a notification of an
unknown kind is kept whole, and unknown fields of a known one are kept in `extra`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farsteer.core.droid import ENVELOPE, METHOD_PREFIX
from farsteer.core.wire import WireStruct, encode

_SHOWN_BYTES = 400
"""How much of an invalid line is shown."""

# -- messages and settings. Their content belongs to the model's provider, so unknown fields are ignored.


class Message(WireStruct):
    id: str
    role: str
    content: list[dict[str, Any]] = []
    visibility: str | None = None
    model_id: str | None = None


class ToolUse(WireStruct):
    id: str
    name: str
    input: dict[str, Any] = {}


class TokenUsage(WireStruct):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    thinking_tokens: int = 0


class Settings(WireStruct):
    model_id: str | None = None
    reasoning_effort: str | None = None
    interaction_mode: str | None = None
    autonomy_level: str | None = None
    autonomy_mode: str | None = None


# -- notifications. Unknown fields are rejected here, so that `decode_line` notices and keeps them.


class Notification(WireStruct, forbid_unknown_fields=True, tag_field="type", kw_only=True):
    """The payload of a `droid.session_notification`."""

    extra: dict[str, Any] | None = None
    """The unknown fields. Set by `decode_line`, not part of the protocol."""


class TextDelta(Notification, tag="assistant_text_delta"):
    message_id: str
    text_delta: str
    block_index: int = 0


class ThinkingDelta(Notification, tag="thinking_text_delta"):
    message_id: str
    text_delta: str
    block_index: int = 0


class TextComplete(Notification, tag="assistant_text_complete"):
    message_id: str
    block_index: int = 0


class ThinkingComplete(Notification, tag="thinking_text_complete"):
    message_id: str
    block_index: int = 0
    duration_ms: float | None = None


class CreateMessage(Notification, tag="create_message"):
    message: Message
    request_id: str | None = None
    parent_id: str | None = None


class MessageRetracted(Notification, tag="assistant_message_retracted"):
    message_id: str


class WorkingStateChanged(Notification, tag="droid_working_state_changed"):
    new_state: str


class ToolCall(Notification, tag="tool_call"):
    tool_use: ToolUse


class ToolPhaseChanged(Notification, tag="tool_execution_phase_changed"):
    tool_use_id: str
    phase: str
    tool_name: str = ""


class ToolHeartbeat(Notification, tag="tool_execution_heartbeat"):
    tool_use_id: str
    tool_name: str = ""


class ToolProgress(Notification, tag="tool_progress_update"):
    tool_use_id: str
    update: dict[str, Any]
    tool_name: str = ""


class ToolResult(Notification, tag="tool_result"):
    tool_use_id: str
    message_id: str | None = None
    content: Any = None
    is_error: bool | None = None
    id: str | None = None


class TurnCompleted(Notification, tag="agent_turn_completed"):
    reason: str
    turn_id: str | None = None
    token_usage: TokenUsage | None = None
    cumulative_token_usage: TokenUsage | None = None
    child_token_usage: TokenUsage | None = None
    cumulative_child_token_usage: TokenUsage | None = None
    duration_ms: float | None = None


class TokenUsageChanged(Notification, tag="session_token_usage_changed"):
    token_usage: TokenUsage
    session_id: str | None = None
    inclusive_token_usage: TokenUsage | None = None
    last_call_token_usage: TokenUsage | None = None


class SettingsUpdated(Notification, tag="settings_updated"):
    settings: Settings
    request_id: str | None = None


class TitleUpdated(Notification, tag="session_title_updated"):
    title: str
    update_type: str | None = None
    request_id: str | None = None


class ModelRetry(Notification, tag="llm_retry"):
    attempt: int = 0
    reason: str = "unknown"


class ErrorReported(Notification, tag="error"):
    message: str
    error_type: str | None = None
    timestamp: str | None = None
    error: Any = None


class PermissionResolved(Notification, tag="permission_resolved"):
    request_id: str
    tool_use_ids: list[str] = []
    selected_option: str | None = None


class McpStatusChanged(Notification, tag="mcp_status_changed"):
    servers: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}


class McpAuthRequired(Notification, tag="mcp_auth_required"):
    server_name: str
    auth_url: str = ""
    message: str = ""
    state: str | None = None


class McpAuthCompleted(Notification, tag="mcp_auth_completed"):
    server_name: str
    outcome: str = ""
    message: str = ""


class StructuredOutput(Notification, tag="structured_output"):
    message_id: str
    structured_output: Any = None


class QueuedMessageDiscarded(Notification, tag="queued_messages_discarded"):
    text: str = ""
    request_id: str | None = None


class SessionCompacted(Notification, tag="session_compacted"):
    removed_count: int = 0
    summary_id: str | None = None
    visible_boundary_message_id: str | None = None


class ChildSessionAvailable(Notification, tag="child_session_available"):
    child_session_id: str
    tool_use_id: str | None = None
    subagent_type: str | None = None
    description: str | None = None
    timestamp: Any = None


class WorkingDirectoryChanged(Notification, tag="session_working_directory_changed"):
    cwd: str


AnyNotification = (
    TextDelta | ThinkingDelta | TextComplete | ThinkingComplete | CreateMessage | MessageRetracted
    | WorkingStateChanged | ToolCall | ToolPhaseChanged | ToolHeartbeat | ToolProgress | ToolResult | TurnCompleted
    | TokenUsageChanged | SettingsUpdated | TitleUpdated | ModelRetry | ErrorReported | PermissionResolved
    | McpStatusChanged | McpAuthRequired | McpAuthCompleted | StructuredOutput | QueuedMessageDiscarded
    | SessionCompacted | ChildSessionAvailable | WorkingDirectoryChanged
)  # fmt: skip

# -- lines from Droid


class NotificationParams(WireStruct):
    notification: AnyNotification
    session_id: str | None = None


class NotificationLine(WireStruct, tag_field="type", tag="notification"):
    params: NotificationParams
    factory_protocol_version: str | None = None


class Request(WireStruct, tag_field="type", tag="request"):
    """A request from Droid: a permission or a question."""

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


class UnknownNotification(msgspec.Struct, frozen=True):
    """A notification of an unknown kind, or of a known kind with fields of unexpected types."""

    kind: str
    data: Any
    session_id: str | None = None


class InvalidLine(msgspec.Struct, frozen=True):
    """The beginning of a line that is not part of the protocol."""

    text: str


Line = NotificationLine | Request | Response | UnknownNotification | InvalidLine

_decoder = msgspec.json.Decoder(NotificationLine | Request | Response)
_TYPES: dict[str, type[Notification]] = {
    str(kind.__struct_config__.tag): kind for kind in AnyNotification.__args__
}


def decode_line(line: bytes) -> Line:
    """Decode a line. Never raises."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_leniently(line)


def _decode_leniently(line: bytes) -> Line:
    invalid = InvalidLine(line[:_SHOWN_BYTES].decode(errors="replace"))
    try:
        raw = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return invalid
    method = raw.get("method")
    if raw.get("type") == "response" or (method is None and ("result" in raw or "error" in raw)):
        return _decode_response(raw) or invalid
    if not isinstance(method, str):
        return invalid
    if raw.get("type") == "request" or "id" in raw:
        if not isinstance(raw.get("id"), str | int):
            return invalid
        return Request(id=raw["id"], method=method, params=_raw(raw.get("params", {})))
    return _decode_notification(method, raw)


def _decode_response(raw: dict[str, Any]) -> Response | None:
    """Accept a response without a type, and an error that is not an object."""
    error = raw.get("error")
    if error is not None and not isinstance(error, dict):
        error = {"message": str(error)}
    try:
        failure = None if error is None else msgspec.convert(error, Failure, strict=False)
        response_id = msgspec.convert(raw.get("id"), str | int | None)
    except msgspec.ValidationError:
        return None
    return Response(id=response_id, result=_raw(raw.get("result")), error=failure)


def _decode_notification(method: str, raw: dict[str, Any]) -> NotificationLine | UnknownNotification:
    params: dict[str, Any] = raw["params"] if isinstance(raw.get("params"), dict) else {}
    data: dict[str, Any] = params["notification"] if isinstance(params.get("notification"), dict) else {}
    session = params.get("sessionId")
    session = session if isinstance(session, str) else None
    if not isinstance(data.get("type"), str):
        return UnknownNotification(method, raw.get("params"), session)
    kind = _TYPES.get(data["type"])
    if kind is None:
        return UnknownNotification(data["type"], data, session)
    names = {"type", *kind.__struct_encode_fields__} - {"extra"}
    fields = {name: value for name, value in data.items() if name in names}
    extra = {name: value for name, value in data.items() if name not in names}
    try:
        notification: Any = msgspec.convert({**fields, "extra": extra or None}, kind)
    except msgspec.ValidationError:
        return UnknownNotification(data["type"], data, session)
    version = raw.get("factoryProtocolVersion")
    return NotificationLine(
        params=NotificationParams(notification=notification, session_id=session),
        factory_protocol_version=version if isinstance(version, str) else None,
    )


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(encode(value))


# -- lines to Droid


def encode_request(request_id: str, method: str, params: dict[str, Any]) -> bytes:
    line = {
        **ENVELOPE,
        "type": "request",
        "id": request_id,
        "method": f"{METHOD_PREFIX}{method}",
        "params": params,
    }
    return encode(line) + b"\n"


def encode_result(request_id: str | int, result: dict[str, Any]) -> bytes:
    return encode({**ENVELOPE, "type": "response", "id": request_id, "result": result}) + b"\n"


def encode_error(request_id: str | int, code: int, message: str) -> bytes:
    """Encode an error response. Droid accepts only JSON-RPC's own error codes."""
    error = {"code": code, "message": message}
    return encode({**ENVELOPE, "type": "response", "id": request_id, "error": error}) + b"\n"
