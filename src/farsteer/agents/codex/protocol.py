"""The lines of `codex app-server`: JSON-RPC without its `jsonrpc` field.

Only what the adapter uses is declared. A notification or an item of another kind, or with fields of unexpected types,
is decoded as `UnknownNotification`, so that a newer CLI loses nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farsteer.agents.rpc import Failure, Response
from farsteer.core.wire import WireStruct, decode_with, encode
from farsteer.jsonrpc.messages import as_object

_SHOWN_BYTES = 200

RequestId = str | int


# -- items of a turn


class _Item(WireStruct, tag_field="type", kw_only=True):
    id: str


class UserMessageItem(_Item, tag="userMessage"):
    client_id: str | None = None
    content: list[dict[str, Any]] = []


class AgentMessageItem(_Item, tag="agentMessage"):
    text: str = ""
    phase: str | None = None


class ReasoningItem(_Item, tag="reasoning"):
    summary: list[str] = []
    content: list[str] = []


class PlanItem(_Item, tag="plan"):
    text: str = ""


class CommandItem(_Item, tag="commandExecution"):
    command: str = ""
    cwd: str = ""
    status: str = ""
    command_actions: list[dict[str, Any]] = []
    aggregated_output: str | None = None
    exit_code: int | None = None


class FileChange(WireStruct):
    path: str
    kind: dict[str, Any] = {}
    diff: str = ""
    """The content of an added or deleted file, a unified diff of a changed one."""


class FileChangeItem(_Item, tag="fileChange"):
    changes: list[FileChange] = []
    status: str = ""


class McpToolCallItem(_Item, tag="mcpToolCall"):
    server: str
    tool: str
    status: str = ""
    arguments: Any = None
    result: Any = None
    error: dict[str, Any] | None = None


class DynamicToolCallItem(_Item, tag="dynamicToolCall"):
    tool: str
    status: str = ""
    arguments: Any = None
    content_items: list[dict[str, Any]] | None = None
    success: bool | None = None


class CollabToolCallItem(_Item, tag="collabAgentToolCall"):
    """A tool by which the agent starts sub-agents, talks to them or waits for them."""

    tool: str
    status: str = ""
    sender_thread_id: str | None = None
    receiver_thread_ids: list[str] = []
    prompt: str | None = None
    agents_states: dict[str, Any] = {}


class SubAgentActivityItem(_Item, tag="subAgentActivity"):
    kind: str = ""
    agent_thread_id: str = ""
    agent_path: str = ""


class WebSearchItem(_Item, tag="webSearch"):
    query: str | None = None
    action: dict[str, Any] | None = None


class ImageViewItem(_Item, tag="imageView"):
    path: str = ""


class ImageGenerationItem(_Item, tag="imageGeneration"):
    status: str | None = None
    revised_prompt: str | None = None
    saved_path: str | None = None


class CompactionItem(_Item, tag="contextCompaction"):
    pass


Item = (
    UserMessageItem | AgentMessageItem | ReasoningItem | PlanItem | CommandItem | FileChangeItem | McpToolCallItem
    | DynamicToolCallItem | CollabToolCallItem | SubAgentActivityItem | WebSearchItem | ImageViewItem
    | ImageGenerationItem | CompactionItem
)  # fmt: skip


# -- notifications


class ThreadParams(WireStruct, kw_only=True):
    thread_id: str | None = None


class ItemStarted(ThreadParams):
    item: Item
    turn_id: str = ""


class ItemCompleted(ThreadParams):
    item: Item
    turn_id: str = ""


class ItemDelta(ThreadParams):
    item_id: str
    delta: str


class MessageDelta(ItemDelta):
    pass


class OutputDelta(ItemDelta):
    pass


class SummaryDelta(ItemDelta):
    summary_index: int = 0


class ReasoningDelta(ItemDelta):
    content_index: int = 0


class PlanDelta(ItemDelta):
    pass


class SummaryPartAdded(ThreadParams):
    item_id: str
    summary_index: int = 0


class PatchUpdated(ThreadParams):
    item_id: str
    changes: list[FileChange] = []


class McpProgress(ThreadParams):
    item_id: str
    message: str = ""


class TurnError(WireStruct):
    message: str = ""
    codex_error_info: Any = None
    additional_details: str | None = None


class Turn(WireStruct):
    id: str
    status: str = ""
    error: TurnError | None = None
    items: list[msgspec.Raw] = []


class TurnStarted(ThreadParams):
    turn: Turn


class TurnCompleted(ThreadParams):
    turn: Turn


class PlanStep(WireStruct):
    step: str
    status: str = ""


class PlanUpdated(ThreadParams):
    plan: list[PlanStep]
    explanation: str | None = None


class TokenCounts(WireStruct):
    total_tokens: int = 0
    input_tokens: int = 0
    """With those that were read from the cache."""
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class TokenUsage(WireStruct):
    total: TokenCounts
    last: TokenCounts = TokenCounts()
    model_context_window: int | None = None


class UsageUpdated(ThreadParams):
    token_usage: TokenUsage
    turn_id: str | None = None


class ErrorReported(ThreadParams):
    error: TurnError
    will_retry: bool = False


class Warned(ThreadParams):
    message: str


class ConfigWarned(WireStruct):
    summary: str
    details: str | None = None


class Thread(WireStruct):
    id: str
    cwd: str = ""
    path: str | None = None
    name: str | None = None
    preview: str = ""
    parent_thread_id: str | None = None
    agent_nickname: str | None = None
    agent_role: str | None = None
    updated_at: int = 0
    model: str | None = None
    ephemeral: bool = False
    history_mode: str | None = None


class ThreadStarted(WireStruct):
    thread: Thread


class NameUpdated(ThreadParams):
    thread_name: str | None = None


class Compacted(ThreadParams):
    pass


class Reverted(ThreadParams):
    pass


class ModelRerouted(ThreadParams):
    from_model: str = ""
    to_model: str = ""
    reason: Any = None


class McpStatus(ThreadParams):
    name: str
    status: str = ""
    error: str | None = None


class RequestResolved(ThreadParams):
    request_id: RequestId


Notification = (
    ItemStarted | ItemCompleted | MessageDelta | OutputDelta | SummaryDelta | ReasoningDelta | PlanDelta
    | SummaryPartAdded | PatchUpdated | McpProgress | TurnStarted | TurnCompleted | PlanUpdated | UsageUpdated
    | ErrorReported | Warned | ConfigWarned | ThreadStarted | NameUpdated | Compacted | Reverted | ModelRerouted
    | McpStatus | RequestResolved
)  # fmt: skip

_TYPES: dict[str, type[Notification]] = {
    "item/started": ItemStarted,
    "item/completed": ItemCompleted,
    "item/agentMessage/delta": MessageDelta,
    "item/commandExecution/outputDelta": OutputDelta,
    "item/fileChange/outputDelta": OutputDelta,
    "item/reasoning/summaryTextDelta": SummaryDelta,
    "item/reasoning/summaryPartAdded": SummaryPartAdded,
    "item/reasoning/textDelta": ReasoningDelta,
    "item/plan/delta": PlanDelta,
    "item/fileChange/patchUpdated": PatchUpdated,
    "item/mcpToolCall/progress": McpProgress,
    "turn/started": TurnStarted,
    "turn/completed": TurnCompleted,
    "turn/plan/updated": PlanUpdated,
    "thread/tokenUsage/updated": UsageUpdated,
    "error": ErrorReported,
    "warning": Warned,
    "guardianWarning": Warned,
    "deprecationNotice": ConfigWarned,
    "configWarning": ConfigWarned,
    "thread/started": ThreadStarted,
    "thread/name/updated": NameUpdated,
    "thread/compacted": Compacted,
    "thread/reverted": Reverted,
    "model/rerouted": ModelRerouted,
    "mcpServer/startupStatus/updated": McpStatus,
    "serverRequest/resolved": RequestResolved,
}
_DECODERS = {method: msgspec.json.Decoder(kind) for method, kind in _TYPES.items()}
KNOWN_METHODS = frozenset(_TYPES)


class Request(WireStruct):
    id: RequestId
    method: str
    params: msgspec.Raw


class UnknownNotification(WireStruct):
    """A notification of an unknown kind, or of a known kind with fields of unexpected types."""

    method: str
    params: Any = None


class InvalidLine(WireStruct):
    text: str


AnyLine = Notification | Request | Response | UnknownNotification | InvalidLine


class _Line(msgspec.Struct):
    id: RequestId | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: Any = None


_line_decoder = msgspec.json.Decoder(_Line)
_any_decoder = msgspec.json.Decoder()
_item_decoder: msgspec.json.Decoder[Item] = msgspec.json.Decoder(Item)


def decode_line(line: bytes) -> AnyLine:
    """Decode a line. Never raises."""
    try:
        head = decode_with(_line_decoder, line)
    except msgspec.DecodeError:
        return InvalidLine(line[:_SHOWN_BYTES].decode(errors="replace"))
    if head.method is None:
        return _response(head) or InvalidLine(line[:_SHOWN_BYTES].decode(errors="replace"))
    if head.id is not None:
        return Request(id=head.id, method=head.method, params=head.params)
    decoder = _DECODERS.get(head.method)
    if decoder is not None:
        try:
            return decode_with(decoder, bytes(head.params))
        except msgspec.DecodeError:
            pass
    return UnknownNotification(method=head.method, params=_any_decoder.decode(head.params))


def decode_item(data: bytes) -> Item | None:
    """Return a stored item, None if it is of an unknown kind."""
    try:
        return decode_with(_item_decoder, data)
    except msgspec.DecodeError:
        return None


def _response(line: _Line) -> Response | None:
    if line.error is None:
        return None if line.result is msgspec.UNSET else Response(line.id, line.result)
    error = as_object(line.error) or {"message": str(line.error)}
    try:
        failure = msgspec.convert(error, Failure, strict=False)
    except msgspec.ValidationError:
        failure = Failure(message=str(error))
    return Response(line.id, error=failure)


# -- lines to Codex


def encode_request(request_id: int, method: str, params: dict[str, Any]) -> bytes:
    return encode({"id": request_id, "method": method, "params": params}) + b"\n"


def encode_notification(method: str) -> bytes:
    return encode({"method": method}) + b"\n"


def encode_result(request_id: RequestId, result: dict[str, Any]) -> bytes:
    return encode({"id": request_id, "result": result}) + b"\n"


def encode_error(request_id: RequestId, code: int, message: str) -> bytes:
    return encode({"id": request_id, "error": {"code": code, "message": message}}) + b"\n"
