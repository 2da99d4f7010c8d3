"""Order: what belongs to one session is handled in the order it came, and no session waits for another."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

_log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


class KeyedQueue:
    """A lane has a task while it has work, and leaves nothing behind when it has none."""

    def __init__(self) -> None:
        self._work: dict[str | None, deque[Work]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0
        self._progress = asyncio.Event()

    def put(self, key: str | None, work: Work) -> None:
        self._count += 1
        waiting = self._work.get(key)
        if waiting is not None:
            waiting.append(work)
            return
        self._work[key] = deque([work])
        task = asyncio.get_running_loop().create_task(self._run(key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def room(self, most: int) -> None:
        """Returns while no more than `most` wait."""
        while self._count > most:
            self._progress.clear()
            await self._progress.wait()

    async def empty(self) -> None:
        """Everything that was put here has been handled."""
        while self._tasks:
            await asyncio.wait([*self._tasks])

    async def close(self) -> None:
        """Nothing more begins; what has begun is ended."""
        self._work.clear()
        self._count = 0
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._tasks)

    async def _run(self, key: str | None) -> None:
        waiting = self._work[key]
        while waiting:
            try:
                self._count -= 1
                self._progress.set()
                await waiting.popleft()()
            except Exception:  # noqa: BLE001
                _log.exception("a message could not be handled")
        if self._work.get(key) is waiting:
            del self._work[key]
