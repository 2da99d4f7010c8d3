"""Start-up: python-socketio also imports the HTTP libraries of its clients if they are installed. A hub needs none."""

from __future__ import annotations

import sys
from importlib import import_module

_CLIENT_LIBRARIES = ("aiohttp", "requests", "websocket")


def import_socketio() -> None:
    """Import the server without the clients' libraries: a third of the time until a hub is ready."""
    hidden = [name for name in _CLIENT_LIBRARIES if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]
    try:
        import_module("socketio")
    finally:
        for name in hidden:
            del sys.modules[name]
