"""A hub and a runner in their own processes, which are killed, frozen and set back, and always started again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
from collections import Counter
from collections.abc import Collection
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Literal

import psutil

from farsteer import AsyncClient
from farsteer.core.errors import FarsteerError
from farsteer.core.queue import ItemState
from tests.faults.fork_server import SOURCE, ChildProcess, ForkServer, StartOrder
from tests.faults.process import STEPS, WHEN
from tests.support.eventually import eventually
from tests.support.processes import is_alive

Name = Literal["hub", "runner"]
NAMES: tuple[Name, ...] = ("hub", "runner")
SECONDS = 40.0
TOKEN = "a-token-for-tests-only"
POINTS = [(victim, step, when) for victim, steps in STEPS.items() for step in steps for when in WHEN]
_RESTART_DELAYS = (0.0, 0.0, 0.0, 0.01, 0.05, 0.3)


class Deployment:
    """Those named in `old` begin as the release with the source `release`, until they are updated."""

    def __init__(
        self, root: Path, port: int, rng: random.Random, old: Collection[Name] = (), release: Path = SOURCE
    ) -> None:
        self.root = root
        self.url = f"http://127.0.0.1:{port}"
        self.directory = root / "work"
        self.directory.mkdir()
        self.client = AsyncClient(self.url, TOKEN)
        self.starts: Counter[str] = Counter()
        self.kills_now: Counter[str] = Counter()
        """Kills without an order, by victim."""
        self._port = port
        self._random = rng
        self._delays = random.Random(rng.random())
        self._server, self._release_server = ForkServer(), ForkServer(release)
        self.old: set[Name] = {*old}
        """Who is still of the release."""
        self._servers: list[ForkServer] = []
        self._processes: dict[Name, ChildProcess] = {}
        self._supervisors: list[asyncio.Task[None]] = []
        self._terminated: set[int] = set()
        self._backups: dict[Name, list[Path]] = {"hub": [], "runner": []}
        self._to_restore: dict[Name, tuple[Path, asyncio.Future[None]]] = {}
        self.set_backs: Counter[str] = Counter()
        self.unlearned: Counter[str] = Counter()
        """Messages, by local id, whose outcome the hub did not know when the runner's database was set back: how often.

        Nobody can know whether they ran while the link was down: they may run again.
        """
        self._closing = False
        self._thaws: set[asyncio.Task[None]] = set()

    # -- processes

    async def __aenter__(self) -> Deployment:
        await self._server.__aenter__()
        self._servers.append(self._server)
        if self.old:
            await self._release_server.__aenter__()
            self._servers.append(self._release_server)
        self._supervisors = [asyncio.create_task(self._supervise(name)) for name in NAMES]
        await eventually(self.is_connected, SECONDS)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing = True
        await asyncio.gather(*self._thaws)
        await self.client.aclose()
        try:
            for process in reversed([*self._processes.values()]):
                process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(SECONDS):
                    await asyncio.shield(process.exited)
            await asyncio.gather(*self._supervisors)
        finally:
            for supervisor in self._supervisors:
                supervisor.cancel()
            for server in self._servers:
                await server.__aexit__()

    async def _supervise(self, name: Name) -> None:
        """Start a process whenever it has ended, as a service manager does."""
        while not self._closing:
            self._order_file(name).unlink(missing_ok=True)
            if order := self._to_restore.pop(name, None):
                self._set_back(name, order[0])
                order[1].set_result(None)
            server = self._release_server if name in self.old else self._server
            order = self._start_order(name, server.python_path)
            process = self._processes[name] = await server.start(order)
            self.starts[name] += 1
            code = await asyncio.shield(process.exited)
            # SIGTERM kills a process that does not handle it yet.
            expected = (
                {0, -signal.SIGTERM} if self._closing or process.pid in self._terminated else set[int]()
            )
            assert code in {*expected, -signal.SIGKILL}, f"the {name} ended with {code}\n{self.logs()}"
            await asyncio.sleep(self._delays.choice(_RESTART_DELAYS))

    def check_supervisors(self) -> None:
        """Raises what a supervisor has raised."""
        for supervisor in self._supervisors:
            if supervisor.done():
                supervisor.result()

    def _start_order(self, name: Name, python_path: str) -> StartOrder:
        options = {"hub": ["--port", str(self._port)], "runner": ["--hub", self.url]}[name]
        environment = {
            "PATH": os.environ["PATH"], "PYTHONPATH": python_path, "HOME": str(self.root), "CLI_API_TOKEN": TOKEN,
            "FARSTEER_HOME": str(self.root / name),
        }  # fmt: skip
        argv = [str(self._order_file(name)), name, *options]
        return StartOrder(argv, environment, str(self.directory), str(self.root / f"{name}.log"))

    async def is_connected(self) -> bool:
        """Whether both run and the runner has a link to the hub."""
        self.check_supervisors()
        try:
            return any(machine.active for machine in await self.client.machines())
        except FarsteerError:
            return False

    def logs(self) -> str:
        files = [self.root / f"{name}.log" for name in NAMES]
        return "\n".join(file.read_text()[-3000:] for file in files if file.exists())

    # -- killing

    def _order_file(self, name: Name) -> Path:
        return self.root / f"{name}.order"

    def arm(self, number: int) -> str:
        """Order a kill at a step: each step in turn, early or late in a run. Returns the order."""
        victim, step, when = POINTS[number % len(POINTS)]
        order = f"{victim} {step} {when} {self._random.choice((1, 1, 1, 2, 4))}"
        place = self._order_file("hub" if victim == "hub" else "runner")
        draft = place.with_suffix(".draft")
        draft.write_text(order)
        draft.replace(place)
        return order

    def disarm(self) -> None:
        for name in NAMES:
            self._order_file(name).unlink(missing_ok=True)

    @property
    def is_armed(self) -> bool:
        return any(self._order_file(name).exists() for name in NAMES)

    def ordered_kills(self) -> Counter[str]:
        """Return how often each ordered kill happened, from the record of the processes."""
        file = self.root / "kills"
        return Counter(file.read_text().splitlines() if file.exists() else ())

    def kill(self, victim: Literal["hub", "runner", "agents"]) -> None:
        if victim == "agents":
            for agent in self.agents():
                with suppress(psutil.Error):
                    agent.kill()
                    self.kills_now["agent"] += 1
        elif not self._processes[victim].exited.done():
            self._processes[victim].send_signal(signal.SIGKILL)
            self.kills_now[victim] += 1

    def restart(self, name: Name) -> None:
        """Stop a process in an orderly way. Its supervisor starts it again."""
        process = self._processes[name]
        self._terminated.add(process.pid)
        process.send_signal(signal.SIGTERM)

    def update(self) -> str:
        """Let one that is of the release be of this version from its next start on, and end it. Returns its name.

        There is no way back: a release does not open the database of a newer version.
        """
        names: list[Name] = [name for name in NAMES if name in self.old]
        name = self._random.choice(names)
        self.old.remove(name)
        self._random.choice((self.restart, self.kill))(name)
        return name

    def freeze(self, name: Name, seconds: float) -> None:
        """Stop a process with SIGSTOP for some time."""

        async def thaw() -> None:
            await asyncio.sleep(seconds)
            process.send_signal(signal.SIGCONT)

        process = self._processes[name]
        process.send_signal(signal.SIGSTOP)
        task = asyncio.create_task(thaw())
        self._thaws.add(task)
        task.add_done_callback(self._thaws.discard)

    def agents(self) -> list[psutil.Process]:
        """Return the processes that run in the directory and are neither hub nor runner."""
        ours = {process.pid for process in self._processes.values()}
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.uids().real == os.getuid() and process.cwd() == str(self.directory):
                    found.append(process)
        return [process for process in found if process.pid not in ours and is_alive(process)]

    @property
    def runner_pid(self) -> int:
        return self._processes["runner"].pid

    # -- backups

    def _database(self, name: Name) -> Path:
        return self.root / name / f"{name}.db"

    def back_up(self, name: Name) -> None:
        """Copy a database as it is now."""
        backups = self._backups[name]
        path = self.root / f"{name}-{len(backups)}.backup"
        with (
            closing(sqlite3.connect(self._database(name))) as source,
            closing(sqlite3.connect(path)) as target,
        ):
            source.backup(target)
        backups.append(path)

    def has_backup(self, name: Name) -> bool:
        return bool(self._backups[name])

    async def set_back(self, name: Name) -> None:
        """Kill a process and start it on an earlier database."""
        done = asyncio.get_running_loop().create_future()
        self._to_restore[name] = (self._random.choice(self._backups[name][-3:]), done)
        while not done.done():
            # It may be just being started.
            self.kill(name)
            await asyncio.wait((done,), timeout=0.1)
            self.check_supervisors()

    def stored_items(self) -> dict[str, tuple[str, ItemState]]:
        """Return what the hub's database has now: local id and state of each message, by its id."""
        rows = self._query_hub(
            "SELECT i.id, i.local_id, i.state FROM items AS i JOIN sessions AS s ON s.id = i.session_id"
            " WHERE s.phase = 'live'"
        )
        return {id: (name, ItemState(state)) for id, name, state in rows}

    def stored_sessions(self) -> set[str]:
        return {id for (id,) in self._query_hub("SELECT id FROM sessions WHERE phase = 'live'")}

    def _query_hub(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._database("hub"), timeout=SECONDS)) as db:
            return db.execute(statement).fetchall()

    def _set_back(self, name: Name, backup: Path) -> None:
        self.set_backs[name] += 1
        if name == "runner":
            self.unlearned.update(
                local_id for local_id, state in self.stored_items().values() if not state.final
            )
        database = self._database(name)
        for suffix in ("", "-wal", "-shm"):
            database.with_name(database.name + suffix).unlink(missing_ok=True)
        database.write_bytes(backup.read_bytes())
