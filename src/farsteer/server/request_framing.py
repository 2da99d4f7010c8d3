"""Cutting the bytes of an HTTP/1.1 connection into pieces for the parser.

The parser gets a head only when it is complete and within its limits, and never more than one request at a time. It
would otherwise join a head that arrives in many small pieces at quadratic cost, keep a head of any size, and make an
object for each of the thousands of small requests that fit into one read.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from farsteer.core.errors import BadRequest, HeadersTooLarge

MAX_HEAD_BYTES = 64 * 1024
"""Of the request line and the headers together, and of the trailers after a chunked body."""
MAX_FIELDS = 100
_MAX_CHUNK_LINE = 256
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}")
_LINE_END = b"\r\n"
_HEAD_END = b"\r\n\r\n"


class _Part(Enum):
    """What the next byte belongs to."""

    HEAD = auto()
    BODY = auto()
    CHUNK_LINE = auto()
    CHUNK = auto()
    TRAILERS = auto()


class RequestFraming:
    """Add what was received, take pieces until None. After a head, `expect_body` must say what follows."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._searched = 0
        """The number of bytes in which the end of the head or line was not found."""
        self._part = _Part.HEAD
        self._remaining = 0
        """The bytes that are missing of the body or chunk."""

    def __len__(self) -> int:
        """The number of bytes that were added and not taken."""
        return len(self._data)

    @property
    def is_in_head(self) -> bool:
        """Whether the next piece is the head of a request."""
        return self._part is _Part.HEAD

    def add(self, data: bytes) -> None:
        self._data += data

    def expect_body(self, length: int | None) -> None:
        """After a head: a body of this length, or a chunked one for None, comes before the next head."""
        if length is None:
            self._part = _Part.CHUNK_LINE
        elif length:
            self._part = _Part.BODY
            self._remaining = length

    def take(self) -> bytes | None:
        """Return the next piece, or None if more bytes are needed.

        Raises:
            HeadersTooLarge: the head or the trailers exceed a limit.
            BadRequest: the bytes are not HTTP.
        """
        if not self._data:
            return None
        match self._part:
            case _Part.HEAD:
                return self._take_head()
            case _Part.CHUNK_LINE:
                return self._take_chunk_line()
            case _Part.TRAILERS:
                return self._take_trailers()
            case _Part.BODY | _Part.CHUNK:
                return self._take_body()

    def _take_head(self) -> bytes | None:
        # Empty lines before a request are allowed.
        while self._data.startswith(_LINE_END):
            self._cut(len(_LINE_END))
        end = self._find(_HEAD_END) if self._data else -1
        return None if end < 0 else self._cut(end)

    def _take_trailers(self) -> bytes | None:
        if self._data.startswith(_LINE_END):
            end = len(_LINE_END)
        elif len(self._data) < len(_LINE_END) or (end := self._find(_HEAD_END)) < 0:
            return None
        self._part = _Part.HEAD
        return self._cut(end)

    def _find(self, separator: bytes) -> int:
        """Return the position after the separator, or -1 if it has not arrived yet. Checks the limits."""
        data = self._data
        position = data.find(separator, max(0, self._searched - len(separator) + 1))
        size = position + len(separator) if position >= 0 else len(data)
        if size > MAX_HEAD_BYTES:
            raise HeadersTooLarge(
                f"request line and headers exceed {MAX_HEAD_BYTES} bytes", limit=MAX_HEAD_BYTES
            )
        if position < 0:
            # A protocol without CRLF, such as TLS, would otherwise get its answer only after the timeout.
            newline = data.find(b"\n", self._searched)
            is_text = data[0] == 0x0D or 0x20 < data[0] < 0x7F
            if not is_text or (newline > 0 and data[newline - 1] != 0x0D):
                raise BadRequest("this is not HTTP/1.1; is the port meant for another protocol?")
            self._searched = len(data)
            return -1
        if data.count(_LINE_END, 0, position) > MAX_FIELDS:
            raise HeadersTooLarge(f"there are more than {MAX_FIELDS} header fields", limit=MAX_FIELDS)
        return size

    def _take_chunk_line(self) -> bytes | None:
        end = self._data.find(_LINE_END, 0, _MAX_CHUNK_LINE)
        if end < 0:
            if len(self._data) >= _MAX_CHUNK_LINE:
                raise BadRequest("a chunk of the body has an invalid size")
            return None
        match = _CHUNK_SIZE.match(self._data)
        if match is None:
            raise BadRequest("a chunk of the body has an invalid size")
        size = int(match[0], 16)
        self._part = _Part.CHUNK if size else _Part.TRAILERS
        self._remaining = size + len(_LINE_END)
        return self._cut(end + len(_LINE_END))

    def _take_body(self) -> bytes:
        piece = self._cut(min(self._remaining, len(self._data)))
        self._remaining -= len(piece)
        if not self._remaining:
            self._part = _Part.HEAD if self._part is _Part.BODY else _Part.CHUNK_LINE
        return piece

    def _cut(self, size: int) -> bytes:
        piece = bytes(self._data[:size])
        del self._data[:size]
        self._searched = 0
        return piece
