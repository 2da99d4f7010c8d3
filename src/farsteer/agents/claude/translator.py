"""Claude Code's messages as events of the session.

A turn of ours ends with the first result at which nothing of it is left: our message and those sent into the turn have
been taken, and no sub-agent works in the background. Claude Code begins a turn of its own when such a sub-agent ends,
or for a message that came too late for the running one; both belong to our turn. One that it begins between our turns,
because a command in the background has ended, is emitted as such.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from farsteer.agents.base import Registered, TurnBegun
from farsteer.agents.claude import tools
from farsteer.agents.claude.arguments import HOOK_MARK
from farsteer.agents.claude.protocol import (
    SYNTHETIC,
    Assistant,
    Block,
    Lifecycle,
    RateLimit,
    Result,
    StreamEvent,
    System,
    UnknownLine,
    User,
)
from farsteer.agents.claude.settings import SettingsTracker
from farsteer.agents.claude.todos import TodoList
from farsteer.agents.claude.usage import UsageTracker
from farsteer.agents.turns import TurnOutput
from farsteer.core.events import Compacted, DeltaKind, ModeUpdate, Notice, Other, TurnEndReason
from farsteer.core.ids import is_uuid, new_id
from farsteer.core.text import clean_line
from farsteer.core.wire import decode, to_builtins

SESSION_START = "hook:SessionStart"
"""The kind of the event that has the payload of this hook, with the source of the session."""
LOGIN_HINT = "log in with `claude` and its command /login, or set ANTHROPIC_API_KEY for the runner"

_IGNORED_LINES = frozenset(
    {"keep_alive", "transcript_mirror", "conversation_reset", "tool_progress", "prompt_suggestion"}
)
_DELTA_KINDS = {
    "text": DeltaKind.MESSAGE, "thinking": DeltaKind.THOUGHT, "tool_use": DeltaKind.TOOL_INPUT,
}  # fmt: skip
_STOP_REASONS = {"max_tokens": TurnEndReason.MAX_TOKENS, "refusal": TurnEndReason.REFUSAL}
_LOGIN_WORDS = ("/login", "Invalid API key", "authentication_failed", "OAuth token")
_SUB_AGENT_TASK = "local_agent"
_MAX_TOOLS = 4096


@dataclass(slots=True)
class _Stream:
    """The message that the model is writing."""

    message_id: str = ""
    index: int = 0
    block: Block | None = None


class Translator:
    """Passes what Claude Code reports to a `TurnOutput`. `native_id` is the conversation that the session is in."""

    def __init__(
        self, output: TurnOutput, settings: SettingsTracker, usage: UsageTracker, native_id: str, directory: str,
        source: str = "", todos: TodoList | None = None,
    ) -> None:  # fmt: skip
        self._output = output
        self._settings = settings
        self._usage = usage
        self._directory = directory
        self._source = source
        self._todos = todos or TodoList()
        self.native_id = native_id
        self.is_registered = False
        self.on_taken: Callable[[str], None] = lambda _: None
        """Called with the uuid of each message that Claude Code has received."""
        self.running_agents: set[str] = set()
        """Ids of the sub-agents that work in the background."""
        self._stream = _Stream()
        self._waiting: dict[str, None] = {}
        """Uuids of our messages that the model has not been given yet."""
        self._tools: dict[str, Block] = {}
        self._own_turn: str | None = None
        """The last turn that Claude Code began by itself."""
        self._interrupted = False

    def find_input(self, call_id: str) -> dict[str, Any]:
        """Return the input of a tool call of this turn as the model wrote it."""
        use = self._tools.get(call_id)
        return {} if use is None else tools.tool_input(use.input)

    # -- turns

    def begin_message(self, uuid: str) -> None:
        """Expect a message, the first of a turn or one that is sent into it."""
        if not self._waiting and not self._tools:
            self._interrupted = False
        self._waiting[uuid] = None

    def drop_message(self, uuid: str) -> None:
        self._waiting.pop(uuid, None)

    def waiting_messages(self) -> list[str]:
        return [*self._waiting]

    def interrupt(self) -> None:
        """Note that the turn is being interrupted: how it ends then is no failure."""
        self._interrupted = True

    def begin_own_turn(self) -> None:
        """Claude Code has begun a turn by itself."""
        turn_id = self._own_turn = new_id()
        self._output.add(TurnBegun(turn_id=turn_id))
        self._output.begin(turn_id)

    def leave_own_turn(self) -> None:
        """End a turn that Claude Code has begun by itself, because a message goes into it."""
        if self._own_turn is not None and self._own_turn == self._output.turn_id:
            self._output.end(TurnEndReason.END_TURN)

    def end_turn(self, reason: TurnEndReason, error: str | None = None) -> None:
        self.forget_turn()
        self._output.end(reason, error)

    def forget_turn(self) -> None:
        self._waiting.clear()
        self._tools.clear()
        self._interrupted = False
        self._stream = _Stream()

    def register(self) -> None:
        if not self.is_registered:
            self.is_registered = True
            self._output.add(Registered(native_id=self.native_id))

    # -- lines

    def handle(self, line: StreamEvent | Assistant | User | System | Result | Lifecycle | RateLimit) -> None:
        match line:
            case StreamEvent():
                if line.parent_tool_use_id is None:
                    self._handle_stream(line)
            case Assistant():
                self._handle_assistant(line)
            case User():
                self._handle_user(line)
            case System():
                self._handle_system(line)
            case Result():
                self._handle_result(line)
            case Lifecycle():
                self.on_taken(line.command_uuid)
                if line.state != "queued":
                    self._waiting.pop(line.command_uuid, None)
            case RateLimit():
                self._handle_rate_limit(line.rate_limit_info)

    def handle_unknown(self, line: UnknownLine) -> None:
        if line.type not in _IGNORED_LINES:
            self._output.add_event(Other(native_kind=line.type, data=line.data))

    def _handle_stream(self, line: StreamEvent) -> None:
        part, stream = line.event, self._stream
        match part.type:
            case "content_block_delta":
                delta, block = part.delta, stream.block
                text = delta.text or delta.thinking or delta.partial_json
                if text and block is not None and (kind := _DELTA_KINDS.get(block.type)) is not None:
                    self._output.add_delta(kind, self._block_id(block), text)
            case "content_block_start":
                stream.index, stream.block = part.index, part.content_block
            case "content_block_stop":
                stream.block = None
            case "message_start":
                message_id = part.message.id if part.message is not None else ""
                if stream.block is not None:
                    # The request is repeated after an error in mid-stream.
                    self._retract(stream.block)
                self._stream = _Stream(message_id)
            case _:
                pass

    def _retract(self, block: Block) -> None:
        kind = _DELTA_KINDS.get(block.type)
        if kind is not None:
            self._output.drop_draft(kind, self._block_id(block))

    def _block_id(self, block: Block) -> str:
        return block.id or f"{self._stream.message_id}:{self._stream.index}"

    def _handle_assistant(self, line: Assistant) -> None:
        message, parent = line.message, line.parent_tool_use_id
        if parent is None and message.model != SYNTHETIC and message.usage is not None:
            self._usage.handle_request(message.model, message.usage)
        if line.error is not None:
            # The result that follows says the same, as the reason of the turn's end.
            return
        stream, anchor = self._stream, line.uuid if parent is None else None
        is_streamed = parent is None and stream.block is not None and stream.message_id == message.id
        for index, block in enumerate(message.blocks):
            message_id = f"{message.id}:{stream.index}" if is_streamed else f"{line.uuid}:{index}"
            match block.type:
                case "text":
                    if block.text:
                        self._output.add_message(message_id, block.text, anchor, parent=parent)
                case "thinking":
                    if block.thinking:
                        # No anchor: a cut at it would leave a message without its end.
                        self._output.add_thought(message_id, block.thinking, parent=parent)
                case "tool_use":
                    self._begin_tool(block, parent)
                case "redacted_thinking":
                    pass
                case _:
                    self._output.add_event(
                        Other(native_kind=f"assistant:{block.type}", data=to_builtins(block))
                    )

    def _begin_tool(self, use: Block, parent: str | None) -> None:
        if use.id in self._tools:
            return
        if len(self._tools) >= _MAX_TOOLS:
            del self._tools[next(iter(self._tools))]
        self._tools[use.id] = use
        self._output.add_event(tools.tool_call(use, parent, self._directory))

    def _handle_user(self, line: User) -> None:
        if line.is_replay:
            self.on_taken(line.uuid)
            self._waiting.pop(line.uuid, None)
            # Claude Code stores a conversation with its first message.
            self.register()
            return
        for block in line.message.blocks:
            if block.type == "tool_result":
                self._end_tool(block, line)

    def _end_tool(self, block: Block, line: User) -> None:
        use = self._tools.get(block.tool_use_id)
        if use is None:
            use = Block(type="tool_use", id=block.tool_use_id, name="tool")
            self._output.add_event(tools.tool_call(use, line.parent_tool_use_id, self._directory))
        if block.is_error is not True and line.parent_tool_use_id is None:
            plan = self._todos.handle_result(use, line.tool_use_result)
            if plan is not None:
                self._output.add_event(plan)
        self._output.add_event(tools.tool_result(block, line.tool_use_result, self._directory))

    # -- the end of a turn

    def _handle_result(self, result: Result) -> None:
        for update in self._usage.handle_result(result.model_usage):
            self._output.add_event(update)
        if self._output.turn_id is None:
            if result.is_error and not self._interrupted:
                self._output.add_notice(result_error(result), "agent_error", level="error")
            return
        if self._waiting or (self.running_agents and not self._interrupted):
            return
        if self._interrupted:
            self.end_turn(TurnEndReason.CANCELLED)
        elif result.is_error or result.subtype.startswith("error"):
            if result.subtype == "error_max_turns":
                self.end_turn(TurnEndReason.MAX_TURN_REQUESTS)
            elif (result.terminal_reason or "").startswith("aborted"):
                self.end_turn(TurnEndReason.CANCELLED)
            else:
                self.end_turn(TurnEndReason.FAILED, result_error(result))
        else:
            self.end_turn(_STOP_REASONS.get(result.stop_reason or "", TurnEndReason.END_TURN))

    # -- reports

    def _handle_system(self, line: System) -> None:
        match line.subtype:
            case "init":
                # It begins a turn, and comes after the reports of all modes that were set before.
                self._settings.forget_reports()
                if self._output.turn_id is None:
                    self.begin_own_turn()
                self._follow(line.session_id)
            case "status":
                if line.permission_mode is not None:
                    mode = self._settings.handle_mode(line.permission_mode)
                    if mode is not None:
                        self._output.add_event(ModeUpdate(permission_mode=mode))
            case "compact_boundary":
                compact = line.compact_metadata
                if compact is not None:
                    self._usage.handle_compaction(compact.post_tokens)
                    self._output.add_event(
                        Compacted(
                            automatic=compact.trigger != "manual", tokens_before=compact.pre_tokens,
                            tokens_after=compact.post_tokens,
                        )
                    )  # fmt: skip
            case "background_tasks_changed":
                self.running_agents = {
                    task.task_id for task in line.tasks if task.task_type == _SUB_AGENT_TASK
                }
            case "api_retry":
                self._output.add_event(
                    Notice(text=_retry_text(line), level="warning", code="retry", meta=_retry_meta(line))
                )
            case "permission_denied":
                text = f"Claude Code denied a tool call: {clean_line(str(line.message or 'no reason given'))}"
                meta = {"toolCallId": line.tool_use_id} if line.tool_use_id else None
                self._output.add_event(Notice(text=text, code="permission_denied", meta=meta))
            case "informational" | "local_command_output":
                if line.content:
                    self._output.add_notice(str(line.content), f"agent_{line.subtype}", level="info")
            case "hook_response":
                payload = session_start_payload(line)
                if payload is not None:
                    payload["hapi_source"] = self._source
                    payload.setdefault("source", self._source)
                    self._output.add_event(Other(native_kind=SESSION_START, data=payload))
                elif line.outcome not in ("success", ""):
                    text = f"The hook {line.hook_name} failed: {clean_line(line.stderr)}"
                    self._output.add_notice(text, "hook_failed")
            case _:
                # The other ones that are known say nothing new.
                pass

    def _follow(self, native_id: str) -> None:
        """Go on with another conversation, which the command /clear begins in the same process."""
        if native_id == self.native_id or not is_uuid(native_id):
            return
        self.native_id, self.is_registered = native_id, False
        text = "Claude Code goes on with a new conversation, which knows nothing of what was before."
        self._output.add_event(Notice(text=text, code="conversation_changed", meta={"nativeId": native_id}))

    def _handle_rate_limit(self, info: dict[str, Any]) -> None:
        status = info.get("status")
        if status not in (None, "allowed"):
            self._output.add_event(
                Notice(
                    text=f"Rate limit of the model: {status}", level="warning", code="rate_limit", meta=info
                )
            )


def result_error(result: Result) -> str:
    """Return why a turn failed, and how to log in if that is the reason."""
    text = result.result or "; ".join(result.errors) or result.subtype or "no reason given"
    if result.api_error_status == 401 or any(words in text for words in _LOGIN_WORDS):
        return f"{text} ({LOGIN_HINT})"
    return text


def _retry_text(line: System) -> str:
    status = f" {line.error_status}" if line.error_status else ""
    return f"The model did not answer ({clean_line(str(line.error))}{status}); attempt {line.attempt or 1} follows"


def _retry_meta(line: System) -> dict[str, Any]:
    fields = {"attempt": line.attempt, "maxRetries": line.max_retries, "delayMs": line.retry_delay_ms}
    return {name: value for name, value in fields.items() if value is not None}


def session_start_payload(line: System) -> dict[str, Any] | None:
    """Return the payload that our hook gave back, None if this is the end of another hook."""
    mark, found, payload = line.stderr.partition(HOOK_MARK)
    if line.hook_event != "SessionStart" or not found or mark:
        return None
    try:
        return decode(payload, dict[str, Any])
    except msgspec.DecodeError:
        return None
