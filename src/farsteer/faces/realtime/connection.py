"""How an ASGI application reaches the TCP connection of its request: where shared, ready-made bytes are written.

uvicorn's protocols are made ours in `websocket` and `http`; each puts itself into the scope of its requests. Both have
`behind` (more than the soft limit is unsent), `buffered` (unsent bytes), `on_writable` (called when the client is no
longer behind), `write` and `abort`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")

_KEY = "farsteer.connection"


def publish(scope: Any, connection: object) -> None:
    cast("dict[str, object]", scope)[_KEY] = connection


def connection_of(scope: Mapping[str, Any], kind: type[T]) -> T:
    connection = scope.get(_KEY)
    if not isinstance(connection, kind):
        raise RuntimeError(f"the server must run on {kind.__name__}")
    return connection
