"""Background tasks that outlive the request that started them and end with the hub."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_FIRST_DELAY = 0.2
_LONGEST_DELAY = 30.0
_REPORT_SECONDS = 60.0


def retry_delay(failures: int) -> float:
    """Return the seconds before the next attempt after this many failures in a row: growing, jittered, bounded."""
    return min(_FIRST_DELAY * 2 ** min(failures - 1, 10), _LONGEST_DELAY) * random.uniform(0.5, 1.0)  # noqa: S311


class FailureLog:
    """Logs failures of work that is tried again, at most once a minute, with the number of those left out."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._next_report = 0.0
        self._left_out = 0

    def report(self, what: str, error: BaseException) -> None:
        now = time.monotonic()
        if now < self._next_report:
            self._left_out += 1
            return
        more = f" ({self._left_out} more failures since the last report)" if self._left_out else ""
        self._next_report, self._left_out = now + _REPORT_SECONDS, 0
        self._logger.warning(
            "%s failed and is tried again: %s%s", what, str(error) or type(error).__name__, more
        )


class BackgroundTasks:
    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._closing = asyncio.Event()
        self._failures = FailureLog(_logger)

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Start `work`. An exception that it raises is logged under `name`."""
        try:
            task = asyncio.create_task(work, name=name)
        except BaseException:
            work.close()
            raise
        self._running.add(task)
        task.add_done_callback(self._on_done)
        return task

    def spawn_until_done(
        self, work: Callable[[], Awaitable[None]], name: str, *, needed: Callable[[], bool] = lambda: True
    ) -> asyncio.Task[None]:
        """Do `work`, and again after every failure, whatever it is, with growing delays while it is `needed`."""
        return self.spawn(self.repeat_until_done(work, name, needed=needed), name)

    async def repeat_until_done(
        self, work: Callable[[], Awaitable[None]], name: str, *, needed: Callable[[], bool] = lambda: True
    ) -> None:
        """The work of `spawn_until_done`, as a part of another task."""
        failures = 0
        while needed():
            try:
                await work()
            except Exception as error:  # noqa: BLE001
                failures += 1
                self._failures.report(name, error)
            else:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(retry_delay(failures)):
                    await self._closing.wait()
                return

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("background task failed: %s", task.get_name(), exc_info=error)

    async def close(self, grace_seconds: float = 5.0) -> None:
        """Wait for the running tasks, then cancel those that are still running. What failed is not tried again."""
        self._closing.set()
        try:
            async with asyncio.timeout(grace_seconds):
                await self.wait()
        except TimeoutError:
            for task in self._running:
                task.cancel()
            await self.wait()

    @property
    def is_running(self) -> bool:
        return bool(self._running)

    async def wait(self) -> None:
        """Wait until no task is running."""
        while self._running:
            await asyncio.wait(self._running)
