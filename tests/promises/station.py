"""A hub and a runner as two processes that tests kill and restart."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from farsteer import AsyncClient
from farsteer.core.errors import FarsteerError
from tests.support.eventually import eventually

SECONDS = 20.0
TOKEN = "a-token-for-tests-only"


class Station:
    def __init__(self, root: Path, port: int) -> None:
        self.root = root
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.desk = root / "desk"
        self.desk.mkdir()
        self.hub: subprocess.Popen[str] | None = None
        self.runner: subprocess.Popen[str] | None = None
        self._clients: list[AsyncClient] = []

    async def start_hub(self) -> None:
        self.hub = self._spawn("hub", "hub", "--port", str(self.port))
        await self._says(self.hub, "ready")

    async def start_runner(self) -> None:
        self.runner = self._spawn("runner", "runner", "--hub", self.url)
        await self._says(self.runner, "connected")

    async def kill(self, process: subprocess.Popen[str] | None, number: int = signal.SIGKILL) -> None:
        assert process is not None
        process.send_signal(number)
        await asyncio.to_thread(process.communicate, None, SECONDS)

    def client(self) -> AsyncClient:
        client = AsyncClient(self.url, TOKEN)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()
        for process in (self.runner, self.hub):
            if process is not None and process.poll() is None:
                await self.kill(process, signal.SIGTERM)

    def log(self, name: str) -> str:
        return (self.root / f"{name}.log").read_text()

    def _spawn(self, name: str, *argv: str) -> subprocess.Popen[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "FARSTEER_HOME": str(self.root / name),
            "CLI_API_TOKEN": TOKEN,
        }
        with (self.root / f"{name}.log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "farsteer", *argv],
                env=environment,
                cwd=self.desk,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    async def _says(self, process: subprocess.Popen[str], word: str) -> None:
        assert process.stdout is not None
        async with asyncio.timeout(SECONDS):
            line = await asyncio.to_thread(process.stdout.readline)
        assert word in line, line + self.log("hub") + (self.log("runner") if self.runner else "")


async def answers(client: AsyncClient) -> bool:
    try:
        await client.health()
    except (FarsteerError, OSError):
        return False
    return True


async def machine_is(client: AsyncClient, *, active: bool) -> None:
    async def seen() -> bool:
        return [machine.active for machine in await client.machines()] == [active]

    await eventually(seen, SECONDS)
