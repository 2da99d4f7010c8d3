"""Pipes to and from an agent's process: reading with back-pressure, writing with a timeout.

They use the file descriptors directly instead of asyncio streams for three reasons: asyncio and uvloop behave alike,
nothing is read ahead while the receiver is busy, and the remaining output of a dead agent can be read without waiting
for descendants that still hold the pipe open.
"""

from __future__ import annotations

import asyncio
import os
from typing import IO

from farsteer.agents.process import posix
from farsteer.core.errors import AgentError, ErrorCode

CHUNK = 256 * 1024
_buffer = memoryview(bytearray(CHUNK))
"""Shared by all pipes: allocating a whole chunk for every read costs far more than copying what was read."""
STDERR_KEPT = 8 * 1024
_DRAIN_READS = 16
"""Reads after the exit: more than a pipe holds, bounded because a descendant could write forever."""


class ReadPipe:
    """The reading end of a pipe. `read` waits for data; `wake` ends the wait.

    The event loop keeps watching the descriptor while the receiver keeps up, because registering it again for every
    chunk costs several times as much as reading one.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._descriptor = file.fileno()
        os.set_blocking(self._descriptor, False)
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._watched = False
        self._reading = False

    async def read(self) -> bytes | None:
        """Return the next chunk, b"" at the end of the stream, or None after `wake` if there is no data."""
        if not self._watched:
            # Yields to other tasks between two chunks of a flood.
            await asyncio.sleep(0)
            chunk = self.read_now()
            if chunk is not None:
                return chunk
            self._loop.add_reader(self._descriptor, self._handle_readable)
            self._watched = True
        self._reading = True
        try:
            await self._ready.wait()
        finally:
            self._reading = False
        self._ready.clear()
        return self.read_now()

    def read_now(self) -> bytes | None:
        """Return what can be read without waiting, b"" at the end of the stream, or None if there is nothing."""
        if self._file.closed:
            return b""
        try:
            return bytes(_buffer[: os.readv(self._descriptor, (_buffer,))])
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def wake(self) -> None:
        self._ready.set()

    def close(self) -> None:
        if not self._file.closed:
            self.wake()
            self._unwatch()
            self._file.close()

    def _handle_readable(self) -> None:
        if self._reading:
            self._reading = False
            self._ready.set()
        else:
            # The event is level-triggered: a watched descriptor that nobody reads would keep the loop busy.
            self._unwatch()

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self._descriptor)


class WritePipe:
    """The writing end of a pipe. Writes keep their order; one that times out half-way closes the pipe.

    `written` bytes have gone into the pipe. `possibly_read` of them may have been read: all, unless the pipe had no
    reader left when it was closed. Then what it still held is known to be unread.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._descriptor = file.fileno()
        os.set_blocking(self._descriptor, False)
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._ready = asyncio.Event()
        self.written = 0
        self._unread = 0

    @property
    def possibly_read(self) -> int:
        return self.written - self._unread

    async def write(self, data: bytes, timeout: float) -> None:
        """Write all of `data`. Raises AgentError if that fails or takes longer than `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout), self._lock:
                await self._write(memoryview(data))
        except TimeoutError:
            message = f"the agent did not read its input within {timeout:g} s"
            raise AgentError(message, code=ErrorCode.TIMEOUT) from None

    async def _write(self, left: memoryview) -> None:
        size = len(left)
        try:
            while left:
                if self._file.closed:
                    raise AgentError("the agent's input is closed", code=ErrorCode.AGENT_DIED)
                try:
                    count = os.write(self._descriptor, left)
                    self.written += count
                    left = left[count:]
                except BlockingIOError:
                    await self._wait_writable()
                except OSError:
                    raise AgentError("the agent has closed its input", code=ErrorCode.AGENT_DIED) from None
        finally:
            if 0 < len(left) < size:
                # The agent has half a line: it would read the next write as the rest of it.
                self.close()

    async def _wait_writable(self) -> None:
        self._ready.clear()
        self._loop.add_writer(self._descriptor, self._ready.set)
        try:
            await self._ready.wait()
        finally:
            if not self._file.closed:
                self._loop.remove_writer(self._descriptor)

    def close(self) -> None:
        if not self._file.closed:
            self._loop.remove_writer(self._descriptor)
            self._ready.set()
            self._unread = posix.count_unread(self._descriptor)
            self._file.close()


class TailPipe:
    """Reads everything and keeps the end of it: the writer never blocks, and the last lines explain a crash."""

    def __init__(self, file: IO[bytes], kept: int = STDERR_KEPT) -> None:
        self._file = file
        self._descriptor = file.fileno()
        os.set_blocking(self._descriptor, False)
        self._kept = kept
        self._tail = b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._read)

    @property
    def text(self) -> str:
        return self._tail.decode(errors="replace").strip()

    def drain(self) -> None:
        """Read what is available now."""
        for _ in range(_DRAIN_READS):
            if not self._read():
                break

    def _read(self) -> bool:
        if self._file.closed:
            return False
        try:
            chunk = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return False
        self._tail = (self._tail + chunk)[-self._kept :]
        return True

    def close(self) -> None:
        if not self._file.closed:
            self._loop.remove_reader(self._descriptor)
            self._file.close()
