"""Keeps a long loop from blocking the event loop."""

from __future__ import annotations

import asyncio

_SECONDS = 0.01


class TimeSlice:
    """Lets other tasks run once the current one has run for 10 ms."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + _SECONDS

    async def give_way(self) -> None:
        """Call this in every round of a loop that may not wait for anything else."""
        if self._loop.time() > self._end:
            await asyncio.sleep(0)
            self._end = self._loop.time() + _SECONDS
