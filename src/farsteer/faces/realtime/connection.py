"""A live client's TCP connection, as the fan-out sees it: the place where shared, ready-made bytes go."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, Protocol

_KEY = "farsteer.connection"


class Connection(Protocol):
    on_writable: Callable[[], None] | None
    """Called when a connection that was behind no longer is."""
    on_shutdown: Callable[[], None] | None
    """Called when the server stops, so that what waits on this connection can end."""

    @property
    def behind(self) -> bool:
        """More than the soft limit is unsent."""
        ...

    @property
    def buffered(self) -> int:
        """Unsent bytes."""
        ...

    def soft_limit(self, size: int) -> None: ...

    def write(self, data: bytes) -> None:
        """Send bytes that are framed already; nothing happens on a connection that is closing."""
        ...

    def close(self) -> None:
        """Send what is buffered, then hang up."""
        ...

    def abort(self) -> None:
        """Hang up now and forget what is buffered."""
        ...


def publish(scope: MutableMapping[str, Any], connection: Connection) -> None:
    scope[_KEY] = connection


def connection_of(scope: MutableMapping[str, Any]) -> Connection:
    """The connection a request came on; the server must run with `WebSocketConnection` and `HttpConnection`."""
    connection: Connection = scope[_KEY]
    return connection
