"""A message that arrives twice, live in fragments and then whole, shown once."""

from __future__ import annotations

from farsteer.core.events import Delta
from farsteer.core.recent import RecentIds


class LiveText:
    """Tells what is new of each message. A fragment that went missing is made up for when the whole arrives."""

    def __init__(self) -> None:
        self._shown: dict[str, int] = {}
        self._finished = RecentIds()

    def fragment(self, delta: Delta) -> str:
        """The part of `delta` that was not shown yet; nothing after a hole."""
        shown = self._shown.get(delta.message_id, 0)
        if self.finished(delta.message_id) or delta.offset > shown:
            return ""
        new = delta.text[shown - delta.offset :]
        self._shown[delta.message_id] = shown + len(new)
        return new

    def whole(self, message_id: str, text: str) -> str:
        """The part of the finished message that was not shown yet."""
        if self.finished(message_id):
            return ""
        self._finished.add(message_id)
        return text[self._shown.pop(message_id, 0) :]

    def finished(self, message_id: str) -> bool:
        return message_id in self._finished
