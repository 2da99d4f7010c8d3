"""A launch whose agent is a child process, spoken to over its standard input and output."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

from farsteer.agents.base import Exited, Launch, LaunchPlan, Sink
from farsteer.agents.process import AgentProcess, ProcessExit
from farsteer.agents.process.background import BackgroundWork
from farsteer.agents.turns import TurnOutput
from farsteer.core.errors import AgentError, ErrorCode, FarsteerError
from farsteer.core.events import TurnEndReason
from farsteer.core.lines import Line, Oversized

_WRITE_TIMEOUT = 10.0


class ProcessLaunch(Launch):
    """Starts the process, delivers its output and ends it.

    A subclass opens the conversation (`_open`), takes each line of the agent (`_handle_line`), and ends its turn and
    whatever waits for the agent when the process is gone (`_handle_end`).
    """

    agent: str
    """The agent's name, as persons know it."""
    start_errors: ClassVar[tuple[ErrorCode, ...]] = ()
    """Codes that a failed start keeps; all others become `agent_start_failed`."""
    refusals: ClassVar[tuple[ErrorCode, ...]] = (ErrorCode.NOT_CAPABLE,)
    """Codes of what the plan asks for and the agent does not have: the start is refused, it has not failed."""

    def __init__(self, plan: LaunchPlan, sink: Sink) -> None:
        self._plan = plan
        self._sink = sink
        self._output = TurnOutput()
        self._sink_lock = asyncio.Lock()
        self._background = BackgroundWork(self.agent)
        self._process: AgentProcess
        self._ready = self._stopping = False
        self._exit_error: AgentError | None = None
        """The process has ended."""

    # -- what a subclass does

    @abstractmethod
    async def _open(self) -> None:
        """Open the plan's conversation. The process runs."""

    def _handle_line(self, line: bytes) -> None:
        """Take a line of the agent. A subclass that takes them in batches has its own `_handle_lines`."""
        raise NotImplementedError

    @abstractmethod
    def _handle_end(self, reason: TurnEndReason, error: str | None, died: AgentError) -> None:
        """End the running turn with `reason` and `error`, and fail whatever waits for the agent with `died`."""

    def _start_error(self, error: FarsteerError) -> AgentError:
        """Return the error of a failed start. The process has ended."""
        code = error.code if error.code in self.start_errors else ErrorCode.AGENT_START_FAILED
        return AgentError(
            error.message, code=code, **{**error.details, "stderr": self._process.stderr or None}
        )

    # -- the process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def _start(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the process and open the conversation.

        Raises:
            AgentError: The start failed; no process is left.
            FarsteerError: One of `refusals`: the agent does not have what the plan asks for; no process is left.
        """
        seconds = self._plan.startup_timeout
        self._process = AgentProcess.start(
            argv, cwd=self._plan.directory, environment=environment, on_lines=self._handle_output,
            on_exit=self._handle_exit,
        )  # fmt: skip
        try:
            async with asyncio.timeout(seconds):
                await self._open()
                await self._deliver()
            if self._exit_error is not None:
                raise self._exit_error
            self._ready = True
        except TimeoutError:
            raise await self._fail(AgentError(f"{self.agent} was not ready within {seconds:g} s")) from None
        except FarsteerError as error:
            failure = await self._fail(error)
            if error.code in self.refusals:
                raise
            raise failure from None
        finally:
            if not self._ready:
                self._process.kill("it did not start")
                await self._process.wait_reaped()

    async def _fail(self, error: FarsteerError) -> AgentError:
        self._process.kill("it did not start")
        await self._process.wait()
        return self._start_error(error)

    async def stop(self, grace: float = 3.0) -> None:
        self._stopping = True
        await self._process.stop(grace)
        # Bounded, because the sink may be waiting for this call.
        with suppress(TimeoutError):
            async with asyncio.timeout(max(grace, 1.0)):
                await self._process.wait()

    async def _handle_exit(self, ended: ProcessExit) -> None:
        is_requested = self._stopping or ended.asked is not None
        reason = TurnEndReason.CANCELLED if is_requested else TurnEndReason.CRASHED
        error = None if is_requested else f"the process of {self.agent} ended: {ended.reason}"
        self._exit_error = AgentError(f"{self.agent} ended: {ended.reason}", code=ErrorCode.AGENT_DIED)
        self._handle_end(reason, error, self._exit_error)
        await self._background.finish()
        if not self._ready:
            return
        exit_reason = "stopped" if self._stopping else ended.reason
        self._output.add(Exited(exit_code=ended.code, reason=exit_reason, stderr=ended.stderr or None))
        await self._deliver()

    # -- output and input

    async def _handle_output(self, lines: list[Line]) -> None:
        """Take what the process has written to its standard output."""
        await self._handle_lines(lines)

    async def _handle_lines(self, lines: list[Line]) -> None:
        for line in lines:
            if isinstance(line, Oversized):
                self._output.add_oversized(line)
            else:
                self._handle_line(line)
        await self._deliver()

    async def _deliver(self) -> None:
        async with self._sink_lock:
            outputs = self._output.drain()
            if outputs:
                await self._sink.put(outputs)

    async def _write(self, line: bytes) -> None:
        await self._process.write(line, _WRITE_TIMEOUT)

    def _write_soon(self, line: bytes) -> None:
        self._background.spawn(self._write(line))
