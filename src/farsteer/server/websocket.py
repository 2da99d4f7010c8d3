"""Closing a websocket, in bounded time."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from farsteer.server.connection import connection_of

_CLOSE_SECONDS = 2.0
NORMAL = 1000


async def close_socket(socket: WebSocket, code: int = NORMAL) -> None:
    """Idempotent, and bounded: a peer that does not read would never take our goodbye."""
    if socket.application_state is not WebSocketState.CONNECTED:
        return
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            with suppress(WebSocketDisconnect, RuntimeError):
                await socket.close(code)
    except TimeoutError:
        connection_of(socket.scope).abort()
