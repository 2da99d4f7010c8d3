"""Ctrl-C while an agent works: first it is asked to stop, then we leave."""

from __future__ import annotations

import asyncio
import signal
import sys
from types import TracebackType

from farsteer.cli.lifetime import end
from farsteer.cli.steering import Steering
from farsteer.core.errors import FarsteerError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """The first SIGINT or SIGTERM interrupts the turn of `session_id`, which then ends as cancelled.

    The next one, or one while there is no session yet, cancels the task that entered.
    """

    def __init__(self, steering: Steering) -> None:
        self.session_id: str | None = None
        self._steering = steering
        self._task: asyncio.Task[object] | None = None
        self._abort: asyncio.Task[None] | None = None

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
        if self._abort is not None:
            await end(self._abort)

    def _asked(self) -> None:
        if self.session_id is not None and self._abort is None:
            self._abort = asyncio.create_task(self._interrupt(self.session_id))
        elif self._task is not None:
            self._task.cancel()

    async def _interrupt(self, session_id: str) -> None:
        print("farsteer: interrupting; once more leaves at once", file=sys.stderr)
        try:
            await self._steering.abort(session_id)
        except FarsteerError as error:
            print(f"farsteer: cannot interrupt: {error.message}", file=sys.stderr)
