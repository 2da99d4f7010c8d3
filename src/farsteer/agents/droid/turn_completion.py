"""Detects when a turn is over.

Newer CLIs report it: `agent_turn_completed` names the message that began the turn. Their `idle` means nothing, because
it also comes while the process shuts down. A message that was streamed may still arrive whole after the report.

Older CLIs only report `idle`, some of them before the last message. Their turn ends when Droid is idle and nothing is
outstanding.

A timeout decides only if Droid is done and silent while something is outstanding. A turn that makes progress has no
time limit.
"""

from __future__ import annotations

from typing import NamedTuple

from farsteer.core.droid import SPEC_HANDOFF, WorkingState, turn_end_reason
from farsteer.core.events import TurnEndReason

REPORTS_COMPLETION_SINCE = (1, 206)
"""The first protocol version that is known to send `agent_turn_completed`."""
SILENCE_TIMEOUT = 30.0
"""How long Droid may be done and silent while something is outstanding: a message that has not arrived whole, a tool
without a result, or the report of the end. On a slow machine they come late. Droid shuts down within that time, too."""


class TurnOutcome(NamedTuple):
    reason: TurnEndReason
    error: str | None = None


class Outstanding(NamedTuple):
    """What a turn still waits for."""

    tool: bool
    """A tool has no result yet."""
    approval: bool
    """A person has to answer."""
    message: bool
    """A message was streamed and has not arrived whole."""


class TurnCompletionDetector:
    """Receives what happens in a turn; `result` and `timeout` follow from it."""

    def __init__(self) -> None:
        self._reports_completion = False
        self._shutting_down = False
        self._reset()

    def _reset(self) -> None:
        self.prompt_id: str | None = None
        """Droid's id of the message that began the turn."""
        self._open = False
        self._own = False
        self._awaits_prompt = False
        """What Droid does belongs to another turn until it has taken our message."""
        self._started = False
        """Droid works on the turn: an `idle` before that belongs to the previous turn."""
        self._idle = False
        self._awaits_message = False
        self._interrupted = False
        self._denied = False
        """A person has said no, after which Droid ends the turn without another message."""
        self._handed_off = False
        self._handoff_reason: str | None = None
        """How the turn ended in the session it was handed off to."""
        self._early_completion: tuple[str, str] | None = None
        """Turn id and reason of a completion that arrived before the prompt's id. A fast model causes this."""
        self._error: str | None = None
        self._result: TurnOutcome | None = None

    @property
    def is_own_turn(self) -> bool:
        """Droid has begun the open turn by itself."""
        return self._open and self._own

    @property
    def is_shutting_down(self) -> bool:
        return self._shutting_down

    def shut_down(self) -> None:
        """The process is being stopped: it reports idle at once and works on, so only its exit ends the turn."""
        self._shutting_down = True

    def set_protocol_version(self, version: str | None) -> None:
        if version is not None and not self._reports_completion:
            numbers = [int(part) if part.isdecimal() else 0 for part in version.split(".")[:2]]
            self._reports_completion = tuple(numbers) >= REPORTS_COMPLETION_SINCE

    def start_turn(self, *, own: bool = False, busy: bool = False) -> None:
        """A turn begins. `own`: Droid begins it by itself. `busy`: Droid first ends a turn of its own."""
        self._reset()
        self._open = True
        self._own = own
        self._awaits_prompt = busy

    def prompt_received(self, message_id: str) -> None:
        """Droid has stored the message that began the turn under this id."""
        self._started, self._awaits_prompt = True, False
        self.prompt_id = message_id
        if self._early_completion is not None:
            turn_id, reason = self._early_completion
            self.turn_completed(reason, turn_id)

    def interrupt_requested(self) -> None:
        self._interrupted = True

    def denial_sent(self) -> None:
        self._denied = True

    def state_changed(self, state: str) -> None:
        if self._awaits_prompt:
            return
        self._started = self._started or state != WorkingState.IDLE
        self._idle = self._started and state == WorkingState.IDLE
        if state == WorkingState.STREAMING:
            self._awaits_message = True

    def message_received(self) -> None:
        """A whole assistant message has arrived."""
        self._awaits_message = self._denied = False
        self._error = None

    def tool_finished(self) -> None:
        self._awaits_message = False

    def error_reported(self, text: str) -> None:
        self._error = text
        self._awaits_message = False

    def prompt_refused(self, text: str) -> None:
        """The request that began the turn was acknowledged and then answered with an error."""
        if self.prompt_id is None:
            self._result = TurnOutcome(TurnEndReason.FAILED, text)
        else:
            self._error = text

    def turn_completed(self, reason: str, turn_id: str | None, *, in_handoff: bool = False) -> None:
        """Droid has reported the end of a turn. `in_handoff`: in the session to which our turn was handed off."""
        self._reports_completion = True
        if in_handoff:
            self._handoff_reason = reason
            if self._handed_off:
                self._result = self._result_for(reason)
        elif turn_id is None or turn_id == self.prompt_id or self._own:
            if reason != SPEC_HANDOFF or self._handoff_reason is not None:
                self._result = self._result_for(self._handoff_reason or reason)
            self._handed_off = reason == SPEC_HANDOFF
        elif self.prompt_id is None:
            self._early_completion = turn_id, reason

    def end_turn(self) -> None:
        self._open = False

    def result(self, outstanding: Outstanding) -> TurnOutcome | None:
        """Return how the turn has ended, None if it has not."""
        if not self._open:
            return None
        if self._result is None and (not self._idle or outstanding.approval or self._shutting_down):
            return None
        if self.timeout(outstanding) is not None:
            return None
        return self.result_after_timeout()

    def timeout(self, outstanding: Outstanding) -> float | None:
        """Return after how much silence `result_after_timeout` counts, None if no timeout applies."""
        if not self._open or self._shutting_down:
            return None
        if self._result is not None:
            awaits_message = outstanding.message and self._result.reason is TurnEndReason.END_TURN
            return SILENCE_TIMEOUT if awaits_message else None
        if not self._idle or outstanding.approval:
            return None
        awaits_message = outstanding.message or (self._awaits_message and not self._denied)
        awaits_message = awaits_message and not self._interrupted
        return SILENCE_TIMEOUT if self._reports_completion or outstanding.tool or awaits_message else None

    def result_after_timeout(self) -> TurnOutcome:
        """Return how the turn has ended if nothing more arrives."""
        if self._result is not None:
            return self._result
        if self._interrupted:
            return TurnOutcome(TurnEndReason.CANCELLED)
        if self._error is not None:
            return TurnOutcome(TurnEndReason.FAILED, self._error)
        return TurnOutcome(TurnEndReason.END_TURN)

    def _result_for(self, reason: str) -> TurnOutcome:
        ours = turn_end_reason(reason)
        if self._shutting_down and ours is TurnEndReason.CRASHED:
            return TurnOutcome(TurnEndReason.CANCELLED)
        if ours is TurnEndReason.END_TURN or reason == "cancelled":
            return TurnOutcome(ours)
        error = self._error if ours is TurnEndReason.FAILED else None
        return TurnOutcome(ours, f"{reason}: {error}" if error else reason)
