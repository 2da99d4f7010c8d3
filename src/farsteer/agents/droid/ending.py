"""When a turn is over.

Newer CLIs say so: `agent_turn_completed` with the id of the message that began the turn. `idle` means nothing there;
it also comes while the process drains. A message that was streamed may still come whole after it. Older CLIs say only
`idle`, and some say it before the last message. So with them the turn ends when Droid is idle and nothing it owes is
missing. Time decides only where Droid is done and silent and something is still owed; there is no limit on a turn that
works.
"""

from __future__ import annotations

from typing import NamedTuple

from farsteer.core.events import TurnEndReason

IDLE = "idle"
STREAMING = "streaming_assistant_message"
HANDOFF = "spec_handoff"

COMPLETES_SINCE = (1, 206)
"""The first version of the protocol that is known to say `agent_turn_completed`."""
MESSAGE_PATIENCE = 1.0
"""How long a CLI that says it is done may owe the message whose text it has streamed."""
SILENCE_PATIENCE = 30.0
"""How long Droid may be idle and silent with a turn open: it drains no longer than that before it exits."""

_REASONS = {
    "completed": TurnEndReason.END_TURN,
    HANDOFF: TurnEndReason.END_TURN,
    "cancelled": TurnEndReason.CANCELLED,
    "permission_rejected": TurnEndReason.CANCELLED,
    "prompt_rejected": TurnEndReason.REFUSAL,
    "process_exit": TurnEndReason.CRASHED,
}


class Verdict(NamedTuple):
    reason: TurnEndReason
    error: str | None = None


class Ending:
    """Fed with what happens in a turn; `verdict` is what follows from it."""

    def __init__(self) -> None:
        self._completes = False
        self._closing = False
        self._reset()

    def _reset(self) -> None:
        self.message_id: str | None = None
        """Droid's id for the message that began the turn."""
        self._open = False
        self._begun = False
        """Droid has shown that it is at work on it: an idle before that belongs to the turn before."""
        self._idle = False
        self._awaits_message = False
        self._interrupted = False
        self._handed_off = False
        self._elsewhere: str | None = None
        """How the turn ended in the session it was handed to."""
        self._early: tuple[str, str] | None = None
        """A turn that ended before we were told which message began it, and how: with a fast model that happens."""
        self._error: str | None = None
        self._verdict: Verdict | None = None

    def closing(self) -> None:
        """We end the process: it says idle at once and goes on working, and its end is the turn's."""
        self._closing = True

    def speaks(self, protocol: str | None) -> None:
        """Which version of the protocol this CLI has."""
        if protocol is not None and not self._completes:
            numbers = [int(part) if part.isdecimal() else 0 for part in protocol.split(".")[:2]]
            self._completes = tuple(numbers) >= COMPLETES_SINCE

    def begin(self) -> None:
        self._reset()
        self._open = True

    def begun(self, message_id: str) -> None:
        """Droid has the message that began the turn, under this id."""
        self._begun = True
        self.message_id = message_id
        if self._early is not None:
            turn_id, reason = self._early
            self.completed(reason, turn_id)

    def interrupted(self) -> None:
        self._interrupted = True

    def state(self, new: str) -> None:
        self._begun = self._begun or new != IDLE
        self._idle = self._begun and new == IDLE
        if new == STREAMING:
            self._awaits_message = True

    def message(self) -> None:
        """A whole message of the assistant."""
        self._awaits_message = False
        self._error = None

    def tool_result(self) -> None:
        self._awaits_message = False

    def error(self, text: str) -> None:
        self._error = text
        self._awaits_message = False

    def refused(self, text: str) -> None:
        """The request that began the turn was answered with an error after all."""
        if self.message_id is None:
            self._verdict = Verdict(TurnEndReason.FAILED, text)
        else:
            self._error = text

    def completed(self, reason: str, turn_id: str | None, *, elsewhere: bool = False) -> None:
        """`elsewhere`: in the session to which the turn was handed."""
        self._completes = True
        if elsewhere:
            self._elsewhere = reason
            if self._handed_off:
                self._verdict = self._judge(reason)
        elif turn_id is None or turn_id == self.message_id:
            if reason != HANDOFF or self._elsewhere is not None:
                self._verdict = self._judge(self._elsewhere or reason)
            self._handed_off = reason == HANDOFF
        elif self.message_id is None:
            self._early = turn_id, reason

    def verdict(self, *, working: bool, asking: bool, streaming: bool) -> Verdict | None:
        """`working`: a tool has no result yet. `asking`: a person is asked. `streaming`: a message is not yet whole."""
        if not self._open:
            return None
        if self._verdict is None and (not self._idle or asking or self._closing):
            return None
        if self.patience(working=working, asking=asking, streaming=streaming) is not None:
            return None
        return self.overdue()

    def patience(self, *, working: bool, asking: bool, streaming: bool) -> float | None:
        """How long to wait for more before `overdue` counts, when Droid seems done. None: do not wait by the clock."""
        if not self._open or self._closing:
            return None
        if self._verdict is not None:
            owed = streaming and self._verdict.reason is TurnEndReason.END_TURN
            return MESSAGE_PATIENCE if owed else None
        if not self._idle or asking:
            return None
        if self._completes or working:
            return SILENCE_PATIENCE
        if self._awaits_message and not self._interrupted:
            return MESSAGE_PATIENCE
        return None

    def overdue(self) -> Verdict:
        """Droid is idle and will say no more."""
        if self._verdict is not None:
            return self._verdict
        if self._interrupted:
            return Verdict(TurnEndReason.CANCELLED)
        if self._error is not None:
            return Verdict(TurnEndReason.FAILED, self._error)
        return Verdict(TurnEndReason.END_TURN)

    def end(self) -> None:
        self._open = False

    def _judge(self, reason: str) -> Verdict:
        end = _REASONS.get(reason, TurnEndReason.FAILED)
        if self._closing and end is TurnEndReason.CRASHED:
            return Verdict(TurnEndReason.CANCELLED)
        if end is TurnEndReason.END_TURN or reason == "cancelled":
            return Verdict(end)
        told = self._error if end is TurnEndReason.FAILED else None
        return Verdict(end, f"{reason}: {told}" if told else reason)
