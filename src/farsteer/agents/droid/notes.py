"""What Droid tells about a session: the payload of each notification we have a word for.

The fields are strict, so that one we do not know is noticed and kept (`wire` does that). What is inside a message
belongs to the model's provider and is read tolerantly.
"""

from __future__ import annotations

from typing import Any

from farsteer.core.wire import WireStruct


class Note(WireStruct, forbid_unknown_fields=True, tag_field="type", kw_only=True):
    """A notification's payload."""

    extra: dict[str, Any] | None = None
    """Fields we do not know. Filled by us, never sent."""


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


class Tokens(WireStruct):
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


class TextDelta(Note, tag="assistant_text_delta"):
    message_id: str
    text_delta: str
    block_index: int = 0


class ThinkingDelta(Note, tag="thinking_text_delta"):
    message_id: str
    text_delta: str
    block_index: int = 0


class TextComplete(Note, tag="assistant_text_complete"):
    message_id: str
    block_index: int = 0


class ThinkingComplete(Note, tag="thinking_text_complete"):
    message_id: str
    block_index: int = 0
    duration_ms: float | None = None


class CreateMessage(Note, tag="create_message"):
    message: Message
    request_id: str | None = None
    parent_id: str | None = None


class Retracted(Note, tag="assistant_message_retracted"):
    message_id: str


class StateChanged(Note, tag="droid_working_state_changed"):
    new_state: str


class ToolCall(Note, tag="tool_call"):
    tool_use: ToolUse


class PhaseChanged(Note, tag="tool_execution_phase_changed"):
    tool_use_id: str
    phase: str
    tool_name: str = ""


class Heartbeat(Note, tag="tool_execution_heartbeat"):
    tool_use_id: str
    tool_name: str = ""


class Progress(Note, tag="tool_progress_update"):
    tool_use_id: str
    update: dict[str, Any]
    tool_name: str = ""


class ToolResult(Note, tag="tool_result"):
    tool_use_id: str
    message_id: str | None = None
    content: Any = None
    is_error: bool | None = None
    id: str | None = None


class TurnCompleted(Note, tag="agent_turn_completed"):
    reason: str
    turn_id: str | None = None
    token_usage: Tokens | None = None
    cumulative_token_usage: Tokens | None = None
    child_token_usage: Tokens | None = None
    cumulative_child_token_usage: Tokens | None = None
    duration_ms: float | None = None


class UsageChanged(Note, tag="session_token_usage_changed"):
    token_usage: Tokens
    session_id: str | None = None
    inclusive_token_usage: Tokens | None = None
    last_call_token_usage: Tokens | None = None


class SettingsUpdated(Note, tag="settings_updated"):
    settings: Settings
    request_id: str | None = None


class TitleUpdated(Note, tag="session_title_updated"):
    title: str
    update_type: str | None = None
    request_id: str | None = None


class Retry(Note, tag="llm_retry"):
    attempt: int = 0
    reason: str = "unknown"


class ErrorSaid(Note, tag="error"):
    message: str
    error_type: str | None = None
    timestamp: str | None = None
    error: Any = None


class PermissionResolved(Note, tag="permission_resolved"):
    request_id: str
    tool_use_ids: list[str] = []
    selected_option: str | None = None


class McpStatus(Note, tag="mcp_status_changed"):
    servers: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}


class McpAuthRequired(Note, tag="mcp_auth_required"):
    server_name: str
    auth_url: str = ""
    message: str = ""
    state: str | None = None


class McpAuthCompleted(Note, tag="mcp_auth_completed"):
    server_name: str
    outcome: str = ""
    message: str = ""


class StructuredOutput(Note, tag="structured_output"):
    message_id: str
    structured_output: Any = None


class QueuedDiscarded(Note, tag="queued_messages_discarded"):
    text: str = ""
    request_id: str | None = None


class Compacted(Note, tag="session_compacted"):
    removed_count: int = 0
    summary_id: str | None = None
    visible_boundary_message_id: str | None = None


class ChildSession(Note, tag="child_session_available"):
    child_session_id: str
    tool_use_id: str | None = None
    subagent_type: str | None = None
    description: str | None = None
    timestamp: Any = None


class DirectoryChanged(Note, tag="session_working_directory_changed"):
    cwd: str


Known = (
    TextDelta | ThinkingDelta | TextComplete | ThinkingComplete | CreateMessage | Retracted | StateChanged | ToolCall
    | PhaseChanged | Heartbeat | Progress | ToolResult | TurnCompleted | UsageChanged | SettingsUpdated | TitleUpdated
    | Retry | ErrorSaid | PermissionResolved | McpStatus | McpAuthRequired | McpAuthCompleted | StructuredOutput
    | QueuedDiscarded | Compacted | ChildSession | DirectoryChanged
)  # fmt: skip
