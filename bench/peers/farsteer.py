"""Farsteer: hub and runner in one process, as `farsteer up` starts them, with an agent that emits the messages.

The cost of the server is the cost of that process: the runner, which reads the agent and keeps its journal, and the
hub, which stores, acknowledges and delivers. The agent's own process is counted separately.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from bench import wire
from bench.peers.base import Peer, Session
from bench.reader import Step
from farsteer import __version__

TOKEN = "benchmark-on-loopback-only-0123456789"
JWT_SECONDS = 300
IDLE_SECONDS = 30
"""A connection that was idle for this long is reopened, because the server may have closed it."""
_BENCH = Path(__file__).parents[1]


class Client:
    """Sends requests on one connection that stays open."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(wire.HOST, port, timeout=60)
        self._used = time.monotonic()
        self.jwt: str = self.post("/api/auth", {"accessToken": TOKEN})["token"]
        self.born = time.monotonic()

    def get(self, path: str) -> bytes:
        return self._request("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return json.loads(self._request("POST", path, json.dumps(body)))

    def close(self) -> None:
        self._connection.close()

    def _request(self, method: str, path: str, body: str | None) -> bytes:
        headers = {"Content-Type": "application/json"} if body else {}
        if path != "/api/auth":
            headers["Authorization"] = f"Bearer {self.jwt}"
        if time.monotonic() - self._used > IDLE_SECONDS:
            self._connection.close()
        self._used = time.monotonic()
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path} was answered with {response.status}: {answer[:500]!r}")
        return answer


class FarsteerSession(Session):
    def __init__(self, client: Client, port: int, session_id: str) -> None:
        self.port = port
        self._client = client
        self._id = session_id
        auth = json.dumps({"token": client.jwt}).encode()
        self.steps = [
            Step(wire.upgrade(port), b'"pingInterval"'),
            Step(wire.frame(b"40/events," + auth), b"40/events,{"),
        ]

    def emit(self, messages: int, rate: float | None = None) -> None:
        self._client.post(f"/api/sessions/{self._id}/messages", {"text": f"emit {messages} {rate or 0}"})

    def close(self) -> None:
        self._client.post(f"/api/sessions/{self._id}/stop", {})


class Farsteer(Peer):
    name = "Farsteer"
    announces = "Farsteer is ready"

    def __init__(self) -> None:
        super().__init__()
        self.farsteer_home = self.home / ".farsteer"
        self.work = self.home / "work"
        self.work.mkdir()
        self._client: Client | None = None

    def command(self) -> list[str]:
        program = str(Path(sys.executable).with_name("farsteer"))
        return [program, "up", "--home", str(self.farsteer_home), "--port", str(self.port)]

    def environment(self) -> dict[str, str]:
        adapter = f"{_BENCH.parent}{os.pathsep}{_BENCH / 'adapter'}"
        return {**super().environment(), "CLI_API_TOKEN": TOKEN, "PYTHONPATH": adapter}

    @property
    def version(self) -> str:
        return __version__

    def client(self) -> Client:
        return Client(self.port)

    def session(self) -> Session:
        client = self._client
        if client is None or time.monotonic() - client.born > JWT_SECONDS:
            client = self._client = self.client()
        return FarsteerSession(client, self.port, self.new_session(client))

    def new_session(self, client: Client) -> str:
        """Create a session of the benchmark agent and return its id."""
        machine = json.loads(client.get("/api/machines"))["machines"][0]["id"]
        asked = {"machineId": machine, "directory": str(self.work), "agent": "bench"}
        return client.post("/api/sessions", asked)["sessionId"]

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        super().stop()
