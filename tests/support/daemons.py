"""`farsteer hub` and `farsteer runner` as processes of their own, of this version or of an earlier one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from farsteer import AsyncClient
from farsteer.core.api import MachineView
from farsteer.core.errors import FarsteerError
from farsteer.core.events import QueueUpdate
from farsteer.core.queue import ItemState
from tests.support.eventually import eventually

SECONDS = 60.0
TOKEN = "a-token-for-tests-only"
THIS_VERSION = Path(__file__).parents[2] / "src"


class Daemon:
    """One process. It can be restarted, with the source of another version too."""

    def __init__(
        self, root: Path, name: str, *options: str, source: Path = THIS_VERSION, prefix: Sequence[str] = ()
    ) -> None:
        """`prefix` is a program and its arguments that executes the rest of its command line, such as nsenter."""
        self.root = root
        self.home = root / name
        self.log = root / f"{name}.log"
        self._options = options
        self._source = source
        self._prefix = prefix
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, source: Path | None = None) -> Self:
        assert self._process is None
        self._source = source or self._source
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.root), "PYTHONPATH": str(self._source),
            "CLI_API_TOKEN": TOKEN, "FARSTEER_HOME": str(self.home),
        }  # fmt: skip
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix, sys.executable, "-m", "farsteer.cli.main", *self._options],
                env=environment, cwd=self.root, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        return self

    async def stop(self, number: int = signal.SIGTERM) -> None:
        """End the process with a signal and wait for its end."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            await asyncio.to_thread(process.wait, SECONDS)

    async def wait_for_log(self, text: str) -> None:
        try:
            await eventually(lambda: text in self.read_log(), SECONDS)
        except TimeoutError:
            raise AssertionError(f"{text!r} is not in the log:\n{self.read_log()[-4000:]}") from None

    def read_log(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


class Daemons:
    """A hub and any number of runners below one directory, and a client of the hub."""

    def __init__(
        self, root: Path, port: int, *, host: str = "127.0.0.1", hub_source: Path = THIS_VERSION
    ) -> None:
        self.root = root
        self.url = f"http://{host}:{port}"
        self.client = AsyncClient(self.url, TOKEN, allow_insecure=True)
        self.hub = Daemon(root, "hub", "hub", "--host", host, "--port", str(port), source=hub_source)
        self._all = [self.hub]
        self.directory = root / "work"
        self.directory.mkdir()

    def runner(
        self,
        name: str = "runner",
        *options: str,
        source: Path = THIS_VERSION,
        hub: str | None = None,
        prefix: Sequence[str] = (),
    ) -> Daemon:
        """Return a runner that is not started yet. `hub` is its way to the hub, if that is not the direct one."""
        options = ("runner", "--hub", hub or self.url, *options)
        runner = Daemon(self.root, name, *options, source=source, prefix=prefix)
        self._all.append(runner)
        return runner

    async def __aenter__(self) -> Self:
        self.hub.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()
        for daemon in reversed(self._all):
            await daemon.stop()

    async def machine(self) -> MachineView | None:
        """Return the only machine of the hub, if there is a hub and the machine is connected."""
        try:
            return next((one for one in await self.client.machines() if one.active), None)
        except (FarsteerError, OSError):
            return None

    async def wait_until_connected(self) -> MachineView:
        found: list[MachineView] = []

        async def connected() -> bool:
            machine = await self.machine()
            if machine is not None:
                found.append(machine)
            return bool(found)

        try:
            await eventually(connected, SECONDS)
        except TimeoutError:
            logs = "\n".join(f"{one.home.name}: {one.read_log()[-2000:]}" for one in self._all)
            raise AssertionError(f"no machine is connected\n{logs}") from None
        return found[-1]

    async def start_session(self) -> str:
        return (await self.client.start(self.directory, agent="demo")).id

    async def say(self, session: str, *names: str) -> None:
        """Send a message for each name and wait until the agent has had all of them."""
        sent = {(await self.client.send(session, f"say {name}", local_id=name)).id for name in names}
        await self.wait_until_delivered(session, sent)

    async def wait_until_delivered(self, session: str, items: set[str]) -> None:
        async def delivered() -> bool:
            outcomes: dict[str, ItemState] = {}
            try:
                async for entry in self.client.messages(session):
                    if isinstance(entry.content, QueueUpdate):
                        outcomes[entry.content.item_id] = entry.content.state
            except (FarsteerError, OSError):
                return False
            return all(outcomes.get(item) is ItemState.DELIVERED for item in items)

        try:
            await eventually(delivered, SECONDS)
        except TimeoutError:
            logs = "\n".join(f"{one.home.name}: {one.read_log()[-2000:]}" for one in self._all)
            raise AssertionError(f"not all messages were delivered\n{logs}") from None

    def received(self, runner: Daemon) -> list[str]:
        """Return what the demo agents of a home were told, one name for each message."""
        lines: list[str] = []
        for path in (runner.home / "agents" / "demo").glob("*.jsonl"):
            for line in path.read_text().splitlines():
                record = json.loads(line)
                if record.get("role") == "user":
                    lines.append(record["text"].removeprefix("say "))
        return lines
