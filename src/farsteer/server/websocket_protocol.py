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

from farsteer.server.connection import publish

_SHUTDOWN_SECONDS = 1.0


class WebSocketConnection(WebSocketsSansIOProtocol):
    on_flow: Callable[[], None] | None = None
    behind = False
    _close_sent = False

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
    def close_sent(self) -> bool:
        """Set by uvicorn with its last frame: no other may follow."""
        return self._close_sent

    @close_sent.setter
    def close_sent(self, sent: bool) -> None:
        self._close_sent = sent
        self._flow()

    @property
    def open(self) -> bool:
        return not (self.behind or self._close_sent or self.disconnected)

    @property
    def buffered(self) -> int:
        return self.transport.get_write_buffer_size()

    def soft_limit(self, size: int) -> None:
        self.transport.set_write_buffer_limits(high=size)

    def message_limit(self, size: int) -> None:
        """Refuse longer messages while they arrive, not after they were read."""
        self.conn.max_message_size = size

    def pause_writing(self) -> None:
        super().pause_writing()
        self.behind = True
        self._flow()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.behind = False
        self._flow()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.behind = False
        self._flow()

    def _flow(self) -> None:
        if self.on_flow is not None:
            self.on_flow()

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
