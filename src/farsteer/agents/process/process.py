"""`AgentProcess`: one running agent, started, written to, read and stopped the same way for every adapter.

Lines are delivered in batches, one batch per chunk read. The next chunk is read when the callback returns, so a slow
receiver slows the agent down. The exit of the process is noticed at once, even while its descendants hold the pipes
open: they are killed, what the agent had written is delivered, and then `on_exit` is called, once and last.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import uuid
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from farsteer.agents.process import posix
from farsteer.agents.process.cgroups import LaunchGroup, create_group
from farsteer.agents.process.environment import LAUNCH_VARIABLE, RUN_AS_VARIABLE
from farsteer.agents.process.pipes import ReadPipe, TailPipe, WritePipe
from farsteer.agents.process.sweeper import SWEEPER, Leader, kill_leftovers
from farsteer.agents.process.user import AgentUser
from farsteer.core.errors import AgentError, ErrorCode, FarsteerError
from farsteer.core.json_limits import JsonTooComplex, is_simple
from farsteer.core.lines import LINE_LIMIT, Line, LineSplitter, Oversized
from farsteer.jsonrpc.input_check import check_input

WRITE_TIMEOUT = 10.0
_CLOSED_STDOUT_GRACE = 2.0
"""Seconds that a process may run after it closed its stdout. It cannot send anything any more."""
_DRAIN_BYTES = 1024 * 1024
"""How much is read after the exit: more than a pipe holds, bounded because a descendant could write forever."""

_logger = logging.getLogger(__name__)


class ProcessExit(NamedTuple):
    """How an agent's process ended."""

    code: int
    """As `subprocess` reports it: negative for a signal."""
    stderr: str
    """The end of what it wrote to stderr."""
    asked: str | None = None
    """Why we ended it, or None if it ended by itself."""

    @property
    def reason(self) -> str:
        return self.asked or posix.describe_exit(self.code)


OnLines = Callable[[list[Line]], Awaitable[None]]
OnExit = Callable[[ProcessExit], Awaitable[None]]


class AgentProcess:
    """One running agent. Create it with `start`; it belongs to the event loop it was started in."""

    def __init__(
        self, process: subprocess.Popen[bytes], mark: str, group: LaunchGroup | None, on_lines: OnLines,
        on_exit: OnExit, line_limit: int,
    ) -> None:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.pid = process.pid
        self._process = process
        self._on_lines = on_lines
        self._on_exit = on_exit
        self._input = WritePipe(process.stdin)
        self._output = ReadPipe(process.stdout)
        self._stderr = TailPipe(process.stderr)
        self._lines = LineSplitter(line_limit)
        self._asked: str | None = None
        self._loop = asyncio.get_running_loop()
        self._code: asyncio.Future[int] = self._loop.create_future()
        self._leader = Leader(self.pid, mark, group)
        SWEEPER.add_leader(self._leader)
        self._exit_descriptor: int | None = posix.open_exit_descriptor(self.pid)
        self._loop.add_reader(self._exit_descriptor, self._handle_exit)
        self._reader = self._loop.create_task(self._run(), name=f"agent {self.pid}")

    @classmethod
    def start(
        cls, argv: Sequence[str], *, cwd: str, environment: Mapping[str, str], on_lines: OnLines, on_exit: OnExit,
        line_limit: int = LINE_LIMIT,
    ) -> AgentProcess:  # fmt: skip
        """Start `argv` in its own session. Must be called inside a running event loop.

        Args:
            argv: The command line.
            cwd: The working directory.
            environment: The whole environment. If it has no launch mark, a unique one is added.
            on_lines: Receives the lines of stdout in batches. If it raises, the process is ended.
            on_exit: Called once, after the last call of `on_lines`.
            line_limit: Longer lines, and JSON that is too complex, are delivered as `Oversized`.

        Raises:
            AgentError: The program cannot be started.
            BadRequest: It cannot run as the user that the environment names (`RUN_AS_VARIABLE`).
        """
        mark = environment.get(LAUNCH_VARIABLE) or uuid.uuid4().hex
        variables = {**environment, LAUNCH_VARIABLE: mark}
        run_as = variables.pop(RUN_AS_VARIABLE, None)
        if run_as is not None:
            user = AgentUser.find(run_as)
            user.check_directory(cwd)
            argv = user.command(argv)
        group = create_group(mark)
        command = argv if group is None else group.command(argv, variables.get("PATH"))
        try:
            process = posix.spawn(command, cwd=cwd, environment=variables)
        except (OSError, ValueError) as error:
            if group is not None:
                group.remove()
            raise AgentError(
                f"could not start {argv[0]}: {error}", code=ErrorCode.AGENT_START_FAILED
            ) from error
        return cls(process, mark, group, on_lines, on_exit, line_limit)

    @property
    def running(self) -> bool:
        return not self._code.done()

    @property
    def stderr(self) -> str:
        """The end of what it has written to stderr so far."""
        return self._stderr.text

    async def write(self, data: bytes, timeout: float = WRITE_TIMEOUT) -> None:
        """Write `data` to stdin. Raises AgentError if the process is gone or does not read in time."""
        await self._input.write(data, timeout)

    @contextmanager
    def handing_over(self) -> Generator[None]:
        """Raise `message_not_taken` instead of `agent_died` if the process has read nothing of what is written inside.

        This is known if nothing was written, or if the process and its descendants are gone and left it in the pipe.
        """
        before = self._input.written
        try:
            yield
        except FarsteerError as error:
            if error.code is ErrorCode.AGENT_DIED and self._input.possibly_read <= before:
                raise AgentError(error.message, code=ErrorCode.MESSAGE_NOT_TAKEN) from error
            raise

    async def stop(self, grace: float = 3.0) -> None:
        """Close stdin, then send SIGTERM, then SIGKILL, waiting `grace` seconds after each. Idempotent.

        Returns when the process is reaped. `on_exit` follows when `on_lines` has received the last line.
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
            _logger.error("agent process %d is still running %g s after SIGKILL", self.pid, grace)
            await asyncio.to_thread(kill_leftovers, [self._leader])

    def kill(self, reason: str) -> None:
        """Send SIGKILL at once. `wait_reaped` returns when the process is gone."""
        if self.running:
            self._asked = self._asked or reason
            posix.signal_group(self.pid, posix.SIGKILL)

    async def wait_reaped(self) -> None:
        """Return when the process is reaped, even if its last lines are not delivered yet."""
        await asyncio.shield(self._code)

    async def wait(self) -> None:
        """Return when `on_exit` has returned. Raises what it raised."""
        await asyncio.shield(self._reader)

    async def _exits_within(self, seconds: float) -> bool:
        await asyncio.wait([self._code], timeout=seconds)
        return not self.running

    async def _run(self) -> None:
        try:
            try:
                await self._read_lines()
                await self._exits_within(_CLOSED_STDOUT_GRACE)
            except Exception:
                _logger.exception("agent process %d is killed: its output could not be handled", self.pid)
            if self.running:
                posix.signal_group(self.pid, posix.SIGKILL)
                await asyncio.shield(self._code)
        finally:
            self._release()
        await self._on_exit(ProcessExit(self._code.result(), self.stderr, self._asked))

    async def _read_lines(self) -> None:
        while self.running:
            chunk = await self._output.read()
            if chunk:
                await self._deliver(self._lines.feed(chunk))
            elif chunk is not None:
                break
        left = _DRAIN_BYTES
        while left > 0 and (chunk := self._output.read_now()):
            left -= len(chunk)
            await self._deliver(self._lines.feed(chunk))
        await self._deliver(self._lines.finish())

    async def _deliver(self, lines: list[Line]) -> None:
        if lines:
            # Most lines are accepted at a glance, without a coroutine for each.
            await self._on_lines(
                [
                    line if isinstance(line, bytes) and is_simple(line) else await _checked(line)
                    for line in lines
                ]
            )

    def _handle_exit(self) -> None:
        """Kill what the process left behind while it is a zombie. It is reaped after that."""
        self._close_exit_descriptor()
        posix.signal_group(self.pid, posix.SIGKILL)
        SWEEPER.sweep(self._leader, self._reap)

    def _close_exit_descriptor(self) -> None:
        if self._exit_descriptor is not None:
            self._loop.remove_reader(self._exit_descriptor)
            os.close(self._exit_descriptor)
            self._exit_descriptor = None

    def _reap(self) -> None:
        if not self.running:
            return
        SWEEPER.remove_leader(self.pid)
        self._code.set_result(posix.reap(self._process))
        self._input.close()
        self._stderr.drain()
        self._output.wake()

    def _release(self) -> None:
        """End the process and close its pipes. It still runs only if this task was cancelled."""
        if self.running:
            self._close_exit_descriptor()
            posix.signal_group(self.pid, posix.SIGKILL)
            kill_leftovers([self._leader])
            self._reap()
            if self._leader.group is not None:
                self._leader.group.remove()
        self._stderr.close()
        self._output.close()


async def _checked(line: Line) -> Line:
    """Every adapter decodes the lines as JSON, and much of that is stored and shown as it is."""
    if isinstance(line, Oversized):
        return line
    try:
        await check_input(line)
    except JsonTooComplex as error:
        return Oversized.of(line, str(error))
    return line
