"""Server-sent events, read from bytes as they come."""

from __future__ import annotations

from dataclasses import dataclass

from farsteer.core.errors import TooLarge

MAX_EVENT = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerEvent:
    name: str
    data: bytes
    id: str | None


class EventParser:
    """Feed it chunks, cut anywhere; it returns the events that are complete."""

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._rest: list[bytes] = []
        """Pieces of the unfinished line, joined once: a long line in many chunks costs linear time."""
        self._data: list[bytes] = []
        self._held = 0
        self._name = ""
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        first, newline, others = chunk.partition(b"\n")
        self._rest.append(first)
        self._held += len(first)
        if self._held > self._limit:
            raise TooLarge(f"an event of more than {self._limit} bytes")
        if not newline:
            return []
        lines = others.split(b"\n")
        lines.insert(0, b"".join(self._rest))
        self._rest = [lines.pop()]
        events = [event for line in lines if (event := self._line(line.removesuffix(b"\r")))]
        self._held = len(self._rest[0]) + sum(map(len, self._data))
        return events

    def _line(self, line: bytes) -> ServerEvent | None:
        if not line:
            return self._finish()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode(errors="replace")
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
        return None

    def _finish(self) -> ServerEvent | None:
        data, name, id = self._data, self._name, self._id
        self._data, self._name, self._id = [], "", None
        if not data:
            return None
        return ServerEvent(name or "message", b"\n".join(data), id)
