"""Standard input and output for a protocol: whatever they are, a pipe, a file or a terminal.

The event loop takes pipes only, so one thread reads and one writes. Both are bounded: nothing more is read while
nobody takes it, and who writes waits while the peer does not read.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from collections.abc import AsyncIterator, Callable

from farsteer.core.lines import Line, LineSplitter

_CHUNK = 256 * 1024
_CHUNKS_AHEAD = 4
_UNSENT = 1024 * 1024


def take_over() -> tuple[int, int]:
    """Our own ends of stdin and stdout. What else is printed in this process goes to stderr from now on."""
    sys.stdout.flush()
    source, target = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return source, target


class Reader:
    """The lines of a file descriptor, as batches, until its end."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._ahead = threading.Semaphore(_CHUNKS_AHEAD)
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    async def batches(self) -> AsyncIterator[list[Line]]:
        splitter = LineSplitter()
        while chunk := await self._chunks.get():
            self._ahead.release()
            if lines := splitter.feed(chunk):
                yield lines
        # A line without its end may be a torn one; whether it is shows when it is read.
        if lines := splitter.finish():
            yield lines

    def _read(self) -> None:
        chunk = b"-"
        while chunk:
            self._ahead.acquire()
            try:
                chunk = os.read(self._source, _CHUNK)
            except OSError:
                chunk = b""
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:
                return  # the loop is gone, and so is whoever wanted to know


class Writer:
    """Writes lines in order. `broken` once the peer is gone; what is written then is dropped."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._news = threading.Condition()
        self._unsent: list[bytes] = []
        self._size = 0
        self._room = asyncio.Event()
        self._empty = asyncio.Event()
        self._room.set()
        self._empty.set()
        self.broken = asyncio.Event()
        self._poll = select.poll()
        self._poll.register(target, select.POLLOUT)
        threading.Thread(target=self._write, name="stdout", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Returns at once, or when the peer has read enough of what it was sent before."""
        await self._room.wait()
        if self.broken.is_set():
            return
        if not self._size and len(line) <= select.PIPE_BUF and self._takes():
            try:
                line = line[os.write(self._target, line) :]
            except OSError:
                self._gone()
                return
            if not line:
                return
        with self._news:
            self._unsent.append(line)
            self._size += len(line)
            self._empty.clear()
            if self._size > _UNSENT:
                self._room.clear()
            self._news.notify()

    def _takes(self) -> bool:
        """A few bytes can be written without waiting: that spares the way through the other thread."""
        return bool(self._poll.poll(0))

    async def flush(self, seconds: float) -> bool:
        """Everything written has been given to the peer; False: not in time, or it is gone."""
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return not self.broken.is_set()

    def _write(self) -> None:
        while True:
            with self._news:
                while not self._unsent:
                    self._news.wait()
                lines, self._unsent = self._unsent, []
            left = memoryview(b"".join(lines))
            try:
                while left:
                    left = left[os.write(self._target, left) :]
            except OSError:
                self._tell(self._gone)
                return
            self._tell(self._sent, sum(map(len, lines)))

    def _tell(self, what: Callable[..., None], *values: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *values)
        except RuntimeError:
            return  # the loop is gone: nobody waits

    def _sent(self, size: int) -> None:
        with self._news:
            self._size -= size
            if self._size <= _UNSENT:
                self._room.set()
            if not self._size:
                self._empty.set()

    def _gone(self) -> None:
        self.broken.set()
        self._room.set()
        self._empty.set()
