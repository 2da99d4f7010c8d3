"""One session's events as Droid's notifications and requests, in Droid's order.

Deltas arrive before the entries they follow, and wait here for them. `agent_turn_completed` and `idle` come after
everything that belongs to the turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from farsteer.core import events as ev
from farsteer.core.api import SessionView
from farsteer.core.approvals import ApprovalKind, Outcome
from farsteer.core.droid import CANCEL, FAILURE_REASONS, WorkingState, completion_reason
from farsteer.core.events import Delta, Entry
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import ItemState
from farsteer.core.session import SessionState, Usage, apply
from farsteer.faces.droid import protocol
from farsteer.faces.droid.approvals import ApprovalRequest, build_request, equivalent_value
from farsteer.faces.droid.protocol import Dialect, Notification, TokenUsage, report_error
from farsteer.faces.droid.transcript import TOOL, DeltaStream, Transcript, notification_for, retracted_ids

Outgoing = Notification | ApprovalRequest | dict[str, Any]
"""A notification, a request, or the payload of a notification that is passed on as an agent sent it."""

_MAX_EARLY_DELTAS = 10_000
_ENDED_WITHOUT_TURN = (ItemState.CANCELLED, ItemState.FAILED, ItemState.UNKNOWN)


class SentMessage(NamedTuple):
    """A message of this client."""

    request_id: str
    text: str
    local_id: str | None


def token_usage(usage: Usage) -> TokenUsage:
    return TokenUsage(
        usage.input_tokens, usage.output_tokens, usage.cache_write_tokens, usage.cache_read_tokens
    )


class NotificationBuilder:
    """Keeps one session's state and yields what its client has to be sent."""

    def __init__(
        self, state: SessionState, transcript: Transcript, dialect: Dialect, *, name: str, use_levels: bool
    ) -> None:  # fmt: skip
        self.state = state
        self.use_levels = use_levels
        """The client uses the current names of autonomy levels."""
        self.default_model = ""
        """The model to report if the session names none."""
        self.unfinished_items: set[str] = set()
        """Queue items of this client that have no outcome yet."""
        self.open_requests: dict[str, ApprovalRequest] = {}
        self.working_state = WorkingState.STREAMING if state.turn_id is not None else WorkingState.IDLE
        self._name = name
        self._dialect = dialect
        self._transcript = transcript
        self._deltas = DeltaStream(transcript)
        self._running_tools: set[str] = set()
        self._sent: dict[str, SentMessage] = {}
        """This client's messages that are not in the log yet, by queue item."""
        self._answers: dict[str, tuple[str, PermissionMode | None]] = {}
        self._early_deltas: deque[Delta] = deque(maxlen=_MAX_EARLY_DELTAS)
        self._usage_before_turn = token_usage(state.usage)
        self._turn_started_at = 0

    # -- what the client does

    def message_accepted(self, item_id: str, message: SentMessage) -> None:
        self._sent[item_id] = message
        self.unfinished_items.add(item_id)

    def record_answer(self, approval_id: str, selected: str, mode: PermissionMode | None) -> None:
        """Remember the option this client has selected and the permission mode that follows from it."""
        self._answers[approval_id] = selected, mode

    def request_pending(self) -> list[ApprovalRequest]:
        """Return requests for the approvals that were open before the client entered the session."""
        for approval in self.state.approvals:
            known = self._transcript.tool_uses.get(approval.tool_call_id or approval.id)
            self.open_requests[approval.id] = build_request(approval, known, self._dialect)
        if self.open_requests:
            self.working_state = WorkingState.WAITING_FOR_CONFIRMATION
        return [*self.open_requests.values()]

    def apply_settings(self, view: SessionView) -> Iterator[Outgoing]:
        """Take over the settings of a view before their entries arrive."""
        before = self.state
        self.state = msgspec.structs.replace(
            before, permission_mode=view.permission_mode, model=view.model, effort=view.model_reasoning_effort
        )
        yield from self._state_changes(before)

    @property
    def settings(self) -> protocol.Settings:
        state = self.state
        model = state.model or self.default_model
        return protocol.build_settings(state.permission_mode, model, state.effort, use_levels=self.use_levels)

    # -- what happens in the session

    def for_delta(self, delta: Delta) -> Iterator[Outgoing]:
        if delta.after > self.state.seq:
            self._early_deltas.append(delta)
        else:
            yield from self._delta(delta)

    def for_entry(self, entry: Entry) -> Iterator[Outgoing]:
        before, event = self.state, entry.content
        self.state = msgspec.structs.replace(apply(before, event), seq=entry.seq)
        yield from self._before_messages(entry, before)
        for message in self._transcript.append(entry):
            yield from self._message(message, event)
        yield from self._after_messages(entry, before)
        while self._early_deltas and self._early_deltas[0].after <= self.state.seq:
            yield from self._delta(self._early_deltas.popleft())

    def _before_messages(self, entry: Entry, before: SessionState) -> Iterator[Outgoing]:
        event = entry.content
        match event:
            case ev.TurnStart():
                self._turn_started_at = entry.created_at
                self._usage_before_turn = token_usage(before.usage)
                self._deltas.reset()
                yield from self._change_state(WorkingState.STREAMING)
            case ev.AgentMessage() | ev.AgentThought() if event.parent_tool_call_id is None:
                for notification in self._deltas.complete(event):
                    yield from self._streamed(notification)
            case ev.ApprovalResolved():
                yield from self._resolved(event, before)
                return
            case ev.Notice() if (notification := notification_for(event)) is not None:
                yield notification
            case ev.Notice() if ids := retracted_ids(event):
                self._deltas.forget(ids)
                if (retracted := self._transcript.retract(ids)) is not None:
                    yield protocol.MessageRetracted(message_id=retracted)
            case ev.Notice() if event.level == "error":
                yield report_error(event.text, event.code or "Error")
            case ev.TurnEnd() if self._transcript.is_unreported_error(event):
                yield report_error(event.error or "", event.reason.value)
            case _:
                pass
        yield from self._state_changes(before)

    def _after_messages(self, entry: Entry, before: SessionState) -> Iterator[Outgoing]:
        event = entry.content
        match event:
            case ev.UserMessage() if before.title is None and self.state.title is not None:
                yield protocol.TitleUpdated(title=self.state.title, update_type="first_user_message")
            case ev.ToolCall() | ev.ToolCallUpdate() if event.status is ev.ToolStatus.IN_PROGRESS:
                yield from self._tool_started(event.tool_call_id)
            case ev.ApprovalRequested():
                known = self._transcript.tool_uses.get(event.approval.tool_call_id or event.approval.id)
                request = build_request(event.approval, known, self._dialect)
                self.open_requests[event.approval.id] = request
                yield from self._change_state(WorkingState.WAITING_FOR_CONFIRMATION)
                yield request
            case ev.Other() if isinstance(event.data, dict):
                yield {**cast("dict[str, Any]", event.data), "type": event.native_kind}
            case ev.QueueUpdate() if event.state in _ENDED_WITHOUT_TURN and event.item_id != before.turn_item:
                yield from self._ended_without_turn(event, before)
            case ev.TurnEnd():
                yield from self._turn_ended(entry, event, before)
            case _:
                pass

    def _state_changes(self, before: SessionState) -> Iterator[Outgoing]:
        """Notify of changed settings, token usage and title."""
        now = self.state
        if (now.permission_mode, now.model, now.effort) != (
            before.permission_mode,
            before.model,
            before.effort,
        ):
            yield protocol.SettingsUpdated(settings=self.settings)
        if now.usage != before.usage:
            total = token_usage(now.usage)
            yield protocol.TokenUsageChanged(
                session_id=self._name, token_usage=total, inclusive_token_usage=total,
                last_call_token_usage=total - token_usage(before.usage),
            )  # fmt: skip
        if now.title != before.title and before.title is not None and now.title is not None:
            kind = "manual_rename" if now.title_by_user else "llm_generated"
            yield protocol.TitleUpdated(title=now.title, update_type=kind)

    # -- messages and tools

    def _message(self, message: protocol.Message, event: ev.SessionEvent) -> Iterator[Outgoing]:
        if message.role == TOOL:
            yield from self._tool_result(message)
            return
        last = message.content[-1] if message.content else None
        if isinstance(last, protocol.ToolUse):
            yield protocol.ToolCall(tool_use=last)
        is_prompt = isinstance(event, ev.UserMessage)
        sent = self._sent.pop(event.item_id, None) if is_prompt else None
        request_id = sent and sent.request_id
        yield protocol.CreateMessage(message=message, request_id=request_id)
        if isinstance(last, protocol.ToolUse):
            self._running_tools.add(last.id)
            if not self.open_requests:
                yield from self._change_state(WorkingState.EXECUTING_TOOL)
            yield protocol.ToolPhaseChanged(tool_use_id=last.id, tool_name=last.name, phase="queued")

    def _tool_result(self, message: protocol.Message) -> Iterator[Outgoing]:
        for block in message.content:
            if isinstance(block, protocol.ToolResultContent):
                self._running_tools.discard(block.tool_use_id)
                yield protocol.ToolResult(
                    tool_use_id=block.tool_use_id, message_id=message.id, content=block.content,
                    is_error=block.is_error,
                )  # fmt: skip
        if not self._running_tools and not self.open_requests:
            yield from self._change_state(WorkingState.STREAMING)

    def _tool_started(self, call_id: str) -> Iterator[Outgoing]:
        use = self._transcript.tool_uses.get(call_id)
        if use is None:
            return
        if not self.open_requests:
            yield from self._change_state(WorkingState.EXECUTING_TOOL)
        yield protocol.ToolPhaseChanged(tool_use_id=call_id, tool_name=use.name, phase="executing")

    def _delta(self, delta: Delta) -> Iterator[Outgoing]:
        notification = self._deltas.notification(delta)
        if notification is not None:
            yield from self._streamed(notification)

    def _streamed(self, notification: Notification) -> Iterator[Outgoing]:
        # While a tool runs or an approval is open, that is the state a client shows, whatever is streamed.
        if not self.open_requests and not self._running_tools:
            if isinstance(notification, protocol.TextDelta):
                yield from self._change_state(WorkingState.STREAMING)
            elif isinstance(notification, protocol.ThinkingDelta):
                yield from self._change_state(WorkingState.THINKING)
        yield notification

    # -- approvals and the turn

    def _resolved(self, event: ev.ApprovalResolved, before: SessionState) -> Iterator[Outgoing]:
        """Notify of the option that was selected, together with the settings that follow from it."""
        request = self.open_requests.pop(event.approval_id, None)
        selected, mode = self._answers.pop(event.approval_id, (None, None))
        if request is None:
            return
        allowed = event.outcome.allows
        if selected is None or (selected != CANCEL) is not allowed:
            # Another client has answered.
            for_session = event.outcome is Outcome.APPROVED_FOR_SESSION
            selected = equivalent_value(request, event.option_id, allowed=allowed, for_session=for_session)
            mode = None
        if allowed and mode is not None:
            # The mode's own entry follows and will then change nothing.
            self.state = msgspec.structs.replace(self.state, permission_mode=mode)
        is_question = request.approval.kind is ApprovalKind.QUESTION
        if not self.open_requests:
            runs_tool = allowed and not is_question
            yield from self._change_state(
                WorkingState.EXECUTING_TOOL if runs_tool else WorkingState.STREAMING
            )
        outgoing = [*self._state_changes(before)]
        if not is_question:
            resolution = protocol.PermissionResolved(
                request_id=event.approval_id, tool_use_ids=[request.tool_use.id] if allowed else [],
                selected_option=selected,
            )  # fmt: skip
            resolved_first = self._dialect.resolves_before_settings
            outgoing = [resolution, *outgoing] if resolved_first else [*outgoing, resolution]
        yield from outgoing

    def _turn_ended(self, entry: Entry, event: ev.TurnEnd, before: SessionState) -> Iterator[Outgoing]:
        self.open_requests.clear()
        self._running_tools.clear()
        self._answers.clear()
        duration = entry.created_at - self._turn_started_at if self._turn_started_at else 0
        turn_id = self._transcript.prompt_id or event.turn_id
        yield self._turn_completed(_completion_reason(event), turn_id, duration)
        self.unfinished_items.discard(before.turn_item or "")
        yield from self._change_state(WorkingState.IDLE)

    def _ended_without_turn(self, event: ev.QueueUpdate, before: SessionState) -> Iterator[Outgoing]:
        """A queue item of this client was cancelled or failed before its turn began."""
        sent, item_id = self._sent.pop(event.item_id, None), event.item_id
        if item_id not in self.unfinished_items:
            return
        self.unfinished_items.discard(item_id)
        cancelled = event.state is ItemState.CANCELLED
        if cancelled:
            yield protocol.QueuedMessageDiscarded(
                text=sent.text if sent else "", request_id=sent and sent.request_id
            )
        else:
            yield report_error(event.reason or f"the message was {event.state.value}", event.state.value)
        if self.state.turn_id is None and not self.unfinished_items:
            turn_id = (sent and sent.local_id) or item_id
            yield self._turn_completed("cancelled" if cancelled else "error", turn_id, 0)
            yield protocol.WorkingStateChanged(new_state=WorkingState.IDLE)

    def _turn_completed(self, reason: str, turn_id: str, duration_ms: int) -> Notification:
        total = token_usage(self.state.usage)
        return protocol.TurnCompleted(
            reason=reason, turn_id=turn_id, token_usage=total - self._usage_before_turn,
            cumulative_token_usage=total, duration_ms=duration_ms,
        )  # fmt: skip

    def _change_state(self, new: WorkingState) -> Iterator[Outgoing]:
        if new is not self.working_state:
            self.working_state = new
            yield protocol.WorkingStateChanged(new_state=new)


def _completion_reason(end: ev.TurnEnd) -> str:
    """Return the reason of a turn's end; if the agent is a Droid, its error begins with Droid's own reason."""
    prefix = (end.error or "").partition(":")[0]
    return prefix if prefix in FAILURE_REASONS else completion_reason(end.reason)
