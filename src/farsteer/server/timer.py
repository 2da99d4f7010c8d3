"""A timer that can be started again and cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Timer:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        return self._handle is not None

    def start(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call `callback` after this time. Replaces what was started before."""
        self.cancel()
        self._handle = self._loop.call_later(seconds, self._run, callback)

    def start_watch(self, seconds: float, remaining: Callable[[], int], callback: Callable[[], None]) -> None:
        """Call `callback` once `remaining()` has not become smaller within this time."""
        before = remaining()

        def check() -> None:
            if remaining() < before:
                self.start_watch(seconds, remaining, callback)
            else:
                callback()

        self.start(seconds, check)

    def cancel(self) -> None:
        """Idempotent."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _run(self, callback: Callable[[], None]) -> None:
        self._handle = None
        callback()
