"""The Python SDK: `Client` for scripts, `AsyncClient` for asyncio. Both cover the whole REST and live API.

    from farsteer import Client

    with Client() as client:
        session = client.start(".", agent="demo")
        print(session.ask("hello"))

Errors are the exceptions of `farsteer.core.errors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from farsteer.client.async_client import AsyncClient
    from farsteer.client.live_events import Gap, LiveEvent
    from farsteer.client.session import AsyncSession
    from farsteer.client.stream import EventStream
    from farsteer.client.sync_client import Client, Session
    from farsteer.client.turn import Turn, TurnResult, TurnUpdate

_MODULES = {
    "AsyncClient": "async_client",
    "AsyncSession": "session",
    "Client": "sync_client",
    "EventStream": "stream",
    "Gap": "live_events",
    "LiveEvent": "live_events",
    "Session": "sync_client",
    "Turn": "turn",
    "TurnResult": "turn",
    "TurnUpdate": "turn",
}

__all__ = [
    "AsyncClient",
    "AsyncSession",
    "Client",
    "EventStream",
    "Gap",
    "LiveEvent",
    "Session",
    "Turn",
    "TurnResult",
    "TurnUpdate",
]


def __getattr__(name: str) -> Any:
    # Imported on first use: without a hub, `farsteer exec` follows turns without the HTTP library.
    if name in _MODULES:
        return getattr(import_module(f"farsteer.client.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
