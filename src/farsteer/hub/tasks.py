"""Background tasks that outlive the request that started them and end with the hub."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_logger = logging.getLogger(__name__)


class BackgroundTasks:
    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Start `work`. An exception that it raises is logged under `name`."""
        task = asyncio.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("background task failed: %s", task.get_name(), exc_info=error)

    async def close(self, grace_seconds: float = 5.0) -> None:
        """Wait for the running tasks, then cancel those that are still running."""
        try:
            async with asyncio.timeout(grace_seconds):
                await self._wait_all()
        except TimeoutError:
            for task in self._running:
                task.cancel()
            await self._wait_all()

    async def _wait_all(self) -> None:
        while self._running:
            await asyncio.wait(self._running)
