"""One session's life as Droid's notifications, in Droid's order.

Fragments overtake the log; each waits here for the entry it follows. A turn's `agent_turn_completed` and `idle` come
after everything that belongs to it, and only then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from farsteer.core import events as ev
from farsteer.core.api import SessionView
from farsteer.core.approvals import ApprovalKind, Outcome
from farsteer.core.events import Delta, Entry, TurnEndReason
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import ItemState
from farsteer.core.session import SessionState, Usage, apply
from farsteer.faces.droid import asking, notes
from farsteer.faces.droid.dialect import Dialect
from farsteer.faces.droid.modes import settings
from farsteer.faces.droid.notes import EXECUTING, IDLE, STREAMING, THINKING, WAITING, Note, Tokens
from farsteer.faces.droid.notices import notice, retracted
from farsteer.faces.droid.streaming import Streaming
from farsteer.faces.droid.transcript import TOOL, Transcript

Telling = Note | asking.Request | dict[str, Any]

_EARLY = 10_000
_REASONS = {
    TurnEndReason.CANCELLED: "cancelled",
    TurnEndReason.REFUSAL: "prompt_rejected",
    TurnEndReason.FAILED: "error",
    TurnEndReason.CRASHED: "error",
    TurnEndReason.LOST: "error",
}
_DROIDS_REASONS = {
    "model_usage_exhausted", "model_authentication_failed", "model_request_rejected", "model_provider_unreachable",
    "model_provider_unavailable", "permission_rejected", "completion_persistence_failed", "no_approver_available",
}  # fmt: skip
_NEVER_RAN = (ItemState.CANCELLED, ItemState.FAILED, ItemState.UNKNOWN)


def tokens(usage: Usage) -> Tokens:
    return Tokens(usage.input_tokens, usage.output_tokens, usage.cache_write_tokens, usage.cache_read_tokens)


class Teller:
    def __init__(
        self, state: SessionState, transcript: Transcript, dialect: Dialect, *, name: str, levels: bool
    ) -> None:  # fmt: skip
        self.state = state
        self.levels = levels
        """The client uses the newer words for autonomy."""
        self.default_model = ""
        """What the model is called where the session names none."""
        self.owed: set[str] = set()
        """Messages of this client that have no end yet."""
        self.asked: dict[str, asking.Request] = {}
        self._name = name
        self._dialect = dialect
        self._transcript = transcript
        self._streaming = Streaming(transcript)
        self.working = STREAMING if state.turn_id is not None else IDLE
        self._tools: set[str] = set()
        """Those that have no result yet."""
        self._requests: dict[str, str] = {}
        """The request that brought each message which is not in the log yet."""
        self._answers: dict[str, tuple[str, PermissionMode | None]] = {}
        self._early: deque[Delta] = deque(maxlen=_EARLY)
        self._used_before = tokens(state.usage)
        self._began = 0

    # -- what the client does

    def sent(self, item_id: str, request_id: str) -> None:
        self._requests[item_id] = request_id
        self.owed.add(item_id)

    def answered(self, approval_id: str, selected: str, mode: PermissionMode | None) -> None:
        """The client's answer is on its way, and the mode that comes with it."""
        self._answers[approval_id] = selected, mode

    def pending(self) -> list[asking.Request]:
        """What the session waits for already, put to the client."""
        for approval in self.state.approvals:
            known = self._transcript.uses.get(approval.tool_call_id or approval.id)
            self.asked[approval.id] = asking.request(approval, known, self._dialect)
        if self.asked:
            self.working = WAITING
        return [*self.asked.values()]

    def adopt(self, view: SessionView) -> Iterator[Telling]:
        """Take over the modes as they are now, which the log will say too."""
        before = self.state
        self.state = msgspec.structs.replace(
            before, permission_mode=view.permission_mode, model=view.model, effort=view.model_reasoning_effort
        )
        yield from self._changes(before)

    @property
    def settings(self) -> notes.Settings:
        state = self.state
        model = state.model or self.default_model
        return settings(state.permission_mode, model, state.effort, levels=self.levels)

    # -- what happens

    def fragment(self, delta: Delta) -> Iterator[Telling]:
        if delta.after > self.state.seq:
            self._early.append(delta)
        else:
            yield from self._fragment(delta)

    def tell(self, entry: Entry) -> Iterator[Telling]:
        before, event = self.state, entry.content
        self.state = msgspec.structs.replace(apply(before, event), seq=entry.seq)
        yield from self._before_messages(entry, before)
        for message in self._transcript.read(entry):
            yield from self._message(message, event)
        yield from self._after_messages(entry, before)
        while self._early and self._early[0].after <= self.state.seq:
            yield from self._fragment(self._early.popleft())

    def _before_messages(self, entry: Entry, before: SessionState) -> Iterator[Telling]:
        event = entry.content
        match event:
            case ev.TurnStart():
                self._began, self._used_before = entry.created_at, tokens(before.usage)
                self._streaming.begin()
                yield from self._state(STREAMING)
            case ev.AgentMessage() | ev.AgentThought():
                for note in self._streaming.whole(event):
                    yield from self._streamed(note)
            case ev.ApprovalResolved():
                yield from self._resolved(event, before)
                return
            case ev.Notice() if (told := notice(event)) is not None:
                yield told
            case ev.Notice() if ids := retracted(event):
                self._streaming.forget(ids)
                if (void := self._transcript.retract(ids)) is not None:
                    yield notes.Retracted(message_id=void)
            case ev.Notice() if event.level == "error":
                yield notes.failure(event.text, event.code or "Error")
            case ev.TurnEnd() if self._transcript.fails(event):
                yield notes.failure(event.error or "", event.reason.value)
            case _:
                pass
        yield from self._changes(before)

    def _after_messages(self, entry: Entry, before: SessionState) -> Iterator[Telling]:
        event = entry.content
        match event:
            case ev.UserMessage() if before.title is None and self.state.title is not None:
                yield notes.TitleUpdated(title=self.state.title, update_type="first_user_message")
            case ev.ToolCall() | ev.ToolCallUpdate() if event.status is ev.ToolStatus.IN_PROGRESS:
                yield from self._started(event.tool_call_id)
            case ev.ApprovalRequested():
                known = self._transcript.uses.get(event.approval.tool_call_id or event.approval.id)
                asked = self.asked[event.approval.id] = asking.request(event.approval, known, self._dialect)
                yield from self._state(WAITING)
                yield asked
            case ev.Other() if isinstance(event.data, dict):
                yield {**cast("dict[str, Any]", event.data), "type": event.native_kind}
            case ev.QueueUpdate() if event.state in _NEVER_RAN and event.item_id != before.turn_item:
                yield from self._never_ran(event, before)
            case ev.TurnEnd():
                yield from self._ended(entry, event, before)
            case _:
                pass

    def _changes(self, before: SessionState) -> Iterator[Telling]:
        now = self.state
        if (now.permission_mode, now.model, now.effort) != (
            before.permission_mode,
            before.model,
            before.effort,
        ):
            yield notes.SettingsUpdated(settings=self.settings)
        if now.usage != before.usage:
            total = tokens(now.usage)
            yield notes.UsageChanged(
                session_id=self._name, token_usage=total, inclusive_token_usage=total,
                last_call_token_usage=total.minus(tokens(before.usage)),
            )  # fmt: skip
        if now.title != before.title and before.title is not None and now.title is not None:
            kind = "manual_rename" if now.title_by_user else "llm_generated"
            yield notes.TitleUpdated(title=now.title, update_type=kind)

    # -- messages and tools

    def _message(self, message: notes.Message, event: ev.SessionEvent) -> Iterator[Telling]:
        if message.role == TOOL:
            yield from self._outcome(message)
            return
        use = message.content[-1] if message.content else None
        if isinstance(use, notes.ToolUse):
            yield notes.ToolCall(tool_use=use)
        request = self._requests.pop(event.item_id, None) if isinstance(event, ev.UserMessage) else None
        yield notes.CreateMessage(message=message, request_id=request)
        if isinstance(use, notes.ToolUse):
            self._tools.add(use.id)
            if not self.asked:
                yield from self._state(EXECUTING)
            yield notes.PhaseChanged(tool_use_id=use.id, tool_name=use.name, phase="queued")

    def _outcome(self, message: notes.Message) -> Iterator[Telling]:
        for block in message.content:
            if isinstance(block, notes.ToolOutcome):
                self._tools.discard(block.tool_use_id)
                yield notes.ToolResult(
                    tool_use_id=block.tool_use_id, message_id=message.id, content=block.content,
                    is_error=block.is_error,
                )  # fmt: skip
        if not self._tools and not self.asked:
            yield from self._state(STREAMING)

    def _started(self, call_id: str) -> Iterator[Telling]:
        use = self._transcript.uses.get(call_id)
        if use is None:
            return
        if not self.asked:
            yield from self._state(EXECUTING)
        yield notes.PhaseChanged(tool_use_id=call_id, tool_name=use.name, phase="executing")

    def _fragment(self, delta: Delta) -> Iterator[Telling]:
        note = self._streaming.fragment(delta)
        if note is not None:
            yield from self._streamed(note)

    def _streamed(self, note: Note) -> Iterator[Telling]:
        # A tool that runs or a person who is asked is what a client shows, whatever is said meanwhile.
        if not self.asked and not self._tools and isinstance(note, notes.TextDelta | notes.ThinkingDelta):
            yield from self._state(STREAMING if isinstance(note, notes.TextDelta) else THINKING)
        yield note

    # -- approvals and the turn

    def _resolved(self, event: ev.ApprovalResolved, before: SessionState) -> Iterator[Telling]:
        """The client's word counts where it was the answer; the mode that comes with it is told with it."""
        request = self.asked.pop(event.approval_id, None)
        answer, mode = self._answers.pop(event.approval_id, (None, None))
        if request is None:
            return
        allowed = event.outcome.allows
        if answer is None or (answer != asking.CANCEL) is not allowed:
            for_session = event.outcome is Outcome.APPROVED_FOR_SESSION
            answer, mode = asking.selected(request, event.option_id, allowed, for_session=for_session), None
        if allowed and mode is not None:
            # Its own entry follows, and changes nothing any more.
            self.state = msgspec.structs.replace(self.state, permission_mode=mode)
        if not self.asked:
            runs = allowed and request.approval.kind is not ApprovalKind.QUESTION
            yield from self._state(EXECUTING if runs else STREAMING)
        told = [*self._changes(before)]
        if request.approval.kind is not ApprovalKind.QUESTION:
            resolution = notes.PermissionResolved(
                request_id=event.approval_id, tool_use_ids=[request.use.id] if allowed else [], selected_option=answer
            )  # fmt: skip
            told = [resolution, *told] if self._dialect.resolves_first else [*told, resolution]
        yield from told

    def _ended(self, entry: Entry, event: ev.TurnEnd, before: SessionState) -> Iterator[Telling]:
        self.asked.clear()
        self._tools.clear()
        self._answers.clear()
        lasted = entry.created_at - self._began if self._began else 0
        yield self._completed(_reason(event), self._transcript.asked_by or event.turn_id, lasted)
        self.owed.discard(before.turn_item or "")
        yield from self._state(IDLE)

    def _never_ran(self, event: ev.QueueUpdate, before: SessionState) -> Iterator[Telling]:
        """A message that waited has an outcome and had no turn."""
        request, item = self._requests.pop(event.item_id, None), event.item_id
        if item not in self.owed:
            return
        self.owed.discard(item)
        waited = next((waiting for waiting in before.queue if waiting.id == item), None)
        if event.state is ItemState.CANCELLED:
            yield notes.QueuedDiscarded(text=waited.text if waited else "", request_id=request)
        else:
            yield notes.failure(event.reason or f"the message was {event.state.value}", event.state.value)
        if self.state.turn_id is None and not self.owed:
            reason = "cancelled" if event.state is ItemState.CANCELLED else "error"
            yield self._completed(reason, (waited.local_id if waited else None) or item, 0)
            yield notes.StateChanged(new_state=IDLE)

    def _completed(self, reason: str, turn: str, lasted: int) -> Note:
        total = tokens(self.state.usage)
        return notes.TurnCompleted(
            reason=reason, turn_id=turn, token_usage=total.minus(self._used_before), cumulative_token_usage=total,
            duration_ms=lasted,
        )  # fmt: skip

    def _state(self, new: str) -> Iterator[Telling]:
        if new != self.working:
            self.working = new
            yield notes.StateChanged(new_state=new)


def _reason(end: ev.TurnEnd) -> str:
    """The word for it; a Droid behind us has said its own."""
    said = (end.error or "").partition(":")[0]
    return said if said in _DROIDS_REASONS else _REASONS.get(end.reason, "completed")
