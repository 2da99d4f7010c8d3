"""How an ASGI application reaches the TCP connection of its request: where shared, ready-made bytes are written.

uvicorn's protocols are made ours in `websocket` and `http`; each puts itself into the scope of its requests.
"""

from __future__ import annotations

from asyncio import Transport
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast, overload

T = TypeVar("T")

_KEY = "farsteer.connection"


class Connection(Protocol):
    """What both kinds have in common."""

    on_flow: Callable[[], None] | None
    """Called when `behind` or `open` has changed."""
    transport: Transport

    @property
    def behind(self) -> bool:
        """More than the soft limit is unsent."""
        ...

    @property
    def open(self) -> bool:
        """Bytes may be written straight to the transport: the client is not behind, and this is not its end."""
        ...

    @property
    def buffered(self) -> int:
        """Unsent bytes."""
        ...

    def soft_limit(self, size: int) -> None: ...

    def write(self, data: bytes) -> None:
        """Send bytes that are framed already; nothing happens on a connection that is closing."""
        ...

    def abort(self) -> None:
        """Hang up now and forget what is buffered."""
        ...


def publish(scope: Any, connection: Connection) -> None:
    cast("dict[str, object]", scope)[_KEY] = connection


@overload
def connection_of(scope: Mapping[str, Any]) -> Connection: ...
@overload
def connection_of(scope: Mapping[str, Any], kind: type[T]) -> T: ...
def connection_of(scope: Mapping[str, Any], kind: type[Any] = object) -> Any:
    connection = scope.get(_KEY)
    if connection is None or not isinstance(connection, kind):
        raise RuntimeError("the server must run on HttpConnection and WebSocketConnection")
    return connection
