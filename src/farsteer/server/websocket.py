"""Closing a websocket in bounded time."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from farsteer.server.scopes import get_connection
from farsteer.server.uvicorn_protocols import Connection

_CLOSE_SECONDS = 2.0
NORMAL_CLOSURE = 1000


async def close_websocket(websocket: WebSocket, code: int = NORMAL_CLOSURE) -> None:
    """Close the websocket, or abort its connection if the client does not read within 2 s. Idempotent."""
    if websocket.application_state is not WebSocketState.CONNECTED:
        return
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            with suppress(WebSocketDisconnect, RuntimeError):
                await websocket.close(code)
    except TimeoutError:
        get_connection(websocket.scope, Connection).abort()
