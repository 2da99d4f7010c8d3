"""A Codex without a process: it answers the requests of the adapter as the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from farsteer.agents.process import OnExit, OnLines, ProcessExit
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.lines import Line

Json = dict[str, Any]
Answer = Callable[[str, Json], Any]
"""Returns the result of a method, or raises `Refused`."""


class Refused(Exception):
    """The request is answered with an error, or with a line that is no response."""

    def __init__(self, error: Json | None = None, line: Line | None = None) -> None:
        super().__init__(error or line)
        self.error = error
        self.line = line


class FakeCodex:
    """Stands in for `AgentProcess` and has the same methods. `FakeCodex(answer).start` starts it."""

    pid = 2**22 + 1
    stderr = ""
    _on_lines: OnLines
    _on_exit: OnExit

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.requests: list[tuple[str, Json]] = []
        self.answers: list[Json] = []
        """What the adapter answered to requests of Codex."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._gone = asyncio.Event()

    def start(self, argv: Sequence[str], *, on_lines: OnLines, on_exit: OnExit, **_: Any) -> FakeCodex:
        self._on_lines, self._on_exit = on_lines, on_exit
        return self

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    async def write(self, data: bytes, timeout: float = 0.0) -> None:
        if not self.running:
            raise AgentError("it has ended", code=ErrorCode.AGENT_DIED)
        message = json.loads(data)
        if "method" not in message:
            self.answers.append(message)
        elif "id" in message:
            self.requests.append((message["method"], message["params"]))
            self._spawn(self._respond(message))

    async def _respond(self, message: Json) -> None:
        try:
            result = self._answer(message["method"], message["params"])
        except Refused as refused:
            if refused.line is not None:
                await self._on_lines([refused.line])
            else:
                await self.say({"id": message["id"], "error": refused.error})
            return
        if result is not None:
            await self.say({"id": message["id"], "result": result})

    async def say(self, *messages: Json) -> None:
        await self._on_lines([json.dumps(message).encode() for message in messages])

    def handing_over(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def stop(self, grace: float = 0.0) -> None:
        self.kill("stopped")
        await self._gone.wait()

    def kill(self, reason: str) -> None:
        self.die(-9, reason)

    def die(self, code: int, asked: str | None = None) -> None:
        if self.running:
            self._ended.set()
            self._spawn(self._exit(ProcessExit(code, "", asked)))

    async def _exit(self, ended: ProcessExit) -> None:
        await self._on_exit(ended)
        self._gone.set()

    async def wait_reaped(self) -> None:
        await self._ended.wait()

    async def wait(self) -> None:
        await self._gone.wait()

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
