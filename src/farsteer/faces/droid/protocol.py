"""The lines of `stream-jsonrpc` from the server's side: what a client may write, and what is written to it.

`Dialect` lists how the versions of the protocol differ. Fields of structs are in the order in which Droid writes them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from farsteer.core import droid
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.wire import WireStruct, decode, decode_with, encode


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """What one version of the protocol does differently."""

    version: str
    """The version of the CLI."""
    protocol: str | None = None
    """`factoryProtocolVersion` of every line; None leaves it out."""
    errors_have_id: bool = False
    """An invalid request is answered with its id and the reason; before, with `id: null` and one message for all."""
    refuses_unknown_settings: bool = True
    """`update_session_settings` with a field that is no setting is an invalid request."""
    notifications_have_session: bool = False
    """Notifications carry the id of their session."""
    has_levels: bool = False
    """`autonomyLevel: off | low | medium | high` and an `interactionMode`; before, one word for both."""
    loads_custom_ids: bool = False
    """A session can be loaded again under an id that the client chose."""
    resolves_before_settings: bool = False
    """`permission_resolved` of a plan comes before the `settings_updated` that follows from it."""
    lists_pending: bool = False
    """`load_session` lists open approvals; before, they were requested again."""


DIALECTS = {
    dialect.version: dialect
    for dialect in (
        Dialect(version="0.36"),
        Dialect(version="0.57"),
        Dialect(version="0.99", protocol="1.15.0", has_levels=True, loads_custom_ids=True),
        Dialect(
            version="0.215",
            protocol="1.206.0",
            errors_have_id=True,
            refuses_unknown_settings=False,
            notifications_have_session=True,
            has_levels=True,
            loads_custom_ids=True,
            resolves_before_settings=True,
            lists_pending=True,
        ),
    )
}
DEFAULT_DIALECT = DIALECTS["0.57"]

# -- lines from the client

NOT_JSON = "Invalid JSON"
NOT_JSON_RPC = "Invalid JSON-RPC message"
INVALID_REQUEST_FORMAT = "Invalid request format"


class _Envelope(WireStruct):
    jsonrpc: Literal["2.0"]
    factory_api_version: Literal["1.0.0"]


class Request(_Envelope, tag_field="type", tag="request"):
    id: str
    method: str
    params: msgspec.Raw | UnsetType = UNSET


class Failure(WireStruct):
    code: int = 0
    message: str = ""


class Response(_Envelope, tag_field="type", tag="response"):
    """The client's answer to a request of ours."""

    id: str | None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: Failure | None = None


class ClientNotification(_Envelope, tag_field="type", tag="notification"):
    """Accepted and ignored: the protocol has no notifications from the client."""

    method: str


class InvalidLine(msgspec.Struct, frozen=True):
    """A line that is none of these, with the error message to answer."""

    message: str


Line = Request | Response | ClientNotification

_decoder = msgspec.json.Decoder(Line)


def decode_line(line: bytes) -> Line | InvalidLine:
    try:
        return decode_with(_decoder, line)
    except msgspec.ValidationError:
        return InvalidLine(NOT_JSON_RPC if _is_json(line) else NOT_JSON)
    except msgspec.DecodeError:
        return InvalidLine(NOT_JSON)


def _is_json(line: bytes) -> bool:
    try:
        decode(line, object)
    except msgspec.DecodeError:
        return False
    return True


# -- messages


class ContentBlock(WireStruct, tag_field="type"):
    """A part of a message."""


class TextContent(ContentBlock, tag="text"):
    text: str


class ThinkingContent(ContentBlock, tag="thinking", omit_defaults=False):
    thinking: str
    signature: str = ""


class ToolUse(ContentBlock, tag="tool_use", omit_defaults=False):
    id: str
    name: str
    input: dict[str, Any] = {}


class ToolResultContent(ContentBlock, tag="tool_result", omit_defaults=False):
    tool_use_id: str
    content: str
    is_error: bool = False


AnyContent = TextContent | ThinkingContent | ToolUse | ToolResultContent


class Message(WireStruct):
    id: str
    role: str
    content: list[AnyContent]
    created_at: int
    updated_at: int
    parent_id: str
    visibility: str | None = None
    model_id: str | None = None


class TokenUsage(WireStruct, omit_defaults=False):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    thinking_tokens: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return self._combined(other, 1)

    def __sub__(self, other: TokenUsage) -> TokenUsage:
        return self._combined(other, -1)

    def _combined(self, other: TokenUsage, sign: int) -> TokenUsage:
        return TokenUsage(
            self.input_tokens + sign * other.input_tokens,
            self.output_tokens + sign * other.output_tokens,
            self.cache_creation_tokens + sign * other.cache_creation_tokens,
            self.cache_read_tokens + sign * other.cache_read_tokens,
            self.thinking_tokens + sign * other.thinking_tokens,
        )


class Settings(WireStruct):
    model_id: str
    reasoning_effort: str
    autonomy_level: str
    autonomy_mode: str | None = None
    interaction_mode: str | None = None
    spec_mode_reasoning_effort: str | None = None
    available_autonomy_levels: tuple[str, ...] | None = None


def build_settings(
    mode: PermissionMode, model: str, effort: ReasoningEffort | None, *, use_levels: bool
) -> Settings:
    """Return a session's settings. Without `use_levels` the autonomy level has its older name."""
    old_name = droid.autonomy_mode(mode)
    return Settings(
        model_id=model,
        reasoning_effort=droid.NO_EFFORT if effort is None else effort.value,
        autonomy_level=droid.autonomy_level(mode) if use_levels else old_name,
        autonomy_mode=old_name,
        interaction_mode=droid.interaction_mode(mode),
        spec_mode_reasoning_effort=droid.NO_EFFORT,
        available_autonomy_levels=droid.AUTONOMY_LEVELS if use_levels else None,
    )


# -- notifications


class Notification(WireStruct, tag_field="type", kw_only=True):
    """The payload of a `droid.session_notification`."""


class WorkingStateChanged(Notification, tag="droid_working_state_changed"):
    new_state: str


class SettingsUpdated(Notification, tag="settings_updated"):
    settings: Settings
    request_id: str | None = None


class TitleUpdated(Notification, tag="session_title_updated"):
    title: str
    update_type: str | None = None


class CreateMessage(Notification, tag="create_message"):
    message: Message
    request_id: str | None = None


class TextDelta(Notification, tag="assistant_text_delta", omit_defaults=False):
    message_id: str
    block_index: int
    text_delta: str


class TextComplete(Notification, tag="assistant_text_complete", omit_defaults=False):
    message_id: str
    block_index: int


class ThinkingDelta(Notification, tag="thinking_text_delta", omit_defaults=False):
    message_id: str
    block_index: int
    text_delta: str


class ThinkingComplete(Notification, tag="thinking_text_complete", omit_defaults=False):
    message_id: str
    block_index: int


class MessageRetracted(Notification, tag="assistant_message_retracted"):
    message_id: str


class ModelRetry(Notification, tag="llm_retry"):
    attempt: int
    reason: str


class ToolCall(Notification, tag="tool_call"):
    tool_use: ToolUse


class ToolPhaseChanged(Notification, tag="tool_execution_phase_changed"):
    tool_use_id: str
    tool_name: str
    phase: str


class ToolProgress(Notification, tag="tool_progress_update"):
    tool_use_id: str
    tool_name: str
    update: dict[str, Any]


class ToolResult(Notification, tag="tool_result", omit_defaults=False):
    tool_use_id: str
    message_id: str
    content: str
    is_error: bool | UnsetType = UNSET


class PermissionResolved(Notification, tag="permission_resolved", omit_defaults=False):
    request_id: str
    tool_use_ids: list[str]
    selected_option: str


class TokenUsageChanged(Notification, tag="session_token_usage_changed"):
    session_id: str
    token_usage: TokenUsage
    inclusive_token_usage: TokenUsage | None = None
    last_call_token_usage: TokenUsage | None = None


class TurnCompleted(Notification, tag="agent_turn_completed"):
    reason: str
    turn_id: str
    token_usage: TokenUsage
    cumulative_token_usage: TokenUsage
    duration_ms: int


class ErrorReported(Notification, tag="error"):
    message: str
    error_type: str
    timestamp: str
    error: dict[str, Any]


def report_error(message: str, name: str) -> ErrorReported:
    """Return an `error` notification. Clients know few error types, so our own name of the error is inside `error`."""
    timestamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    return ErrorReported(
        message=message, error_type="Error", timestamp=timestamp, error={"name": name, "message": message}
    )


class QueuedMessageDiscarded(Notification, tag="queued_messages_discarded"):
    text: str
    request_id: str | None = None


class McpStatusChanged(Notification, tag="mcp_status_changed", omit_defaults=False):
    servers: list[dict[str, Any]]
    summary: dict[str, Any]


class McpAuthRequired(Notification, tag="mcp_auth_required", omit_defaults=False):
    server_name: str
    auth_url: str
    message: str


_WITHOUT_SESSION = (
    SettingsUpdated, TokenUsageChanged, ToolCall, PermissionResolved, McpStatusChanged, McpAuthRequired,
    QueuedMessageDiscarded,
)  # fmt: skip
"""Notifications that never carry the id of their session beside the payload."""

# -- lines to the client


class LineEncoder:
    """Encodes lines in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._envelope: dict[str, Any] = {**droid.ENVELOPE}
        if dialect.protocol is not None:
            self._envelope["factoryProtocolVersion"] = dialect.protocol

    def result(self, request_id: str, result: Any) -> bytes:
        return self._line(type="response", id=request_id, result=result)

    def error(self, request_id: str | None, code: int, message: str) -> bytes:
        return self._line(type="response", id=request_id, error={"code": code, "message": message})

    def request(self, request_id: str, method: str, params: Any) -> bytes:
        return self._line(type="request", method=method, id=request_id, params=params)

    def notification(
        self, notification: Notification | dict[str, Any], session_id: str | None = None
    ) -> bytes:
        params: dict[str, Any] = {"notification": notification}
        has_session = self._dialect.notifications_have_session and not isinstance(
            notification, _WITHOUT_SESSION
        )
        if has_session and session_id is not None:
            params = {"sessionId": session_id, **params}
        return self._line(type="notification", method=droid.SESSION_NOTIFICATION, params=params)

    def _line(self, **fields: Any) -> bytes:
        return encode({**self._envelope, **fields}) + b"\n"
