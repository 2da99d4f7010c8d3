"""Work that a launch does beside reading its agent's output."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

_logger = logging.getLogger(__name__)


class BackgroundWork:
    """Tasks that run at most until the agent's process has exited. `agent` is its name in the log."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`. If it fails, that is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._handle_done)

    async def finish(self) -> None:
        """Wait for all of it. What it waits for has been told that the process is gone."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _handle_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.warning("background work for %s failed: %s", self._agent, error)
