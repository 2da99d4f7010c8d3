"""What is told about a session: the payload of each notification, and the messages inside them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET, UnsetType

from farsteer.core.wire import WireStruct


class Block(WireStruct, tag_field="type"):
    """A piece of a message."""


class Text(Block, tag="text"):
    text: str


class Thinking(Block, tag="thinking", omit_defaults=False):
    thinking: str
    signature: str = ""


class ToolUse(Block, tag="tool_use", omit_defaults=False):
    id: str
    name: str
    input: dict[str, Any] = {}


class ToolOutcome(Block, tag="tool_result", omit_defaults=False):
    tool_use_id: str
    content: str
    is_error: bool = False


class Message(WireStruct):
    id: str
    role: str
    content: list[Text | Thinking | ToolUse | ToolOutcome]
    created_at: int
    updated_at: int
    parent_id: str
    visibility: str | None = None
    model_id: str | None = None


class Tokens(WireStruct, omit_defaults=False):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    thinking_tokens: int = 0

    def plus(self, other: Tokens) -> Tokens:
        return self._with(other, 1)

    def minus(self, other: Tokens) -> Tokens:
        return self._with(other, -1)

    def _with(self, other: Tokens, sign: int) -> Tokens:
        return Tokens(
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
    available_autonomy_levels: list[str] | None = None


class Note(WireStruct, tag_field="type", kw_only=True):
    """A notification's payload."""


class StateChanged(Note, tag="droid_working_state_changed"):
    new_state: str


class SettingsUpdated(Note, tag="settings_updated"):
    settings: Settings
    request_id: str | None = None


class TitleUpdated(Note, tag="session_title_updated"):
    title: str
    update_type: str | None = None


class CreateMessage(Note, tag="create_message"):
    message: Message
    request_id: str | None = None


class TextDelta(Note, tag="assistant_text_delta", omit_defaults=False):
    message_id: str
    block_index: int
    text_delta: str


class TextComplete(Note, tag="assistant_text_complete", omit_defaults=False):
    message_id: str
    block_index: int


class ThinkingDelta(Note, tag="thinking_text_delta", omit_defaults=False):
    message_id: str
    block_index: int
    text_delta: str


class ThinkingComplete(Note, tag="thinking_text_complete", omit_defaults=False):
    message_id: str
    block_index: int


class Retracted(Note, tag="assistant_message_retracted"):
    message_id: str


class Retry(Note, tag="llm_retry"):
    attempt: int
    reason: str


class ToolCall(Note, tag="tool_call"):
    tool_use: ToolUse


class PhaseChanged(Note, tag="tool_execution_phase_changed"):
    tool_use_id: str
    tool_name: str
    phase: str


class Progress(Note, tag="tool_progress_update"):
    tool_use_id: str
    tool_name: str
    update: dict[str, Any]


class ToolResult(Note, tag="tool_result", omit_defaults=False):
    tool_use_id: str
    message_id: str
    content: str
    is_error: bool | UnsetType = UNSET


class PermissionResolved(Note, tag="permission_resolved", omit_defaults=False):
    request_id: str
    tool_use_ids: list[str]
    selected_option: str


class UsageChanged(Note, tag="session_token_usage_changed"):
    session_id: str
    token_usage: Tokens
    inclusive_token_usage: Tokens | None = None
    last_call_token_usage: Tokens | None = None


class TurnCompleted(Note, tag="agent_turn_completed"):
    reason: str
    turn_id: str
    token_usage: Tokens
    cumulative_token_usage: Tokens
    duration_ms: int


class ErrorSaid(Note, tag="error"):
    message: str
    error_type: str
    timestamp: str
    error: dict[str, Any]


def failure(text: str, kind: str) -> ErrorSaid:
    """Clients know a few types of errors only; our kind is the name inside."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return ErrorSaid(message=text, error_type="Error", timestamp=now, error={"name": kind, "message": text})


class QueuedDiscarded(Note, tag="queued_messages_discarded"):
    text: str
    request_id: str | None = None


class McpStatus(Note, tag="mcp_status_changed", omit_defaults=False):
    servers: list[dict[str, Any]]
    summary: dict[str, Any]


class McpAuthRequired(Note, tag="mcp_auth_required", omit_defaults=False):
    server_name: str
    auth_url: str
    message: str


SESSIONLESS = (
    SettingsUpdated, UsageChanged, ToolCall, PermissionResolved, McpStatus, McpAuthRequired, QueuedDiscarded,
)  # fmt: skip
"""What never names its session beside itself."""

IDLE = "idle"
STREAMING = "streaming_assistant_message"
THINKING = "thinking"
EXECUTING = "executing_tool"
WAITING = "waiting_for_tool_confirmation"
