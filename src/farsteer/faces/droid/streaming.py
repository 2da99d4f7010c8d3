"""Fragments of messages, thoughts and tool output, as Droid streams them. Each character is told once."""

from __future__ import annotations

import time
from typing import Any

from farsteer.core.events import AgentMessage, AgentThought, Delta, DeltaKind
from farsteer.faces.droid.notes import (
    Note,
    Progress,
    TextComplete,
    TextDelta,
    ThinkingComplete,
    ThinkingDelta,
)
from farsteer.faces.droid.transcript import Transcript

_SHOWN_OUTPUT = 64 * 1024
"""Of a tool's output that is repeated with each new piece of it."""


class Streaming:
    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._sent: dict[str, int] = {}
        self._outputs: dict[str, str] = {}

    def begin(self) -> None:
        """A turn begins: what an earlier one left unfinished will not be finished."""
        self._sent.clear()
        self._outputs.clear()

    def forget(self, message_ids: list[str]) -> None:
        """The agent takes back what it has streamed of these."""
        for message_id in message_ids:
            self._sent.pop(message_id, None)

    def fragment(self, delta: Delta) -> Note | None:
        if delta.kind is DeltaKind.TOOL_OUTPUT:
            return self._progress(delta)
        sent = self._sent.get(delta.message_id, 0)
        if delta.offset > sent:
            return None  # something is missing before it: the whole message brings it
        if delta.offset == 0:
            sent = 0  # it begins anew: that it takes back what it streamed was told before
        new = delta.text[sent - delta.offset :]
        return self._delta(delta.kind, delta.message_id, new, sent) if new else None

    def whole(self, event: AgentMessage | AgentThought) -> list[Note]:
        """What was not streamed of it, and that it is complete."""
        thought = isinstance(event, AgentThought)
        kind = DeltaKind.THOUGHT if thought else DeltaKind.MESSAGE
        sent = self._sent.get(event.message_id, 0)
        rest = event.text[sent:]
        told: list[Note] = [self._delta(kind, event.message_id, rest, sent)] if rest else []
        self._sent.pop(event.message_id, None)
        message, block = self._transcript.place(event.message_id)
        complete = ThinkingComplete if thought else TextComplete
        return [*told, complete(message_id=message, block_index=block)]

    def _delta(self, kind: DeltaKind, message_id: str, text: str, sent: int) -> Note:
        self._sent[message_id] = sent + len(text)
        message, block = self._transcript.place(message_id)
        delta = ThinkingDelta if kind is DeltaKind.THOUGHT else TextDelta
        return delta(message_id=message, block_index=block, text_delta=text)

    def _progress(self, delta: Delta) -> Note | None:
        use = self._transcript.uses.get(delta.message_id)
        if use is None:
            return None
        update: dict[str, Any] = {
            "type": "status",
            "text": delta.text,
            "timestamp": time.time_ns() // 1_000_000,
        }
        output = self._outputs.get(use.id, "")
        if len(output) == delta.offset and len(output) + len(delta.text) <= _SHOWN_OUTPUT:
            self._outputs[use.id] = update["fullOutput"] = output + delta.text
        return Progress(tool_use_id=use.id, tool_name=use.name, update=update)
