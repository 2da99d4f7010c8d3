"""What the agent says: numbered JSON lines on stdout, written whole, from any thread."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

_STDOUT = 1
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Out:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0

    def send(self, type: str, **fields: Any) -> None:
        """One line. Fields that are None are left out."""
        with self._lock:
            self._write(self._line(type, fields))

    def line(self, type: str, **fields: Any) -> bytes:
        """The next line, for whoever must write it at a certain moment: nothing else may be said before it is `raw`."""
        with self._lock:
            return self._line(type, fields)

    def repeat(self, type: str, times: int, **fields: Any) -> None:
        """The same line several times, under the same number: what a careless agent does after a reconnect."""
        with self._lock:
            self._write(self._line(type, fields) * times)

    def flood(self, template: bytes, count: int) -> None:
        """`count` lines at once, each with its own number in the three places of `template`. For benchmarks."""
        with self._lock:
            first = self._number + 1
            self._number += count
            self._write(b"".join([template % (n, n, n) for n in range(first, first + count)]))

    def raw(self, data: bytes) -> None:
        with self._lock:
            self._write(data)

    def _line(self, type: str, fields: dict[str, Any]) -> bytes:
        self._number += 1
        known = {name: value for name, value in fields.items() if value is not None}
        body = {"type": type, "n": self._number, **known}
        return _encode(body).encode(errors="replace") + b"\n"

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(_STDOUT, left) :]
        except BrokenPipeError:
            # Nobody listens any more: there is nothing left to do for anybody.
            os._exit(0)
