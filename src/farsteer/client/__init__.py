"""The Python SDK: `Client` for scripts, `AsyncClient` for asyncio. Both cover the whole REST and live API.

from farsteer import Client

with Client() as client:
    session = client.start(".", agent="demo")
    print(session.ask("hello"))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from farsteer.client.aio import AsyncClient
    from farsteer.client.live import Gap, LiveEvent
    from farsteer.client.session import AsyncSession
    from farsteer.client.stream import EventStream
    from farsteer.client.sync import Client, Session
    from farsteer.client.turn import Turn, TurnResult, TurnUpdate

_HOMES = {
    "AsyncClient": "aio",
    "AsyncSession": "session",
    "Client": "sync",
    "EventStream": "stream",
    "Gap": "live",
    "LiveEvent": "live",
    "Session": "sync",
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
    # Loaded on first use: `farsteer exec` follows turns without an HTTP library.
    if name in _HOMES:
        return getattr(import_module(f"farsteer.client.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
