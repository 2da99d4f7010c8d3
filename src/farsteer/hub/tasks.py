"""Tasks that outlive the request that started them, and end with the hub."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Tasks:
    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s failed", task.get_name(), exc_info=error)

    async def close(self, grace: float = 5.0) -> None:
        """Let what runs come to its end, then cancel what did not."""
        try:
            async with asyncio.timeout(grace):
                await self._settle()
        except TimeoutError:
            for task in self._running:
                task.cancel()
            await self._settle()

    async def _settle(self) -> None:
        while self._running:
            await asyncio.wait(self._running)
