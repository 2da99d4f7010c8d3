"""The terminal, as far as it is POSIX's own."""

from __future__ import annotations

import asyncio
import os
from typing import TextIO


async def read_line(stream: TextIO) -> str | None:
    """The next line typed at a terminal, without blocking the loop; None at its end. Can be cancelled."""
    loop = asyncio.get_running_loop()
    descriptor = stream.fileno()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        # A terminal hands out whole lines, so one read is one line.
        await readable.wait()
        data = os.read(descriptor, 65536)
    finally:
        loop.remove_reader(descriptor)
    return data.decode(errors="replace") if data else None
