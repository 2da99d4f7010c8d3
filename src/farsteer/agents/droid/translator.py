"""Droid's notifications as our events.

Events go to a `TurnOutput`; a `TurnCompletionDetector` decides when the turn is over. A turn that Droid begins by
itself is emitted as such: it begins when Droid works although nobody has sent a message. Notifications carry the id of
their session: if a plan is carried out in a new session, the process moves there, and the translator follows.
Notifications of other sessions (subagents) are passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from farsteer.agents.base import Registered, TurnBegun
from farsteer.agents.droid import protocol
from farsteer.agents.droid.protocol import AnyNotification, Message, TokenUsage
from farsteer.agents.droid.settings import SettingsTracker
from farsteer.agents.droid.tool_calls import ToolCalls
from farsteer.agents.droid.transcripts import text_id, thought_id, tool_use_in, visible_texts
from farsteer.agents.droid.turn_completion import TurnCompletionDetector
from farsteer.agents.droid.usage import UsageTracker
from farsteer.agents.turns import TurnOutput
from farsteer.core.droid import MODEL_ONLY, NoticeCode, WorkingState
from farsteer.core.events import DeltaKind, Notice, Other, SessionEvent, TitleUpdate
from farsteer.core.ids import new_id

_MAX_SEEN = 256
"""How many messages are remembered, to notice repetitions."""
_TRANSIENT = (
    protocol.TextDelta, protocol.ThinkingDelta, protocol.TextComplete, protocol.ThinkingComplete,
    protocol.WorkingStateChanged, protocol.ToolPhaseChanged, protocol.ToolHeartbeat, protocol.ToolProgress,
    protocol.TokenUsageChanged,
)  # fmt: skip
"""Not passed on from other sessions: their messages and tool results contain the same."""


class Translator:
    def __init__(
        self, output: TurnOutput, completion: TurnCompletionDetector, settings: SettingsTracker, usage: UsageTracker
    ) -> None:  # fmt: skip
        self._output = output
        self._completion = completion
        self._settings = settings
        self._usage = usage
        self.tools = ToolCalls(output)
        self._mcp_servers: list[dict[str, Any]] = []
        self.session_id: str | None = None
        self._former_sessions: set[str] = set()
        self._child_sessions: set[str] = set()
        """Sessions of subagents, which are never followed."""
        self._expects_new_session = False
        self._moved = False
        """The process has moved to another session in this turn."""
        self._request_id: str | None = None
        self._streams: dict[str, dict[str, DeltaKind]] = {}
        """Our ids of what is being streamed, by Droid's message id."""
        self._abandoned: dict[str, tuple[DeltaKind, str]] = {}
        """What was streamed before the model was asked again, by our id."""
        self._seen: dict[str, None] = {}
        self._title: str | None = None
        self._handlers: dict[type[Any], Callable[[Any, str | None], None]] = {
            protocol.TextDelta: self._text_delta, protocol.ThinkingDelta: self._thinking_delta,
            protocol.CreateMessage: self._create_message, protocol.MessageRetracted: self._message_retracted,
            protocol.ModelRetry: self._model_retry, protocol.WorkingStateChanged: self._state_changed,
            protocol.ToolCall: self._tool_call, protocol.ToolPhaseChanged: self._tool_phase_changed,
            protocol.ToolProgress: self._tool_progress, protocol.ToolResult: self._tool_result,
            protocol.TurnCompleted: self._turn_completed, protocol.TokenUsageChanged: self._usage_changed,
            protocol.SettingsUpdated: self._settings_updated, protocol.TitleUpdated: self._title_updated,
            protocol.ErrorReported: self._error_reported, protocol.McpStatusChanged: self._mcp_status_changed,
            protocol.ChildSessionAvailable: self._child_session_available,
        }  # fmt: skip

    def start_turn(self, request_id: str, *, busy: bool = False) -> None:
        """Start a turn whose message is sent with this request. `busy`: Droid is still in a turn of its own."""
        self._prepare_turn(request_id)
        self._completion.start_turn(busy=busy)

    def _begin_own_turn(self) -> None:
        """Droid has begun a turn by itself."""
        turn_id = new_id()
        self._output.add(TurnBegun(turn_id=turn_id))
        self._output.begin(turn_id)
        self._prepare_turn(None)
        self._completion.start_turn(own=True)

    def _prepare_turn(self, request_id: str | None) -> None:
        self._request_id = request_id
        self._moved = self._expects_new_session = False
        self._streams.clear()
        self._abandoned.clear()
        self.tools.clear()
        self._usage.start_turn(self.session_id)

    @property
    def is_streaming(self) -> bool:
        """Whether a message has been streamed in part and has not arrived whole."""
        return bool(self._streams)

    def expect_new_session(self) -> None:
        """From now on the process may move to another session."""
        self._expects_new_session = True

    def open_session(self, session_id: str, usage: TokenUsage | None) -> None:
        """Make this our session; `usage` is its total so far."""
        self._move_to(session_id)
        self._emit(self._usage.start_session(session_id, usage))

    def handle(self, notification: AnyNotification, session_id: str | None) -> None:
        if (
            session_id != self.session_id
            and session_id is not None
            and self.session_id is not None
            and session_id not in self._former_sessions
            and not self._follow(session_id)
        ):
            self._pass_on(notification, session_id)
            return
        handler = self._handlers.get(type(notification))
        if handler is not None:
            handler(notification, session_id)
        else:
            self._emit(_plain_event(notification))

    def handle_unknown(self, kind: str, data: Any, session_id: str | None) -> None:
        meta = None if session_id in (None, self.session_id) else {"sessionId": session_id}
        self._emit(Other(native_kind=kind, data=data, meta=meta))

    def _emit(self, event: SessionEvent | None) -> None:
        if event is not None:
            self._output.add_event(event)

    # -- sessions

    def _move_to(self, session_id: str) -> None:
        if self.session_id is not None:
            self._former_sessions.add(self.session_id)
        self.session_id = session_id
        self._output.add(Registered(native_id=session_id))

    def _follow(self, session_id: str) -> bool:
        if not self._expects_new_session or session_id in self._child_sessions:
            return False
        self._expects_new_session, self._moved = False, True
        self._move_to(session_id)
        return True

    def _pass_on(self, notification: AnyNotification, session_id: str) -> None:
        if not isinstance(notification, _TRANSIENT):
            kind = str(type(notification).__struct_config__.tag)
            self._emit(Other(native_kind=kind, data=notification, meta={"sessionId": session_id}))

    # -- messages

    def _text_delta(self, notification: protocol.TextDelta, _session: str | None) -> None:
        message_id = notification.message_id
        our_id = text_id(message_id, notification.block_index)
        self._stream(DeltaKind.MESSAGE, message_id, our_id, notification.text_delta)

    def _thinking_delta(self, notification: protocol.ThinkingDelta, _session: str | None) -> None:
        message_id = notification.message_id
        our_id = thought_id(message_id, notification.block_index)
        self._stream(DeltaKind.THOUGHT, message_id, our_id, notification.text_delta)

    def _stream(self, kind: DeltaKind, message_id: str, our_id: str, text: str) -> None:
        streams = self._streams.get(message_id)
        if streams is None:
            streams = self._streams[message_id] = {}
        streams[our_id] = kind
        self._output.add_delta(kind, our_id, text)

    def _create_message(self, notification: protocol.CreateMessage, _session: str | None) -> None:
        message = notification.message
        if message.visibility == MODEL_ONLY:
            return
        match message.role:
            case "assistant":
                self._assistant_message(message, notification.extra)
            case "user":
                self._user_message(notification)
            case _:
                if self._is_new(message.id):
                    for text in visible_texts(message):
                        self._emit(Notice(text=text, code="agent_notice", meta=notification.extra))
        for block in message.content:
            if block.get("type") == "tool_result":
                call_id = str(block.get("toolUseId") or block.get("tool_use_id"))
                self.tools.finish(call_id, block.get("content"), block.get("isError"))

    def _assistant_message(self, message: Message, extra: dict[str, Any] | None) -> None:
        """Emit a whole message in place of what was streamed of it."""
        self._abandoned.clear()
        streamed = self._streams.pop(message.id, {})
        text_ids = [our_id for our_id, kind in streamed.items() if kind is DeltaKind.MESSAGE]
        thought_ids = [our_id for our_id, kind in streamed.items() if kind is DeltaKind.THOUGHT]
        meta = {**({"model": message.model_id} if message.model_id else {}), **(extra or {})} or None
        for index, block in enumerate(message.content):
            match block.get("type"):
                case "text":
                    our_id = text_ids.pop(0) if text_ids else text_id(message.id, index)
                    self._output.add_message(our_id, str(block.get("text") or ""), message.id, meta=meta)
                case "thinking":
                    our_id = thought_ids.pop(0) if thought_ids else thought_id(message.id, index)
                    self._output.add_thought(our_id, str(block.get("thinking") or ""), message.id)
                case "tool_use" if (use := tool_use_in(block)) is not None:
                    self.tools.announce(use)
                case "redacted_thinking" | "tool_result":
                    pass
                case kind:
                    if self._is_new(f"{message.id}:{index}"):
                        self._emit(Other(native_kind=f"content:{kind}", data=block))
        for our_id in (*text_ids, *thought_ids):
            self._output.drop_draft(streamed[our_id], our_id)
        self._completion.message_received()

    def _user_message(self, notification: protocol.CreateMessage) -> None:
        message = notification.message
        is_prompt = self._completion.prompt_id is None and notification.request_id in (None, self._request_id)
        if is_prompt:
            self._completion.prompt_received(message.id)
        if is_prompt and not self._completion.is_own_turn:
            self._is_new(message.id)
        elif self._is_new(message.id):
            for text in visible_texts(message):
                meta = {"messageId": message.id, **(notification.extra or {})}
                self._emit(
                    Notice(text=f"Droid sent itself a message: {text}", code="agent_prompt", meta=meta)
                )

    def _message_retracted(self, notification: protocol.MessageRetracted, _session: str | None) -> None:
        streamed = self._streams.pop(notification.message_id, {})
        for our_id, kind in streamed.items():
            self._output.drop_draft(kind, our_id)
        meta = {
            "messageId": notification.message_id, "messageIds": list(streamed), **(notification.extra or {}),
        }  # fmt: skip
        text = "Droid retracted a message and asks the model again"
        self._emit(Notice(text=text, code=NoticeCode.MESSAGE_RETRACTED, meta=meta))

    def _model_retry(self, notification: protocol.ModelRetry, _session: str | None) -> None:
        """Drop what was streamed: Droid streams the same text again under the same id.

        It is kept aside, because that may fail too.
        """
        for streamed in self._streams.values():
            for our_id, kind in streamed.items():
                text = self._output.drop_draft(kind, our_id)
                if len(text) > len(self._abandoned.get(our_id, (kind, ""))[1]):
                    self._abandoned[our_id] = kind, text
        self._streams.clear()
        problem = _RETRY_REASONS.get(notification.reason, "failed")
        self._emit(
            Notice(
                text=f"The model {problem}; Droid tries again (attempt {notification.attempt})", level="warning",
                code=NoticeCode.MODEL_RETRY,
                meta={
                    "attempt": notification.attempt, "reason": notification.reason, **(notification.extra or {}),
                },
            )
        )  # fmt: skip

    def keep_abandoned(self) -> None:
        """The turn ends: emit what was streamed before the model was asked again and nothing has replaced."""
        for our_id, (kind, text) in self._abandoned.items():
            again = self._output.drop_draft(kind, our_id)
            add = self._output.add_message if kind is DeltaKind.MESSAGE else self._output.add_thought
            add(our_id, max(text, again, key=len), partial=True)
        self._abandoned.clear()

    def _is_new(self, key: str) -> bool:
        """Return False for a message that was handled before, and remember it."""
        if key in self._seen:
            return False
        if len(self._seen) >= _MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = None
        return True

    # -- tools

    def _tool_call(self, notification: protocol.ToolCall, _session: str | None) -> None:
        self.tools.preview(notification.tool_use)

    def _tool_phase_changed(self, notification: protocol.ToolPhaseChanged, _session: str | None) -> None:
        if notification.phase == "executing":
            self.tools.start(notification.tool_use_id, notification.tool_name)

    def _tool_progress(self, notification: protocol.ToolProgress, _session: str | None) -> None:
        self.tools.update(notification)

    def _tool_result(self, notification: protocol.ToolResult, _session: str | None) -> None:
        self.tools.finish(
            notification.tool_use_id, notification.content, notification.is_error, notification.extra
        )
        self._completion.tool_finished()

    # -- the turn and the session

    def _state_changed(self, notification: protocol.WorkingStateChanged, session_id: str | None) -> None:
        if session_id is not None and session_id != self.session_id:
            return
        works = notification.new_state != WorkingState.IDLE and self.session_id is not None
        if works and self._output.turn_id is None and not self._completion.is_shutting_down:
            self._begin_own_turn()
        self._completion.state_changed(notification.new_state)

    def _turn_completed(self, notification: protocol.TurnCompleted, session_id: str | None) -> None:
        total, turn_id = notification.cumulative_token_usage, notification.turn_id
        if total is not None:
            self._emit(self._usage.update(session_id or self.session_id, total))
        is_ours = turn_id is None or turn_id == self._completion.prompt_id
        in_handoff = self._moved and not is_ours and session_id == self.session_id
        self._completion.turn_completed(notification.reason, turn_id, in_handoff=in_handoff)

    def _usage_changed(self, notification: protocol.TokenUsageChanged, _session: str | None) -> None:
        session_id = notification.session_id or self.session_id
        if session_id == self.session_id or session_id in self._former_sessions:
            total = notification.inclusive_token_usage or notification.token_usage
            self._emit(self._usage.update(session_id, total, notification.last_call_token_usage))

    def _settings_updated(self, notification: protocol.SettingsUpdated, _session: str | None) -> None:
        self._settings.update(notification.settings)
        self._emit(self._settings.take_change())

    def _title_updated(self, notification: protocol.TitleUpdated, _session: str | None) -> None:
        if notification.title != self._title:
            self._title = notification.title
            by_user = notification.update_type == "manual_rename"
            self._emit(TitleUpdate(title=notification.title, by_user=by_user, meta=notification.extra))

    def _error_reported(self, notification: protocol.ErrorReported, _session: str | None) -> None:
        self._completion.error_reported(notification.message)
        meta = {"errorType": notification.error_type, **(notification.extra or {})}
        self._emit(Notice(text=notification.message, level="error", code="agent_error", meta=meta))

    def _child_session_available(
        self, notification: protocol.ChildSessionAvailable, _session: str | None
    ) -> None:
        self._child_sessions.add(notification.child_session_id)
        data = {
            "childSessionId": notification.child_session_id, "toolUseId": notification.tool_use_id,
            "subagentType": notification.subagent_type, "description": notification.description,
        }  # fmt: skip
        self._emit(Other(native_kind="child_session_available", data=data, meta=notification.extra))

    def _mcp_status_changed(self, notification: protocol.McpStatusChanged, _session: str | None) -> None:
        """Emit the state of the MCP servers if it has changed."""
        servers = notification.servers
        if servers == self._mcp_servers:
            return
        self._mcp_servers = servers
        states = [f"{server.get('name')} {server.get('status')}" for server in servers]
        failed = any(server.get("status") == "failed" for server in servers)
        meta = {"servers": servers, "summary": notification.summary, **(notification.extra or {})}
        self._emit(
            Notice(
                text=f"MCP servers: {', '.join(states) or 'none'}", level="warning" if failed else "info",
                code=NoticeCode.MCP_STATUS, meta=meta,
            )
        )  # fmt: skip


_RETRY_REASONS = {
    "overloaded": "is overloaded",
    "rate_limited": "limits our rate",
    "timeout": "did not answer in time",
    "network": "cannot be reached",
    "empty_response": "answered nothing",
}


def _plain_event(notification: AnyNotification) -> SessionEvent | None:
    """Return the event of a notification that changes no state; None if it has nothing to show."""
    extra = notification.extra or {}
    match notification:
        case protocol.McpAuthRequired(server_name=server, auth_url=url):
            message = notification.message or f"Authentication required for {server}"
            return Notice(
                text=f"{message}: {url}", level="warning", code=NoticeCode.MCP_AUTH_REQUIRED,
                meta={"serverName": server, "authUrl": url, **extra},
            )  # fmt: skip
        case protocol.McpAuthCompleted(server_name=server, outcome=outcome):
            return Notice(
                text=notification.message or f"Authentication of {server}: {outcome}",
                level="info" if outcome == "success" else "warning", code="mcp_auth_completed",
                meta={"serverName": server, "outcome": outcome, **extra},
            )  # fmt: skip
        case protocol.QueuedMessageDiscarded():
            return Notice(
                text=f"Droid discarded a queued message: {notification.text}", level="warning",
                code="queued_message_discarded", meta={"requestId": notification.request_id, **extra},
            )  # fmt: skip
        case protocol.SessionCompacted(removed_count=count):
            return Notice(
                text=f"Droid compacted the conversation: {count} messages became a summary", code="compacted",
                meta={"removedCount": count, "summaryId": notification.summary_id, **extra},
            )  # fmt: skip
        case protocol.WorkingDirectoryChanged(cwd=cwd):
            return Notice(text=f"Droid now works in {cwd}", code="directory_changed", meta={"cwd": cwd})
        case protocol.StructuredOutput():
            data = {
                "messageId": notification.message_id, "structuredOutput": notification.structured_output,
            }  # fmt: skip
            return Other(native_kind="structured_output", data=data, meta=notification.extra)
        case _:
            return None
