"""Start-up: libraries import what they could use if it is installed, and we do not need it."""

from __future__ import annotations

import sys
from importlib import import_module

_CLIENT_LIBRARIES = ("aiohttp", "requests", "websocket")


def import_socketio() -> None:
    """Import the server without the clients' libraries: a third of the time until a hub is ready."""
    _import("socketio", _CLIENT_LIBRARIES)


def import_msgspec() -> None:
    """Without `typing_extensions`, which has nothing for it that our oldest Python lacks: half of its time."""
    if "msgspec" not in sys.modules:
        _import("msgspec", ("typing_extensions",))


def _import(library: str, without: tuple[str, ...]) -> None:
    hidden = [name for name in without if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]
    try:
        import_module(library)
    finally:
        for name in hidden:
            del sys.modules[name]
