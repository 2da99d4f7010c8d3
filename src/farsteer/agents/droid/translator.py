"""From Droid's notifications to the vocabulary of the log.

Everything goes to a `TurnOutput`; whether the turn is over is left to an `Ending`. Notifications carry the id of
their session: a plan that is carried out in a new session moves the process there, and we follow. What belongs to a
session that is neither ours nor expected (a subagent's) is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from farsteer.agents.base import Registered
from farsteer.agents.droid import notes, notices
from farsteer.agents.droid.ending import Ending
from farsteer.agents.droid.history import MODEL_ONLY, text_blocks, text_id, thought_id, tool_use
from farsteer.agents.droid.settings import Dial
from farsteer.agents.droid.toolbox import Toolbox
from farsteer.agents.droid.usage import Meter
from farsteer.agents.turns import TurnOutput
from farsteer.core.events import DeltaKind, Notice, Other, TitleUpdate

_REMEMBERED = 256
_FLEETING = (
    notes.TextDelta, notes.ThinkingDelta, notes.TextComplete, notes.ThinkingComplete, notes.StateChanged,
    notes.PhaseChanged, notes.Heartbeat, notes.Progress, notes.UsageChanged,
)  # fmt: skip
"""Of a foreign session these are not kept: its messages and results say the same in whole."""


class Translator:
    def __init__(self, turns: TurnOutput, ending: Ending, dial: Dial, meter: Meter) -> None:
        self._turns = turns
        self._ending = ending
        self._dial = dial
        self.tools = Toolbox(turns)
        self._meter = meter
        self._mcp = notices.McpBoard()
        self.session_id: str | None = None
        self._former: set[str] = set()
        self._children: set[str] = set()
        """Sessions of subagents: never ours."""
        self._may_move = False
        self._moved = False
        """In this turn."""
        self._request_id: str | None = None
        self._streams: dict[str, dict[str, DeltaKind]] = {}
        """Our ids of what is being streamed, by Droid's message."""
        self._seen: dict[str, None] = {}
        self._title: str | None = None
        self._handlers: dict[type[Any], Callable[[Any, str | None], None]] = {
            notes.TextDelta: self._text_delta, notes.ThinkingDelta: self._thinking_delta,
            notes.CreateMessage: self._create_message, notes.Retracted: self._retracted, notes.Retry: self._retry,
            notes.StateChanged: self._state_changed, notes.ToolCall: self._tool_call,
            notes.PhaseChanged: self._phase_changed, notes.Progress: self._progress,
            notes.ToolResult: self._tool_result, notes.TurnCompleted: self._turn_completed,
            notes.UsageChanged: self._usage_changed, notes.SettingsUpdated: self._settings_updated,
            notes.TitleUpdated: self._title_updated, notes.ErrorSaid: self._error_said,
            notes.McpStatus: self._mcp_status, notes.ChildSession: self._child_session,
        }  # fmt: skip

    def begin(self, request_id: str) -> None:
        """A turn begins with this request."""
        self._request_id = request_id
        self._moved = self._may_move = False
        self._streams.clear()
        self.tools.begin()
        self._meter.turn(self.session_id)
        self._ending.begin()

    @property
    def streaming(self) -> bool:
        """Of some message only fragments are known."""
        return bool(self._streams)

    def may_move(self) -> None:
        """The process may go on in another session from here."""
        self._may_move = True

    def tell(self, note: notes.Known, session: str | None) -> None:
        if (
            session != self.session_id
            and session is not None
            and self.session_id is not None
            and session not in self._former
            and not self._follow(session)
        ):
            self._foreign(note, session)
            return
        handle = self._handlers.get(type(note))
        if handle is not None:
            handle(note, session)
        elif (event := notices.other(note)) is not None:
            self._turns.add_event(event)

    def unknown(self, kind: str, data: Any, session: str | None) -> None:
        meta = None if session in (None, self.session_id) else {"sessionId": session}
        self._turns.add_event(Other(native_kind=kind, data=data, meta=meta))

    def move(self, session: str) -> None:
        """From now on this is our conversation."""
        if self.session_id is not None:
            self._former.add(self.session_id)
        self.session_id = session
        self._turns.add(Registered(native_id=session))

    def opened(self, session: str, used: notes.Tokens | None) -> None:
        """Our conversation, of which this is known."""
        self.move(session)
        unheard = self._meter.begin(session, used)
        if unheard is not None:
            self._turns.add_event(unheard)

    def _follow(self, session: str) -> bool:
        if not self._may_move or session in self._children:
            return False
        self._may_move, self._moved = False, True
        self.move(session)
        return True

    def _foreign(self, note: notes.Known, session: str) -> None:
        if not isinstance(note, _FLEETING):
            kind = str(type(note).__struct_config__.tag)
            self._turns.add_event(Other(native_kind=kind, data=note, meta={"sessionId": session}))

    # -- messages

    def _text_delta(self, note: notes.TextDelta, _session: str | None) -> None:
        message = note.message_id
        self._stream(DeltaKind.MESSAGE, message, text_id(message, note.block_index), note.text_delta)

    def _thinking_delta(self, note: notes.ThinkingDelta, _session: str | None) -> None:
        message = note.message_id
        self._stream(DeltaKind.THOUGHT, message, thought_id(message, note.block_index), note.text_delta)

    def _stream(self, kind: DeltaKind, message: str, ours: str, text: str) -> None:
        streams = self._streams.get(message)
        if streams is None:
            streams = self._streams[message] = {}
        streams[ours] = kind
        self._turns.add_delta(kind, ours, text)

    def _create_message(self, note: notes.CreateMessage, _session: str | None) -> None:
        message = note.message
        if message.visibility == MODEL_ONLY:
            return
        match message.role:
            case "assistant":
                self._assistant(message, note.extra)
            case "user":
                self._user(note)
            case _:
                if self._first_time(message.id):
                    for text in text_blocks(message):
                        self._turns.add_event(Notice(text=text, code="agent_notice", meta=note.extra))
        for block in message.content:
            if block.get("type") == "tool_result":
                call = str(block.get("toolUseId") or block.get("tool_use_id"))
                self.tools.result(call, block.get("content"), block.get("isError"))

    def _assistant(self, message: notes.Message, extra: dict[str, Any] | None) -> None:
        """The whole message overrides what was streamed of it."""
        streamed = self._streams.pop(message.id, {})
        texts = [ours for ours, kind in streamed.items() if kind is DeltaKind.MESSAGE]
        thoughts = [ours for ours, kind in streamed.items() if kind is DeltaKind.THOUGHT]
        meta = {**({"model": message.model_id} if message.model_id else {}), **(extra or {})} or None
        for index, block in enumerate(message.content):
            match block.get("type"):
                case "text":
                    ours = texts.pop(0) if texts else text_id(message.id, index)
                    self._turns.add_message(ours, str(block.get("text") or ""), message.id, meta=meta)
                case "thinking":
                    ours = thoughts.pop(0) if thoughts else thought_id(message.id, index)
                    self._turns.add_thought(ours, str(block.get("thinking") or ""), message.id)
                case "tool_use" if (use := tool_use(block)) is not None:
                    self.tools.announce(use)
                case "redacted_thinking" | "tool_result":
                    pass
                case kind:
                    if self._first_time(f"{message.id}:{index}"):
                        self._turns.add_event(Other(native_kind=f"content:{kind}", data=block))
        for ours in (*texts, *thoughts):
            self._turns.drop_draft(streamed[ours], ours)
        self._ending.message()

    def _user(self, note: notes.CreateMessage) -> None:
        message = note.message
        if self._ending.message_id is None and note.request_id in (None, self._request_id):
            self._ending.begun(message.id)
            self._first_time(message.id)
        elif self._first_time(message.id):
            for text in text_blocks(message):
                meta = {"messageId": message.id, **(note.extra or {})}
                self._turns.add_event(
                    Notice(text=f"Droid tells itself: {text}", code="agent_prompt", meta=meta)
                )

    def _retracted(self, note: notes.Retracted, _session: str | None) -> None:
        streamed = self._streams.pop(note.message_id, {})
        for ours, kind in streamed.items():
            self._turns.drop_draft(kind, ours)
        self._turns.add_event(notices.retracted(note, list(streamed)))

    def _retry(self, note: notes.Retry, _session: str | None) -> None:
        """The same text comes again under the same id: what was streamed so far is void."""
        for streamed in self._streams.values():
            for ours, kind in streamed.items():
                self._turns.drop_draft(kind, ours)
        self._streams.clear()
        self._turns.add_event(notices.retry(note))

    # -- tools

    def _tool_call(self, note: notes.ToolCall, _session: str | None) -> None:
        self.tools.hint(note.tool_use)

    def _phase_changed(self, note: notes.PhaseChanged, _session: str | None) -> None:
        if note.phase == "executing":
            self.tools.start(note.tool_use_id, note.tool_name)

    def _progress(self, note: notes.Progress, _session: str | None) -> None:
        self.tools.progress(note)

    def _tool_result(self, note: notes.ToolResult, _session: str | None) -> None:
        self.tools.result(note.tool_use_id, note.content, note.is_error, note.extra)
        self._ending.tool_result()

    # -- the turn and the session

    def _state_changed(self, note: notes.StateChanged, session: str | None) -> None:
        if session is None or session == self.session_id:
            self._ending.state(note.new_state)

    def _turn_completed(self, note: notes.TurnCompleted, session: str | None) -> None:
        if note.cumulative_token_usage is not None:
            self._used(session or self.session_id, note.cumulative_token_usage)
        ours = note.turn_id is None or note.turn_id == self._ending.message_id
        elsewhere = self._moved and not ours and session == self.session_id
        self._ending.completed(note.reason, note.turn_id, elsewhere=elsewhere)

    def _usage_changed(self, note: notes.UsageChanged, _session: str | None) -> None:
        session = note.session_id or self.session_id
        if session == self.session_id or session in self._former:
            self._used(session, note.inclusive_token_usage or note.token_usage, note.last_call_token_usage)

    def _used(self, session: str | None, total: notes.Tokens, last_call: notes.Tokens | None = None) -> None:
        update = self._meter.read(session, total, last_call)
        if update is not None:
            self._turns.add_event(update)

    def _settings_updated(self, note: notes.SettingsUpdated, _session: str | None) -> None:
        self._dial.read(note.settings)
        news = self._dial.news()
        if news is not None:
            self._turns.add_event(news)

    def _title_updated(self, note: notes.TitleUpdated, _session: str | None) -> None:
        if note.title != self._title:
            self._title = note.title
            by_user = note.update_type == "manual_rename"
            self._turns.add_event(TitleUpdate(title=note.title, by_user=by_user, meta=note.extra))

    def _error_said(self, note: notes.ErrorSaid, _session: str | None) -> None:
        self._ending.error(note.message)
        self._turns.add_event(notices.error(note))

    def _child_session(self, note: notes.ChildSession, _session: str | None) -> None:
        self._children.add(note.child_session_id)
        self._turns.add_event(notices.child_session(note))

    def _mcp_status(self, note: notes.McpStatus, _session: str | None) -> None:
        notice = self._mcp.read(note)
        if notice is not None:
            self._turns.add_event(notice)

    def _first_time(self, key: str) -> bool:
        if key in self._seen:
            return False
        if len(self._seen) >= _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = None
        return True
