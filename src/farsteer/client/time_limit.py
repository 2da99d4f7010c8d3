"""The `timeout` of a call: one error, whatever took too long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from farsteer.core.errors import TimedOut


@asynccontextmanager
async def time_limit(
    seconds: float | None, what: str, *, since: float | None = None, advice: str = "", **details: Any
) -> AsyncGenerator[None]:
    """Cancel the block if it takes longer than `seconds`. None sets no limit.

    Args:
        seconds: The limit.
        what: What took too long, for the message.
        since: The time of the event loop from which the seconds count. Defaults to now.
        advice: What to do next, for the message.
        details: The details of the error.

    Raises:
        TimedOut: The block took longer.
    """
    began = asyncio.get_running_loop().time() if since is None else since
    limit = asyncio.timeout_at(None if seconds is None else began + seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimedOut(f"{what} took longer than {seconds:g} s{advice}", **details) from None
