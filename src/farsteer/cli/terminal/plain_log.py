"""A session as lines that are printed once, one below the other. Does no I/O."""

from __future__ import annotations

from farsteer.cli.terminal.log_view import StreamedLines, entry_lines
from farsteer.client.live_events import StreamedText
from farsteer.core import events as ev
from farsteer.core.events import Delta, DeltaKind, Entry


class PlainLog:
    """Returns the lines that are complete after each change. A message that is streamed comes line by line."""

    def __init__(self) -> None:
        self._text = StreamedText()
        self._streams: dict[str, StreamedLines] = {}
        self._titles: dict[str, str] = {}

    def add(self, change: Entry | Delta) -> list[str]:
        lines = self._add_delta(change) if isinstance(change, Delta) else self._add_entry(change)
        return lines + self._finished()

    def _add_delta(self, delta: Delta) -> list[str]:
        if delta.kind in (DeltaKind.MESSAGE, DeltaKind.THOUGHT):
            new = self._text.add_delta(delta)
            if new:
                thought = delta.kind is DeltaKind.THOUGHT
                self._streams.setdefault(delta.message_id, StreamedLines(thought=thought)).add(new)
        return []

    def _add_entry(self, entry: Entry) -> list[str]:
        content = entry.content
        if isinstance(content, ev.AgentMessage | ev.AgentThought):
            rest = self._text.complete(content.message_id, content.text)
            stream = self._streams.pop(content.message_id, None)
            if stream is not None:
                stream.add(rest)
                return [line.text for line in stream.take_all()]
        if isinstance(content, ev.TurnEnd):
            self._streams.clear()
        return [line.text for line in entry_lines(entry, self._titles) if line.text]

    def _finished(self) -> list[str]:
        """Return the finished lines of the oldest message only: those of the next one belong below it."""
        oldest = next(iter(self._streams.values()), None)
        return [] if oldest is None else [line.text for line in oldest.take_finished()]
