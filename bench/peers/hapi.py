"""HAPI: its hub, driven like its own wrapper does (`/cli` socket) and read like its own page does (SSE).

Its messages are stored but never acknowledged, and its wrapper process is replaced by a small client. Both favour
HAPI.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from typing import Any
from uuid import uuid4

from bench import wire
from bench.peers import hapi_install
from bench.peers.base import Peer, Session
from bench.reader import Step

TOKEN = "benchmark-on-loopback-only-0123456789"
BATCH = 64


class HapiSession(Session):
    """The agent's side of one session: a socket that sends messages."""

    def __init__(self, port: int, session_id: str, jwt: str) -> None:
        self.port = port
        self._id = session_id
        path = f"/api/events?all=true&sessionId={session_id}"
        self.steps = [Step(wire.get(port, path, jwt), b'"connected"')]
        self._socket = socket.create_connection((wire.HOST, port), timeout=120)
        auth = {"token": TOKEN, "clientType": "session-scoped", "sessionId": session_id}
        self._exchange(wire.upgrade(port), b'"pingInterval"')
        self._exchange(wire.frame(b"40/cli," + json.dumps(auth).encode()), b"40/cli,{")

    def emit(self, messages: int, rate: float | None = None) -> None:
        if rate is None:
            for first in range(0, messages, BATCH):
                numbers = range(first, min(first + BATCH, messages))
                self._socket.sendall(b"".join(self._message(wire.text(number)) for number in numbers))
        else:
            pace = wire.Pace(rate)
            for number in range(messages):
                message = self._message(wire.text(number, pace.born(number)))
                time.sleep(pace.wait(number))
                self._socket.sendall(message)
        self._exchange(wire.frame(b'42/cli,0["ping"]'), b"43/cli,0[")

    def close(self) -> None:
        self._socket.close()

    def _message(self, text: str) -> bytes:
        data = {"type": "message", "message": text, "id": str(uuid4())}
        message = {"role": "agent", "content": {"type": "codex", "data": data}, "meta": {"sentFrom": "cli"}}
        body = json.dumps(["message", {"sid": self._id, "message": message}], separators=(",", ":"))
        return wire.frame(b"42/cli," + body.encode())

    def _exchange(self, send: bytes, expect: bytes) -> None:
        self._socket.sendall(send)
        heard = b""
        while expect not in heard:
            chunk = self._socket.recv(65536)
            if not chunk:
                raise ConnectionError(f"HAPI closed its socket: {heard[-500:]!r}")
            if wire.EIO_PING in chunk:
                self._socket.sendall(wire.frame(b"3"))
            heard += chunk


class Hapi(Peer):
    name = "HAPI"
    announces = "HAPI Hub is ready!"

    def __init__(self) -> None:
        self._program = hapi_install.program()
        super().__init__()
        self._machine = str(uuid4())
        self._jwt = ""

    def command(self) -> list[str]:
        return [str(self._program), "hub", "--no-relay"]

    def environment(self) -> dict[str, str]:
        return {
            **super().environment(),
            "HAPI_HOME": str(self.home),
            "HAPI_LISTEN_HOST": wire.HOST,
            "HAPI_LISTEN_PORT": str(self.port),
            "CLI_API_TOKEN": TOKEN,
        }

    @property
    def version(self) -> str:
        return hapi_install.VERSION

    def session(self) -> Session:
        if not self._jwt:
            self._jwt = self.sign_in()
            metadata = {"host": "bench", "platform": "linux", "happyCliVersion": hapi_install.VERSION}
            self._post("/cli/machines", {"id": self._machine, "metadata": metadata})
        metadata = {"path": str(self.home), "host": "bench", "flavor": "codex", "machineId": self._machine}
        asked = {"tag": str(uuid4()), "metadata": metadata, "agentState": None}
        created = self._post("/cli/sessions", asked)
        return HapiSession(self.port, created["session"]["id"], self._jwt)

    def sign_in(self) -> str:
        """Return a token for requests under /api."""
        return self._post("/api/auth", {"accessToken": TOKEN})["token"]

    def request(
        self, method: str, path: str, body: dict[str, Any] | None, token: str
    ) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of the answer."""
        connection = http.client.HTTPConnection(wire.HOST, self.port, timeout=30)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        try:
            return response.status, json.loads(answer)
        except ValueError:
            return response.status, {"error": answer[:300].decode(errors="replace")}

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        status, answer = self.request("POST", path, body, TOKEN)
        if status != 200:
            raise RuntimeError(f"HAPI answered {path} with {status}: {str(answer)[:300]}")
        return answer
