"""Standard input and output as a transport, whether they are pipes, files or terminals.

The event loop supports only pipes, so one thread reads and one thread writes. Both are bounded: reading pauses while
nobody consumes the lines, and writers wait while the other side does not read.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable

from farsteer.core.lines import Line, LineSplitter

_CHUNK_BYTES = 256 * 1024
_MAX_UNREAD_CHUNKS = 4
_MAX_UNSENT_BYTES = 1024 * 1024


def claim_stdio() -> tuple[int, int]:
    """Return private file descriptors of stdin and stdout.

    Descriptor 0 becomes empty and descriptor 1 becomes stderr, so nothing else in this process disturbs the protocol.
    """
    sys.stdout.flush()
    source, target = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return source, target


class StdioTransport:
    """A `Transport` over stdin and stdout."""

    def __init__(self, reader: StdinReader, writer: StdoutWriter) -> None:
        self._reader = reader
        self._writer = writer

    def batches(self) -> AsyncIterator[list[Line]]:
        return self._reader.batches()

    async def write(self, data: bytes) -> None:
        await self._writer.write(data)


class StdinReader:
    """Reads the lines of a file descriptor until its end."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._capacity = threading.Semaphore(_MAX_UNREAD_CHUNKS)
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    async def batches(self) -> AsyncIterator[list[Line]]:
        splitter = LineSplitter()
        while chunk := await self._chunks.get():
            self._capacity.release()
            if lines := splitter.feed(chunk):
                yield lines
        # A last line without a newline may be complete or cut off; decoding it will show which.
        if lines := splitter.finish():
            yield lines

    def _read(self) -> None:
        """Pass chunks to the event loop. An empty one marks the end. Runs in its own thread."""
        chunk = b"-"
        while chunk:
            self._capacity.acquire()
            try:
                chunk = os.read(self._source, _CHUNK_BYTES)
            except OSError:
                chunk = b""
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:
                return  # the event loop is closed


class StdoutWriter:
    """Writes to a file descriptor in order.

    `broken` is set when the other side has closed its end, at once if that is a pipe. Later writes are dropped.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._has_capacity = asyncio.Event()
        self._empty = asyncio.Event()
        self._has_capacity.set()
        self._empty.set()
        self.broken = asyncio.Event()
        self._poll = select.poll()
        self._poll.register(target, select.POLLOUT)
        threading.Thread(target=self._write, name="stdout", daemon=True).start()
        self._is_watched = stat.S_ISFIFO(os.fstat(target).st_mode)
        if self._is_watched:
            # The end of a pipe for writing becomes "readable" when the other end is closed.
            self._loop.add_reader(target, self._mark_broken)

    async def write(self, line: bytes) -> None:
        """Queue `line`. Waits while too much is unsent."""
        await self._has_capacity.wait()
        if self.broken.is_set():
            return
        if not self._unsent_bytes and len(line) <= select.PIPE_BUF and self._is_writable():
            # A short line that fits into the pipe is written here: that saves the way through the other thread.
            try:
                line = line[os.write(self._target, line) :]
            except OSError:
                self._mark_broken()
                return
            if not line:
                return
        with self._changed:
            self._unsent.append(line)
            self._unsent_bytes += len(line)
            self._empty.clear()
            if self._unsent_bytes > _MAX_UNSENT_BYTES:
                self._has_capacity.clear()
            self._changed.notify()

    def _is_writable(self) -> bool:
        """Whether up to PIPE_BUF bytes can be written without blocking."""
        return bool(self._poll.poll(0))

    async def flush(self, seconds: float) -> bool:
        """Wait until everything is written. Returns False on a timeout or if the other side is gone."""
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return not self.broken.is_set()

    def _write(self) -> None:
        """Write what is queued. Runs in its own thread."""
        while True:
            with self._changed:
                while not self._unsent:
                    self._changed.wait()
                lines, self._unsent = self._unsent, []
            left = memoryview(b"".join(lines))
            try:
                while left:
                    left = left[os.write(self._target, left) :]
            except OSError:
                self._call_in_loop(self._mark_broken)
                return
            self._call_in_loop(self._mark_sent, sum(map(len, lines)))

    def _call_in_loop(self, callback: Callable[..., None], *values: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *values)
        except RuntimeError:
            return  # the event loop is closed

    def _mark_sent(self, size: int) -> None:
        with self._changed:
            self._unsent_bytes -= size
            if self._unsent_bytes <= _MAX_UNSENT_BYTES:
                self._has_capacity.set()
            if not self._unsent_bytes:
                self._empty.set()

    def close(self) -> None:
        """Stop watching the other side. Must be called before the descriptor is closed. Idempotent."""
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._target)

    def _mark_broken(self) -> None:
        self.close()
        self.broken.set()
        self._has_capacity.set()
        self._empty.set()
