"""The lines of the Agent Client Protocol (version 1), as an agent writes them and as we do.

Only what the adapter uses is declared. An update of another kind, or with fields of unexpected types, is decoded as
`UnknownUpdate`, so that a newer agent loses nothing.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from farsteer.agents.rpc import Failure, Response
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.wire import WireStruct, decode, decode_with, encode
from farsteer.jsonrpc.messages import as_object

T = TypeVar("T")

VERSION = 1
"""The version of the protocol."""
_SHOWN_BYTES = 200

RequestId = str | int


# -- what a session does


class Update(WireStruct, tag_field="sessionUpdate", kw_only=True):
    """One `session/update`."""


class Chunk(Update):
    content: dict[str, Any]
    message_id: str | None = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class MessageChunk(Chunk, tag="agent_message_chunk"):
    pass


class ThoughtChunk(Chunk, tag="agent_thought_chunk"):
    pass


class UserChunk(Chunk, tag="user_message_chunk"):
    pass


class ToolLocation(WireStruct):
    path: str
    line: int | None = None


class ToolFields(WireStruct, kw_only=True):
    """What `tool_call`, `tool_call_update` and `session/request_permission` say about a tool call."""

    tool_call_id: str
    title: str | None = None
    kind: str | None = None
    status: str | None = None
    name: str | None = None
    content: list[dict[str, Any]] | None = None
    locations: list[ToolLocation] | None = None
    raw_input: Any = None
    raw_output: Any = None


class ToolBegun(ToolFields, tag_field="sessionUpdate", tag="tool_call"):
    pass


class ToolChanged(ToolFields, tag_field="sessionUpdate", tag="tool_call_update"):
    pass


class PlanStep(WireStruct):
    content: str = ""
    status: str = "pending"
    priority: str = "medium"


class PlanChanged(Update, tag="plan"):
    entries: list[PlanStep]


class Command(WireStruct):
    name: str
    description: str = ""
    input: Any = None


class CommandsChanged(Update, tag="available_commands_update"):
    available_commands: list[Command]


class ModeChanged(Update, tag="current_mode_update"):
    current_mode_id: str


class OptionsChanged(Update, tag="config_option_update"):
    config_options: list[dict[str, Any]]


class InfoChanged(Update, tag="session_info_update"):
    title: str | None = None


class Cost(WireStruct):
    amount: float
    currency: str = "USD"


class ContextUsed(Update, tag="usage_update"):
    used: int
    size: int
    cost: Cost | None = None


AnyUpdate = (
    MessageChunk | ThoughtChunk | UserChunk | ToolBegun | ToolChanged | PlanChanged | CommandsChanged | ModeChanged
    | OptionsChanged | InfoChanged | ContextUsed
)  # fmt: skip


class UnknownUpdate(WireStruct):
    kind: str
    data: Any


class SessionUpdate(WireStruct):
    session_id: str
    update: AnyUpdate | UnknownUpdate


class _KnownUpdate(WireStruct):
    session_id: str
    update: AnyUpdate


# -- what the agent answers


class PromptCapabilities(WireStruct):
    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(WireStruct):
    http: bool = False
    sse: bool = False


class AgentCapabilities(WireStruct):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    mcp_capabilities: McpCapabilities = McpCapabilities()
    session_capabilities: dict[str, Any] = {}

    def has(self, name: str) -> bool:
        """Whether the agent has a method of sessions: `list`, `resume`, `close`, `delete`, `fork`."""
        return self.session_capabilities.get(name) not in (None, False)


class AgentIdentity(WireStruct):
    name: str = ""
    version: str = ""


class AuthMethod(WireStruct):
    id: str
    name: str = ""
    type: str = "agent"
    description: str | None = None


class Initialized(WireStruct):
    protocol_version: int = 0
    agent_capabilities: AgentCapabilities = AgentCapabilities()
    agent_info: AgentIdentity | None = None
    auth_methods: list[AuthMethod] = []


class NativeMode(WireStruct):
    id: str
    name: str = ""


class NativeModes(WireStruct):
    current_mode_id: str
    available_modes: list[NativeMode] = []


class NativeModel(WireStruct):
    model_id: str
    name: str = ""


class NativeModels(WireStruct):
    current_model_id: str | None = None
    available_models: list[NativeModel] = []


class OpenedSession(WireStruct):
    """The answer to `session/new`, `session/load`, `session/resume` and `session/fork`."""

    session_id: str = ""
    modes: NativeModes | None = None
    models: NativeModels | None = None
    config_options: list[dict[str, Any]] | None = None


class ChangedOptions(WireStruct):
    config_options: list[dict[str, Any]] | None = None


class TokensUsed(WireStruct):
    input_tokens: int = 0
    output_tokens: int = 0
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    thought_tokens: int | None = None


class PromptEnded(WireStruct):
    stop_reason: str = ""
    usage: TokensUsed | None = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class ListedSession(WireStruct):
    session_id: str
    cwd: str = ""
    title: str | None = None
    updated_at: str | None = None


class ListedSessions(WireStruct):
    sessions: list[ListedSession]
    next_cursor: str | None = None


# -- what the agent asks


class PermissionOption(WireStruct):
    option_id: str
    name: str = ""
    kind: str = ""


class PermissionParams(WireStruct):
    session_id: str
    tool_call: ToolFields
    options: list[PermissionOption] = []


class ElicitationParams(WireStruct):
    mode: str
    message: str = ""
    session_id: str | None = None
    tool_call_id: str | None = None
    url: str | None = None
    requested_schema: dict[str, Any] | None = None


class ReadFileParams(WireStruct):
    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class WriteFileParams(WireStruct):
    session_id: str
    path: str
    content: str


class EnvironmentVariable(WireStruct):
    name: str
    value: str


class CreateTerminalParams(WireStruct):
    session_id: str
    command: str
    args: list[str] = []
    env: list[EnvironmentVariable] = []
    cwd: str | None = None
    output_byte_limit: int | None = None


class HookParams(WireStruct):
    """Grok asks before it uses a tool."""

    tool_name: str = ""


class TerminalParams(WireStruct):
    session_id: str
    terminal_id: str


# -- lines


class Request(WireStruct):
    """A request of the agent, which must be answered."""

    id: RequestId
    method: str
    params: msgspec.Raw


class OtherNotification(WireStruct):
    """A notification that is no `session/update`."""

    method: str
    params: Any


class InvalidLine(WireStruct):
    """A line that is no message. `id` is that of a request, which is answered with an error."""

    text: str
    id: RequestId | None = None


AnyLine = SessionUpdate | Request | Response | OtherNotification | InvalidLine


class _Line(msgspec.Struct):
    id: Any = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: Any = None


_line_decoder = msgspec.json.Decoder(_Line)
_any_decoder = msgspec.json.Decoder()
_update_decoder = msgspec.json.Decoder(_KnownUpdate)


def decode_line(line: bytes) -> AnyLine:
    """Decode a line. Never raises."""
    try:
        head = decode_with(_line_decoder, line)
    except msgspec.DecodeError:
        return _invalid(line)
    if head.method == "session/update" and head.id is None:
        return _update(head.params) or _invalid(line)
    if head.method is None:
        return _response(head) or _invalid(line)
    if head.id is not None:
        valid = isinstance(head.id, str | int) and not isinstance(head.id, bool)
        return Request(head.id, head.method, head.params) if valid else _invalid(line)
    return OtherNotification(head.method, _any_decoder.decode(head.params))


def _update(params: msgspec.Raw) -> SessionUpdate | None:
    try:
        known = decode_with(_update_decoder, bytes(params))
    except msgspec.DecodeError:
        return _unknown_update(params)
    return SessionUpdate(known.session_id, known.update)


def _unknown_update(params: msgspec.Raw) -> SessionUpdate | None:
    """Return an update of an unknown kind or shape, None if it is none at all."""
    values = as_object(_any_decoder.decode(params)) or {}
    update = as_object(values.get("update"))
    session_id, kind = values.get("sessionId"), (update or {}).get("sessionUpdate")
    if update is None or not isinstance(session_id, str) or not isinstance(kind, str):
        return None
    return SessionUpdate(session_id, UnknownUpdate(kind, update))


def _response(line: _Line) -> Response | None:
    if not isinstance(line.id, str | int | None) or isinstance(line.id, bool):
        return None
    if line.error is None:
        return None if line.result is msgspec.UNSET else Response(line.id, line.result)
    error = as_object(line.error) or {"message": str(line.error)}
    try:
        failure = msgspec.convert(error, Failure, strict=False)
    except msgspec.ValidationError:
        failure = Failure(message=str(error))
    return Response(line.id, error=failure)


def _invalid(line: bytes) -> InvalidLine:
    return InvalidLine(line[:_SHOWN_BYTES].decode(errors="replace"))


# -- our lines


def encode_request(request_id: int, method: str, params: dict[str, Any]) -> bytes:
    return encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}) + b"\n"


def encode_notification(method: str, params: dict[str, Any]) -> bytes:
    return encode({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n"


def encode_result(request_id: RequestId, result: dict[str, Any] | None) -> bytes:
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result}) + b"\n"


def encode_error(request_id: RequestId, code: int, message: str) -> bytes:
    error = {"code": code, "message": message}
    return encode({"jsonrpc": "2.0", "id": request_id, "error": error}) + b"\n"


def decode_result(result: msgspec.Raw, kind: type[T], agent: str, method: str) -> T:
    """Decode the result of a request. Raises AgentError `agent_protocol` if it has another shape."""
    try:
        return decode(result, kind)
    except msgspec.DecodeError as error:
        message = f"cannot decode {agent}'s answer to {method}: {error}"
        raise AgentError(message, code=ErrorCode.AGENT_PROTOCOL) from None
