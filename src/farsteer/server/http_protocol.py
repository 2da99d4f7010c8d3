"""Our HTTP protocol for uvicorn: the same, and open to ready-made chunks of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from farsteer.server.connection import publish


class HttpConnection(HttpToolsProtocol):
    on_flow: Callable[[], None] | None = None
    on_shutdown: Callable[[], None] | None = None
    """Called when the server stops, so that what waits on this connection can end."""
    on_lost: Callable[[], None] | None = None
    """Called when the connection is gone. ASGI's own message is not sent when the client has pipelined a request."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.lost = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()
        self._flow()
        if self.on_lost is not None:
            self.on_lost()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        publish(self.scope, self)

    @property
    def behind(self) -> bool:
        return self.flow.write_paused

    @property
    def open(self) -> bool:
        return not (self.behind or self.lost.is_set())

    @property
    def buffered(self) -> int:
        return self.transport.get_write_buffer_size()

    def soft_limit(self, size: int) -> None:
        self.transport.set_write_buffer_limits(high=size)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._flow()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._flow()

    def _flow(self) -> None:
        if self.on_flow is not None:
            self.on_flow()

    def write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        """Send what is buffered, then hang up."""
        self.transport.close()

    def abort(self) -> None:
        if not self.lost.is_set():
            self.transport.abort()

    def shutdown(self) -> None:
        super().shutdown()
        if self.on_shutdown is not None:
            self.on_shutdown()
