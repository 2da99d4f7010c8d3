"""Ctrl-C while an agent works: first it is asked to stop, then we leave, and leaving is not interrupted."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from types import TracebackType

from farsteer.cli.lifetime import end
from farsteer.core.errors import FarsteerError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """The first SIGINT or SIGTERM calls `abort`, while there is one; the next cancels the task that entered, once."""

    def __init__(self) -> None:
        self.abort: Callable[[], Awaitable[None]] | None = None
        """Interrupts the turn, which then ends as cancelled."""
        self.done = False
        """Only goodbyes are left, and they are short."""
        self._task: asyncio.Task[object] | None = None
        self._aborting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Interrupts:
        self._task = asyncio.current_task()
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._asked)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)
        if self._aborting is not None:
            await end(self._aborting)

    def _asked(self) -> None:
        if self.done:
            return
        if self.abort is not None and self._aborting is None:
            self._aborting = asyncio.create_task(self._abort(self.abort))
        elif self._task is not None:
            self.done = True
            self._task.cancel()

    async def _abort(self, abort: Callable[[], Awaitable[None]]) -> None:
        print("farsteer: interrupting; once more leaves at once", file=sys.stderr)
        try:
            await abort()
        except FarsteerError as error:
            print(f"farsteer: cannot interrupt: {error.message}", file=sys.stderr)
