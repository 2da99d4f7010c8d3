"""The check of JSON from outside before it is decoded, without blocking the event loop."""

from __future__ import annotations

import asyncio

from farsteer.core.json_limits import check_limits, scan

_LONG_INPUT_BYTES = 256 * 1024


async def check_input(data: bytes) -> None:
    """Raise JsonTooComplex for JSON over the limits. Other tasks run while much of it is looked through."""
    if len(data) <= _LONG_INPUT_BYTES:
        check_limits(data)
        return
    for _ in scan(data):
        await asyncio.sleep(0)
