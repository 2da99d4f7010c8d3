"""A connection to a `codex app-server` that listens on a Unix socket. It carries a message per websocket frame."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import WebSocketException

from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.lines import LINE_LIMIT

_RETRY_SECONDS = 0.05


class ServerSocket:
    """Use `connect` to make one."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    @classmethod
    async def connect(cls, path: Path, is_running: Callable[[], bool]) -> ServerSocket:
        """Connect as soon as the server listens. Raises AgentError if it ends before."""
        while is_running():
            with suppress(OSError, WebSocketException):
                return cls(
                    await unix_connect(
                        socket_address(path), "ws://localhost/", compression=None, max_size=LINE_LIMIT,
                        ping_interval=None,
                    )
                )  # fmt: skip
            await asyncio.sleep(_RETRY_SECONDS)
        raise AgentError("Codex's server ended", code=ErrorCode.AGENT_START_FAILED)

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield what the server sends, until the connection ends."""
        with suppress(WebSocketException):
            async for message in self._connection:
                yield message.encode() if isinstance(message, str) else message

    async def send(self, line: bytes) -> None:
        """Send a message. Raises AgentError `agent_died` if the connection has ended."""
        try:
            await self._connection.send(line.decode())
        except WebSocketException:
            raise AgentError("Codex's server is gone", code=ErrorCode.AGENT_DIED) from None

    async def close(self) -> None:
        await self._connection.close()


def socket_address(path: Path) -> str:
    """Return the socket itself. Codex makes a link to it, because a path may be too long for a socket."""
    return os.path.realpath(path)
