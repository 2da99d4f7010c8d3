"""Reading websocket frames without a library."""

from __future__ import annotations

import asyncio
import struct


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return the first byte (flags and opcode) and the body of the next frame of a server."""
    first, second = await reader.readexactly(2)
    size = second & 0x7F
    if size == 126:
        (size,) = struct.unpack("!H", await reader.readexactly(2))
    elif size == 127:
        (size,) = struct.unpack("!Q", await reader.readexactly(8))
    return first, await reader.readexactly(size)
