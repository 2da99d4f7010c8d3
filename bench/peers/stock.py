"""Stock python-socketio: `AsyncServer.emit` to a room, on uvicorn and uvloop. It stores nothing, which favours it."""

from __future__ import annotations

import http.client
import sys
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlencode

from bench import wire
from bench.peers.base import Peer, Session
from bench.reader import Step


class StockSession(Session):
    def __init__(self, port: int) -> None:
        self.port = port
        self.steps = [
            Step(wire.upgrade(port), b'"pingInterval"'),
            Step(wire.frame(b"40/events,"), b"40/events,{"),
        ]

    def emit(self, messages: int, rate: float | None = None) -> None:
        connection = http.client.HTTPConnection(wire.HOST, self.port, timeout=120)
        connection.request("POST", "/emit?" + urlencode({"messages": messages, "rate": rate or 0}))
        connection.getresponse().read()
        connection.close()


class Stock(Peer):
    name = "python-socketio"
    announces = "Uvicorn running"
    stores = False

    def command(self) -> list[str]:
        return [sys.executable, "-m", "bench.peers.stock_server", str(self.port)]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONPATH": str(Path(__file__).parents[2])}

    @property
    def version(self) -> str:
        return f"{version('python-socketio')} on uvicorn {version('uvicorn')}"

    def session(self) -> Session:
        return StockSession(self.port)
