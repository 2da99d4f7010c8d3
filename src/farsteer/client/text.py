"""A message that arrives twice, live in fragments and then whole, shown once."""

from __future__ import annotations

from farsteer.core.events import Delta

_REMEMBERED = 256


class LiveText:
    """Tells what is new of each message. A fragment that went missing is made up for when the whole arrives."""

    def __init__(self) -> None:
        self._shown: dict[str, int] = {}
        self._done: dict[str, None] = {}

    def fragment(self, delta: Delta) -> str:
        """The part of `delta` that was not shown yet; nothing after a hole."""
        shown = self._shown.get(delta.message_id, 0)
        if delta.message_id in self._done or delta.offset > shown:
            return ""
        new = delta.text[shown - delta.offset :]
        self._shown[delta.message_id] = shown + len(new)
        return new

    def whole(self, message_id: str, text: str) -> str:
        """The part of the finished message that was not shown yet."""
        if message_id in self._done:
            return ""
        self._done[message_id] = None
        if len(self._done) > _REMEMBERED:
            del self._done[next(iter(self._done))]
        return text[self._shown.pop(message_id, 0) :]

    def finished(self, message_id: str) -> bool:
        return message_id in self._done
