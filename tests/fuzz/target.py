"""What is attacked: a hub with its own runner for the well-behaved client, and a runner in the attackers' namespace."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.fuzz.process import ANSWER, ASKED
from tests.support.eventually import eventually
from tests.support.stalls import TOKEN, WatchedHub

ATTACKERS = "attackers"
"""Their namespace. The well-behaved client is in another one, so that no quota and no right of theirs touches it."""
SCOPES = ("read", "write", "approve", "admin")
SECONDS = 30.0
_ROOT = Path(__file__).parents[2]
_JWT_SECONDS = 300.0


class Watched(WatchedHub):
    """A process of farsteer, with a census of its objects."""

    async def census(self) -> dict[str, int]:
        answer = self.root / ANSWER
        answer.unlink(missing_ok=True)
        (self.root / ASKED).touch()
        await eventually(answer.exists, SECONDS)
        return json.loads(answer.read_text())

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None


class Target:
    def __init__(self, root: Path, hub: Watched, http: httpx.AsyncClient) -> None:
        self.root = root
        self.hub = hub
        self.url = hub.url
        parts = urlsplit(hub.url)
        self.host, self.port = str(parts.hostname), int(parts.port or 0)
        self.address = parts.netloc
        self.http = http
        self.directory = root / "project"
        self.directory.mkdir()
        self.processes = [hub]
        self.token = ""
        """An access token of the attackers."""
        self.runner_token = ""
        self.machine_id = ""
        self.sessions: list[str] = []
        self._jwt = ("", 0.0)

    async def jwt(self) -> str:
        token, made_at = self._jwt
        if time.monotonic() - made_at > _JWT_SECONDS:
            answer = await self._ask("POST", "/api/auth", {"accessToken": f"{TOKEN}:{ATTACKERS}"}, token="")
            token = answer["token"]
            self._jwt = token, time.monotonic()
        return token

    async def request(
        self, method: str, path: str, body: Any = None, seconds: float = SECONDS
    ) -> httpx.Response:
        headers = {"authorization": f"Bearer {await self.jwt()}"}
        return await self.http.request(method, path, json=body, headers=headers, timeout=seconds)

    async def create_session(self, **fields: Any) -> str:
        body = {"machineId": self.machine_id, "directory": str(self.directory), "agent": "demo", **fields}
        return (await self._ask("POST", "/api/sessions", body))["sessionId"]

    async def tidy(self) -> None:
        """Delete what attacks have created, so that two censuses can be compared."""
        while sessions := (await self._ask("GET", "/api/sessions?limit=200"))["sessions"]:
            doomed = [one["id"] for one in sessions if one["id"] not in self.sessions]
            for session in doomed:
                await self.request("DELETE", f"/api/sessions/{session}")
            if not doomed or len(sessions) < 200:
                break
        tokens = (await self._ask("GET", "/api/tokens"))["tokens"]
        for token in tokens:
            if not token["label"].startswith("keep"):
                await self.request("DELETE", f"/api/tokens/{token['id']}")

    async def prepare(self) -> None:
        """Make the attackers' tokens, runner and sessions."""
        made = await self._ask("POST", "/api/tokens", {"label": "keep", "scopes": [*SCOPES]})
        self.token = made["secret"]
        made = await self._ask("POST", "/api/tokens", {"label": "keep runner", "scopes": ["runner"]})
        self.runner_token = made["secret"]
        droid = _write_droid(self.root)
        options = ["runner", "--hub", self.url]
        self.processes.append(
            _spawn(self.root / "runner", options, self.runner_token, DROID_EXECUTABLE=str(droid))
        )

        async def connected() -> bool:
            machines = (await self._ask("GET", "/api/machines"))["machines"]
            self.machine_id = next((one["id"] for one in machines if one["active"]), "")
            return bool(self.machine_id)

        await eventually(connected, SECONDS)
        self.sessions = [await self.create_session() for _ in range(2)]

    async def _ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        bearer = await self.jwt() if token is None else token
        headers = {"authorization": f"Bearer {bearer}"} if bearer else {}
        answer = await self.http.request(method, path, json=body, headers=headers)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()


def environment(root: Path, token: str) -> dict[str, str]:
    """The environment of a process of farsteer with its own home."""
    return {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(_ROOT), "HOME": str(root), "FARSTEER_HOME": str(root / "home"),
        "CLI_API_TOKEN": token,
    }  # fmt: skip


def _spawn(root: Path, command: Sequence[str], token: str, **variables: str) -> Watched:
    (root / "home").mkdir(mode=0o700, parents=True)
    (root / "stalls").touch()
    with (root / "log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.process", str(root), *command],
            env=environment(root, token) | variables, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=log, text=True, start_new_session=True,
        )  # fmt: skip
    return Watched(root, process)


def _write_droid(root: Path) -> Path:
    """Install a `droid` whose output is mutated on its way."""
    script = root / "droid"
    command = f'"{sys.executable}" -m tests.fuzz.hostile_droid "$@"'
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{_ROOT}" exec {command}\n')
    script.chmod(0o755)
    return script


@asynccontextmanager
async def started(root: Path) -> AsyncGenerator[Target]:
    """Start the processes and end them."""
    hub = _spawn(root / "hub", ["up", "--port", "0"], TOKEN)
    processes = [hub]
    try:
        assert hub.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            line = await asyncio.to_thread(hub.process.stdout.readline)
        assert "ready at " in line, line + hub.log
        hub.url = line.partition("ready at ")[2].partition(",")[0]
        limits = httpx.Limits(max_connections=50)
        async with httpx.AsyncClient(base_url=hub.url, timeout=SECONDS, limits=limits) as http:
            target = Target(root, hub, http)
            processes = target.processes
            await target.prepare()
            yield target
    finally:
        for watched in reversed(processes):
            if watched.is_alive:
                watched.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(watched.process.communicate, None, SECONDS)
            if watched.is_alive:
                watched.process.kill()
                watched.process.communicate()
