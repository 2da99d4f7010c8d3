"""A work queue that keeps the order within each key and runs different keys concurrently."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

_logger = logging.getLogger(__name__)

Job = Callable[[], Awaitable[None]]


class KeyedQueue:
    """Runs the jobs of one key one after the other. A key has a task only while it has jobs."""

    def __init__(self) -> None:
        self._jobs: dict[str | None, deque[Job]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting = 0
        self._job_started = asyncio.Event()

    def put(self, key: str | None, job: Job) -> None:
        """Run `job` after every job that was put under the same key before it."""
        self._waiting += 1
        jobs = self._jobs.get(key)
        if jobs is not None:
            jobs.append(job)
            return
        self._jobs[key] = deque([job])
        task = asyncio.get_running_loop().create_task(self._run(key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_for_capacity(self, limit: int) -> None:
        """Wait until at most `limit` jobs have not started."""
        while self._waiting > limit:
            self._job_started.clear()
            await self._job_started.wait()

    async def join(self) -> None:
        """Wait until every job has finished."""
        while self._tasks:
            await asyncio.wait([*self._tasks])

    async def close(self) -> None:
        """Drop the jobs that have not started and cancel those that are running."""
        self._jobs.clear()
        self._waiting = 0
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def task_count(self) -> int:
        return len(self._tasks)

    async def _run(self, key: str | None) -> None:
        jobs = self._jobs[key]
        while jobs:
            try:
                self._waiting -= 1
                self._job_started.set()
                await jobs.popleft()()
            except Exception:
                _logger.exception("message handler failed")
        if self._jobs.get(key) is jobs:
            del self._jobs[key]
