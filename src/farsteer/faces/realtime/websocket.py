"""Our websocket protocol for uvicorn: the same, and open to ready-made frames.

Each frame is written whole, by uvicorn and by us, so the two never mix inside one. Compression would need a state per
connection and is never offered.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from farsteer.faces.realtime.connection import publish

_SHUTDOWN_SECONDS = 1.0


class WebSocketConnection(WebSocketsSansIOProtocol):
    on_writable: Callable[[], None] | None = None

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn.available_extensions = []

    async def run_asgi(self) -> None:
        assert not self.conn.extensions, "ready-made frames cannot be compressed"
        publish(self.scope, self)
        await super().run_asgi()

    @property
    def behind(self) -> bool:
        return not self.writable.is_set()

    @property
    def buffered(self) -> int:
        return self.transport.get_write_buffer_size()

    def soft_limit(self, size: int) -> None:
        self.transport.set_write_buffer_limits(high=size)

    def message_limit(self, size: int) -> None:
        """Refuse longer messages while they arrive, not after they were read."""
        self.conn.max_message_size = size

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.on_writable is not None:
            self.on_writable()

    def write(self, data: bytes) -> None:
        if not self.close_sent and not self.transport.is_closing():
            self.transport.write(data)

    def abort(self) -> None:
        if not self.disconnected:
            self.transport.abort()

    def shutdown(self) -> None:
        super().shutdown()
        # A client that does not read must not hold up the end of the server.
        self.loop.call_later(_SHUTDOWN_SECONDS, self.abort)
