"""Waits, with a deadline, for a condition that no event announces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def eventually(condition: Callable[[], bool | Awaitable[bool]], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            answer = condition()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.005)
