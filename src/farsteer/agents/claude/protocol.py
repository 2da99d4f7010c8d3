"""Lines of Claude Code's stream-json: what it writes, as structs, and what we write, as bytes.

The structs have the fields that we use. A line that does not fit any of them is kept as `UnknownLine` or `InvalidLine`.
"""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec

from farsteer.core.wire import InvalidJson, decode_with, encode

SYNTHETIC = "<synthetic>"
"""The model of a message that Claude Code wrote itself."""
_HEAD_CHARS = 200


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class WireMessage(msgspec.Struct, frozen=True, gc=False):
    """Base of what Claude Code sends. Its names are written as here, with underscores."""


# -- content of messages


class Block(WireMessage):
    """A content block: text, thinking, tool_use, tool_result or a kind that we do not know."""

    type: str
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: Any = None
    is_error: bool | None = None


class TokenCounts(WireMessage):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None

    @property
    def context(self) -> int:
        """The tokens of the whole request."""
        counts = (
            self.input_tokens, self.cache_read_input_tokens, self.cache_creation_input_tokens, self.output_tokens,
        )  # fmt: skip
        return sum(count or 0 for count in counts)


class Message(WireMessage):
    content: str | list[Block] = []
    id: str = ""
    role: str = ""
    model: str = ""
    usage: TokenCounts | None = None

    @property
    def blocks(self) -> list[Block]:
        return [Block(type="text", text=self.content)] if isinstance(self.content, str) else self.content


# -- streamed parts of a message


class StreamedDelta(WireMessage):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""


class StreamedPart(WireMessage):
    type: str
    index: int = 0
    message: Message | None = None
    content_block: Block | None = None
    delta: StreamedDelta = StreamedDelta()
    usage: TokenCounts | None = None


# -- lines


class StreamEvent(WireMessage, tag="stream_event"):
    event: StreamedPart
    parent_tool_use_id: str | None = None


class Assistant(WireMessage, tag="assistant"):
    message: Message
    uuid: str = ""
    parent_tool_use_id: str | None = None
    error: str | None = None


class User(WireMessage, tag="user"):
    message: Message
    uuid: str = ""
    parent_tool_use_id: str | None = None
    is_replay: bool = msgspec.field(name="isReplay", default=False)
    is_synthetic: bool = msgspec.field(name="isSynthetic", default=False)
    tool_use_result: Any = None


class Task(WireMessage):
    task_id: str
    task_type: str = ""


class CompactMetadata(WireMessage):
    trigger: str = ""
    pre_tokens: int | None = None
    post_tokens: int | None = None


class System(WireMessage, tag="system"):
    """A report about the session. `subtype` says which fields it has."""

    subtype: str
    session_id: str = ""
    status: str | None = None
    permission_mode: str | None = msgspec.field(name="permissionMode", default=None)
    model: str | None = None
    compact_metadata: CompactMetadata | None = None
    tasks: list[Task] = []
    task_id: str = ""
    tool_use_id: str | None = None
    content: Any = None
    message: Any = None
    error: Any = None
    error_status: int | None = None
    attempt: int | None = None
    max_retries: int | None = None
    retry_delay_ms: float | None = None
    hook_name: str = ""
    hook_event: str = ""
    outcome: str = ""
    stderr: str = ""
    exit_code: int | None = None
    mcp_servers: list[dict[str, Any]] = []


class ModelUsage(WireMessage, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cost_usd: float = msgspec.field(name="costUSD", default=0.0)
    context_window: int | None = None


class Result(WireMessage, tag="result"):
    """The end of a turn. `subtype` may be `success` for a failed one: `is_error` counts."""

    subtype: str = ""
    is_error: bool = False
    result: str | None = None
    errors: list[str] = []
    stop_reason: str | None = None
    terminal_reason: str | None = None
    api_error_status: int | None = None
    model_usage: dict[str, ModelUsage] = msgspec.field(
        name="modelUsage", default_factory=dict[str, ModelUsage]
    )


class Lifecycle(WireMessage, tag="command_lifecycle"):
    """What became of a message: queued, started, completed, cancelled."""

    command_uuid: str
    state: str


class ControlRequest(WireMessage, tag="control_request"):
    request_id: str
    request: dict[str, Any]


class ControlCancel(WireMessage, tag="control_cancel_request"):
    request_id: str


class ControlResult(WireMessage):
    request_id: str
    subtype: str
    response: Any = None
    error: str = ""
    error_code: str = ""


class ControlResponse(WireMessage, tag="control_response"):
    response: ControlResult


class RateLimit(WireMessage, tag="rate_limit_event"):
    rate_limit_info: dict[str, Any] = {}


class UnknownLine(WireMessage):
    type: str
    data: Any


class InvalidLine(WireMessage):
    text: str


Known = (
    StreamEvent | Assistant | User | System | Result | Lifecycle | ControlRequest | ControlCancel | ControlResponse
    | RateLimit
)  # fmt: skip
AnyLine = Known | UnknownLine | InvalidLine

IGNORED_REPORTS = frozenset(
    {
        "init", "thinking_tokens", "task_started", "task_progress", "task_updated", "task_notification",
        "hook_started", "hook_progress", "session_state_changed", "files_persisted", "post_turn_summary",
    }
)  # fmt: skip
"""Subtypes of `System` that repeat what other messages say, or concern the terminal interface only."""
_REPORTS = IGNORED_REPORTS | {
    "status", "compact_boundary", "background_tasks_changed", "api_retry", "permission_denied", "informational",
    "local_command_output", "hook_response",
}  # fmt: skip

_decoder = msgspec.json.Decoder(Known)
_object_decoder = msgspec.json.Decoder(dict[str, Any])


def decode_line(line: bytes) -> AnyLine:
    try:
        message = decode_with(_decoder, line)
        if isinstance(message, System) and message.subtype not in _REPORTS:
            return UnknownLine(f"system:{message.subtype}", decode_with(_object_decoder, line))
        return message
    except InvalidJson:
        pass
    except msgspec.ValidationError:
        fields = decode_with(_object_decoder, line) if line.lstrip()[:1] == b"{" else {}
        kind = fields.get("type")
        if isinstance(kind, str):
            return UnknownLine(kind, fields)
    except msgspec.DecodeError:
        pass
    return InvalidLine(line[:_HEAD_CHARS].decode(errors="replace"))


# -- what we write


def encode_request(request_id: str, request: dict[str, Any]) -> bytes:
    return _line({"type": "control_request", "request_id": request_id, "request": request})


def encode_response(request_id: str, response: dict[str, Any]) -> bytes:
    result = {"subtype": "success", "request_id": request_id, "response": response}
    return _line({"type": "control_response", "response": result})


def encode_error(request_id: str, error: str) -> bytes:
    result = {"subtype": "error", "request_id": request_id, "error": error}
    return _line({"type": "control_response", "response": result})


def encode_user(uuid: str, content: str | list[dict[str, Any]]) -> bytes:
    message = {"role": "user", "content": content}
    return _line(
        {"type": "user", "uuid": uuid, "message": message, "parent_tool_use_id": None, "session_id": ""}
    )


def _line(value: dict[str, Any]) -> bytes:
    return encode(value) + b"\n"
