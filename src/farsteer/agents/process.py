"""An agent's process: started, fed, read and ended the same way for every adapter.

Lines arrive in batches, one batch per chunk read; awaiting the callback is the back-pressure. The exit of the process
is noticed at once, even while its descendants hold the pipes open: they are killed wherever they are, what the agent
had written is delivered, and then `on_exit` is called, once, as the last thing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from farsteer.agents import posix
from farsteer.agents.environment import LAUNCH
from farsteer.agents.pipes import ReadPipe, TailPipe, WritePipe
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.lines import LINE_LIMIT, Line, LineSplitter

WRITE_TIMEOUT = 10.0
_SILENT_GRACE = 2.0
"""How long a process may live after it closed its stdout: it can tell us nothing any more."""
_LEFT_BEHIND = 1024 * 1024
"""Read after the exit: no dead agent's pipe holds more, but a grandchild that escaped could write forever."""

_log = logging.getLogger(__name__)


class Exit(NamedTuple):
    code: int
    """As `subprocess` gives it: negative for a signal."""
    stderr: str
    """The end of what it wrote there."""
    asked: str | None = None
    """Why we ended it; None: it ended by itself."""

    @property
    def reason(self) -> str:
        return self.asked or posix.describe_exit(self.code)


OnLines = Callable[[list[Line]], Awaitable[None]]
OnExit = Callable[[Exit], Awaitable[None]]


class AgentProcess:
    """One running agent. Make it with `start`; it belongs to the event loop it was made in."""

    def __init__(
        self, process: subprocess.Popen[bytes], mark: str, on_lines: OnLines, on_exit: OnExit, line_limit: int
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.pid = process.pid
        self._process = process
        self._mark = mark
        self._on_lines = on_lines
        self._on_exit = on_exit
        self._input = WritePipe(process.stdin)
        self._output = ReadPipe(process.stdout)
        self._stderr = TailPipe(process.stderr)
        self._lines = LineSplitter(line_limit)
        self._asked: str | None = None
        self._loop = asyncio.get_running_loop()
        self._code: asyncio.Future[int] = self._loop.create_future()
        self._exit_descriptor = posix.exit_descriptor(self.pid)
        self._loop.add_reader(self._exit_descriptor, self._exited)
        self._life = self._loop.create_task(self._live(), name=f"agent {self.pid}")

    @classmethod
    def start(
        cls, argv: Sequence[str], *, cwd: str, environment: Mapping[str, str], on_lines: OnLines, on_exit: OnExit,
        line_limit: int = LINE_LIMIT,
    ) -> AgentProcess:  # fmt: skip
        """Start `argv` in its own session, inside a running event loop. Raises AgentError.

        An environment without a mark gets one that nobody else has.
        """
        mark = environment.get(LAUNCH) or uuid.uuid4().hex
        try:
            process = posix.spawn(argv, cwd=cwd, environment={**environment, LAUNCH: mark})
        except (OSError, ValueError) as error:
            raise AgentError(
                f"could not start {argv[0]}: {error}", code=ErrorCode.AGENT_START_FAILED
            ) from error
        return cls(process, mark, on_lines, on_exit, line_limit)

    @property
    def running(self) -> bool:
        return not self._code.done()

    @property
    def stderr(self) -> str:
        """The end of what it has written to stderr so far."""
        return self._stderr.text

    async def write(self, data: bytes, timeout: float = WRITE_TIMEOUT) -> None:
        """Hand `data` to the agent. Raises AgentError when it is gone or does not read in time."""
        await self._input.write(data, timeout)

    async def stop(self, grace: float = 3.0) -> None:
        """Close its input, then SIGTERM, then SIGKILL, each with `grace` seconds; returns when it is reaped.

        `on_exit` follows as soon as whoever takes the lines has taken the last. Idempotent.
        """
        if not self.running:
            return
        self._asked = self._asked or "stopped"
        self._input.close()
        for number in (None, posix.SIGTERM, posix.SIGKILL):
            if number is not None:
                posix.signal_group(self.pid, number)
            if await self._exits_within(grace):
                break
        else:
            _log.error("agent process %d outlives SIGKILL by %g s", self.pid, grace)
            self._sweep()

    def kill(self, reason: str) -> None:
        """SIGKILL at once, for an agent that there is no talking to; `reaped` tells when it is gone."""
        if self.running:
            self._asked = self._asked or reason
            posix.signal_group(self.pid, posix.SIGKILL)

    async def reaped(self) -> None:
        """Returns when the process is gone, whether or not its last lines are taken."""
        await asyncio.shield(self._code)

    async def wait(self) -> None:
        """Returns when `on_exit` has returned; raises what it raised."""
        await asyncio.shield(self._life)

    async def _exits_within(self, seconds: float) -> bool:
        await asyncio.wait([self._code], timeout=seconds)
        return not self.running

    async def _live(self) -> None:
        try:
            await self._read()
            if not await self._exits_within(_SILENT_GRACE):
                posix.signal_group(self.pid, posix.SIGKILL)
                await asyncio.shield(self._code)
        except Exception:  # noqa: BLE001
            _log.exception("agent process %d is ended: its output could not be taken", self.pid)
        finally:
            self._end()
        await self._on_exit(Exit(self._code.result(), self.stderr, self._asked))

    async def _read(self) -> None:
        while self.running:
            chunk = await self._output.read()
            if chunk:
                await self._deliver(self._lines.feed(chunk))
            elif chunk is not None:
                break
        left = _LEFT_BEHIND
        while left > 0 and (chunk := self._output.read_now()):
            left -= len(chunk)
            await self._deliver(self._lines.feed(chunk))
        await self._deliver(self._lines.finish())

    async def _deliver(self, lines: list[Line]) -> None:
        if lines:
            await self._on_lines(lines)

    def _exited(self) -> None:
        """It is a zombie now: sweep what it left behind, then reap it."""
        self._loop.remove_reader(self._exit_descriptor)
        os.close(self._exit_descriptor)
        self._sweep()
        self._code.set_result(posix.reap(self._process))
        self._input.close()
        self._stderr.drain()
        self._output.wake()

    def _sweep(self) -> None:
        posix.signal_group(self.pid, posix.SIGKILL)
        posix.sweep(self._mark.__eq__, self.pid)

    def _end(self) -> None:
        """Whatever happened, also a cancellation: nothing of it stays."""
        if self.running:
            self._exited()
        self._stderr.close()
        self._output.close()
