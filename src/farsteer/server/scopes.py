"""Finding the connection of a request, which the server has put into its ASGI scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from farsteer.server.uvicorn_protocols import SCOPE_KEY, Connection

T = TypeVar("T")


def find_connection(scope: Mapping[str, Any]) -> Connection | None:
    """Return the connection of an ASGI scope, or None if another server made the scope."""
    connection = scope.get(SCOPE_KEY)
    return connection if isinstance(connection, Connection) else None


def get_connection(scope: Mapping[str, Any], kind: type[T]) -> T:
    """Return the connection of an ASGI scope.

    Raises:
        RuntimeError: the server does not run on `HttpConnection` and `WebSocketConnection`.
    """
    connection = scope.get(SCOPE_KEY)
    if not isinstance(connection, kind):
        raise RuntimeError("the server must run on HttpConnection and WebSocketConnection")
    return connection
