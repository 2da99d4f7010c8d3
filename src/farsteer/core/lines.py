"""Splits a byte stream into lines, with a limit on the length of a line."""

from __future__ import annotations

from typing import NamedTuple

LINE_LIMIT = 32 * 1024 * 1024
_HEAD = 200


class Oversized(NamedTuple):
    """Stands for a line over a limit. Its content is dropped except for the first bytes."""

    size: int
    head: bytes
    reason: str = "too long"

    @classmethod
    def of(cls, line: bytes, reason: str) -> Oversized:
        return cls(len(line), line[:_HEAD], reason)


Line = bytes | Oversized


class LineSplitter:
    """Returns the complete lines of the chunks it is fed, in order and without blank lines."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[Line]:
        if not self._size and chunk.endswith(b"\n") and len(chunk) <= self._limit:
            # The common case: the chunk holds whole lines only.
            return [line for line in chunk.split(b"\n") if line]
        first, newline, rest = chunk.partition(b"\n")
        self._hold(first)
        if not newline:
            return []
        lines = self.finish()
        *whole, tail = rest.split(b"\n")
        lines += [self._checked(line) for line in whole if line]
        self._hold(tail)
        return lines

    def finish(self) -> list[Line]:
        """Return the incomplete last line, if there is one."""
        size, parts = self._size, self._parts
        self._size, self._parts = 0, []
        if size > self._limit:
            return [Oversized(size, parts[0])]
        return [b"".join(parts)] if size else []

    def _hold(self, part: bytes) -> None:
        if not part:
            return
        within = self._size <= self._limit
        self._size += len(part)
        if self._size <= self._limit:
            self._parts.append(part)
        elif within:
            self._parts = [(self._parts[0] if self._parts else part)[:_HEAD]]

    def _checked(self, line: bytes) -> Line:
        return line if len(line) <= self._limit else Oversized(len(line), line[:_HEAD])
