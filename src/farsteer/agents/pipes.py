"""The two ends of an agent's pipes: reading at the pace of who listens, writing with a deadline.

They work on the descriptors themselves, so that asyncio and uvloop behave alike, a pause of reading is a real pause,
and what a dead agent left in the pipe can be taken out without waiting for those who still hold its other end.
"""

from __future__ import annotations

import asyncio
import os
from typing import IO

from farsteer.core.errors import AgentError, ErrorCode

CHUNK = 256 * 1024
_buffer = memoryview(bytearray(CHUNK))
"""One for all pipes, for a moment each: to make room for a whole chunk costs far more than to copy a line."""
STDERR_KEPT = 8 * 1024
_DRAINS = 16
"""Reads after the exit: more than a pipe holds, but an escaped grandchild may write forever."""


class ReadPipe:
    """The reading end. `read` waits for data; `wake` ends that waiting.

    The loop watches the descriptor as long as who listens keeps up: to watch it anew for every chunk costs several
    times as much as to read one.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._descriptor = file.fileno()
        os.set_blocking(self._descriptor, False)
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._watched = False
        self._awaited = False

    async def read(self) -> bytes | None:
        """The next chunk, b"" at the end of the stream, None after `wake` when nothing is there."""
        if not self._watched:
            # A flood must not keep the loop from everybody else.
            await asyncio.sleep(0)
            chunk = self.read_now()
            if chunk is not None:
                return chunk
            self._loop.add_reader(self._descriptor, self._readable)
            self._watched = True
        self._awaited = True
        try:
            await self._ready.wait()
        finally:
            self._awaited = False
        self._ready.clear()
        return self.read_now()

    def read_now(self) -> bytes | None:
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

    def _readable(self) -> None:
        if self._awaited:
            self._awaited = False
            self._ready.set()
        else:
            # Level-triggered: left in place, it would spin until somebody reads.
            self._unwatch()

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self._descriptor)


class WritePipe:
    """The writing end. Writes keep their order; one that does not get through in time breaks the pipe."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._descriptor = file.fileno()
        os.set_blocking(self._descriptor, False)
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._ready = asyncio.Event()

    async def write(self, data: bytes, timeout: float) -> None:
        """Returns when the pipe has taken all of `data`. Raises AgentError."""
        try:
            async with asyncio.timeout(timeout), self._turn:
                await self._write(memoryview(data))
        except TimeoutError:
            message = f"the agent did not take its input within {timeout:g} s"
            raise AgentError(message, code=ErrorCode.TIMEOUT) from None

    async def _write(self, left: memoryview) -> None:
        size = len(left)
        try:
            while left:
                if self._file.closed:
                    raise AgentError("the agent's input is closed", code=ErrorCode.AGENT_DIED)
                try:
                    left = left[os.write(self._descriptor, left) :]
                except BlockingIOError:
                    await self._writable()
                except OSError:
                    raise AgentError("the agent reads no more", code=ErrorCode.AGENT_DIED) from None
        finally:
            if 0 < len(left) < size:
                # Half a line is with the agent: whatever followed would be read as the rest of it.
                self.close()

    async def _writable(self) -> None:
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
            self._file.close()


class TailPipe:
    """Reads all that comes and keeps the end of it, so that its writer never blocks and we can say why it died."""

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
        """Take what is there now, and no more than a pipe can hold."""
        for _ in range(_DRAINS):
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
