"""A hub and a runner in their own processes, restarted when they were killed, and the messages sent to them."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from base64 import b64encode
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx
import psutil

from farsteer import AsyncClient
from farsteer.core import api
from farsteer.core.errors import FarsteerError
from farsteer.core.queue import ItemState
from farsteer.core.session import SessionState
from tests.endurance.log_checker import LogChecker
from tests.faults.process import STEPS, WHEN
from tests.support.eventually import eventually
from tests.support.processes import is_alive

SECONDS = 40.0
TOKEN = "a-token-for-tests-only"
ROOT = Path(__file__).parents[2]
POINTS = [(victim, step, when) for victim, steps in STEPS.items() for step in steps for when in WHEN]
_UNREACHABLE = (FarsteerError, httpx.HTTPError, OSError)
"""What a client gets from a hub that is being killed."""


class Deployment:
    def __init__(self, root: Path, port: int, rng: random.Random) -> None:
        self.root = root
        self.url = f"http://127.0.0.1:{port}"
        self.directory = root / "work"
        self.directory.mkdir()
        self._port = port
        self._random = rng
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._client = AsyncClient(self.url, TOKEN)
        self._checkers: dict[str, LogChecker] = {}
        self._sent: dict[str, dict[str, str]] = {}
        """The item of each message, by session and local id."""
        self.outcomes: Counter[str] = Counter()
        """How many messages had which outcome, to see that a run did something."""

    # -- processes

    async def __aenter__(self) -> Deployment:
        await self.restart_dead()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait, SECONDS)

    async def restart_dead(self) -> None:
        """Restart what is dead, and wait until the runner is connected to the hub."""
        if not self._start_dead():
            return

        async def connected() -> bool:
            self._start_dead()
            return await self._connected()

        await eventually(connected, SECONDS)

    def _start_dead(self) -> bool:
        """Start what is dead. Returns True if something was."""
        dead = [name for name in ("hub", "runner") if not self._is_running(name)]
        for name in dead:
            self._order_file(name).unlink(missing_ok=True)
            self._processes[name] = self._spawn(name)
        return bool(dead)

    def _is_running(self, name: str) -> bool:
        process = self._processes.get(name)
        return process is not None and process.poll() is None

    async def _connected(self) -> bool:
        try:
            return any(machine.active for machine in await self._client.machines())
        except _UNREACHABLE:
            return False

    def _order_file(self, name: str) -> Path:
        return self.root / f"{name}.order"

    def _spawn(self, name: str) -> subprocess.Popen[bytes]:
        options = {"hub": ["--port", str(self._port)], "runner": ["--hub", self.url]}[name]
        environment = {
            "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(self.root), "CLI_API_TOKEN": TOKEN,
            "FARSTEER_HOME": str(self.root / name),
        }  # fmt: skip
        with (self.root / f"{name}.log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.faults.process", str(self._order_file(name)), name, *options],
                env=environment, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    # -- killing

    def arm(self, number: int) -> str:
        """Order a kill at a step: each step in turn, early or late in a run. Returns the order."""
        victim, step, when = POINTS[number % len(POINTS)]
        order = f"{victim} {step} {when} {self._random.choice((1, 1, 2, 3, 5))}"
        place = self._order_file("hub" if victim == "hub" else "runner")
        draft = place.with_suffix(".draft")
        draft.write_text(order)
        draft.replace(place)
        return order

    def disarm(self) -> None:
        for name in ("hub", "runner"):
            self._order_file(name).unlink(missing_ok=True)

    def kill_now(self) -> str:
        victim = self._random.choice(("hub", "runner", "agent"))
        if victim == "agent":
            for agent in self._agents():
                with suppress(psutil.Error):
                    agent.kill()
        elif self._is_running(victim):
            self._processes[victim].kill()
            self._processes[victim].wait()
        return f"{victim} now"

    def _agents(self) -> list[psutil.Process]:
        """Return the processes that run in the directory and are neither hub nor runner."""
        ours = {process.pid for process in self._processes.values()}
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.uids().real == os.getuid() and process.cwd() == str(self.directory):
                    found.append(process)
        return [process for process in found if process.pid not in ours and is_alive(process)]

    # -- messages

    async def create_session(self) -> str:
        session = await self._client.start(self.directory, agent="demo", permission_mode="default")
        self._checkers[session.id] = LogChecker(
            SessionState(id=session.id, agent="demo", directory=str(self.directory))
        )
        self._sent[session.id] = {}
        return session.id

    async def send(self, session: str, name: str) -> None:
        """Send a message, as a careful client does: again with the same local id until the hub has accepted it."""
        text, attachments = self._text(name)

        async def accepted() -> bool:
            try:
                answer = await self._client.send(session, text, local_id=name, attachments=attachments)
            except _UNREACHABLE:
                await self.restart_dead()
                return False
            assert self._sent[session].setdefault(name, answer.id) == answer.id, f"{name} was accepted twice"
            return True

        await eventually(accepted, SECONDS)

    def _text(self, name: str) -> tuple[str, list[api.NewAttachment]]:
        kind = self._random.randrange(6)
        file = api.NewAttachment(name=f"{name}.txt", data=b64encode(name.encode() * 50).decode())
        text = (
            f"say {name}", f"say {name}", f"think {name}\nslow 4", f"write {name}.txt {name}",
            f"work 3 0.02\nsay {name}", f"say {name}",
        )[kind]  # fmt: skip
        return text, [file] if kind == 5 else []

    async def wait_for_outcomes(self) -> None:
        """Answer approvals until every message has an outcome."""
        try:
            await eventually(self._is_idle, SECONDS)
        except TimeoutError:
            raise AssertionError(f"messages without an outcome: {self._waiting()}\n{self._logs()}") from None

    async def _is_idle(self) -> bool:
        try:
            await self.restart_dead()
            await self._answer()
            for session in self._checkers:
                await self._read(session)
        except _UNREACHABLE:
            return False
        return not self._waiting() and all(one.state.turn_id is None for one in self._checkers.values())

    async def _read(self, session: str) -> None:
        checker = self._checkers[session]
        async for entry in self._client.messages(session, after=checker.seq):
            checker.check_entry(entry)

    async def _answer(self) -> None:
        for view in await self._client.approvals():
            with suppress(FarsteerError):
                if self._random.random() < 0.7:
                    await self._client.approve(view.session_id, view.approval.id)
                else:
                    await self._client.deny(view.session_id, view.approval.id)

    def _waiting(self) -> list[str]:
        return [
            name
            for session, names in self._sent.items()
            for name, item in names.items()
            if item not in (items := self._checkers[session].items) or items[item].outcome is None
        ]

    # -- checking

    async def check(self) -> None:
        """Check that nothing is lost or delivered twice, each message has one outcome, and no process is left."""
        for session, checker in self._checkers.items():
            checker.check_idle()
            view = await self._client.session(session)
            history = self._history(view.native_id or session)
            for name, item in self._sent[session].items():
                received, outcome = history[name], checker.items[item].outcome
                self.outcomes[str(outcome)] += 1
                assert received <= 1, f"{name} was delivered {received} times"
                if outcome is ItemState.DELIVERED:
                    assert received == 1, f"{name} is delivered, and the agent does not have it"
                elif outcome is not ItemState.UNKNOWN:
                    assert received == 0, f"{name} is {outcome}, and the agent has it"
            queue = await self._client.queue(session)
            assert queue == [], f"the hub still keeps {queue}"
        await eventually(self._has_no_orphans)

    def _history(self, native_id: str) -> Counter[str]:
        path = self.root / "runner" / "agents" / "demo" / f"{native_id}.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        records = [json.loads(line) for line in lines]
        texts = [record["text"] for record in records if record["role"] == "user"]
        return Counter(
            name for text in texts for names in self._sent.values() for name in names if _is_in(text, name)
        )

    def _has_no_orphans(self) -> bool:
        runner = self._processes["runner"].pid
        agents = self._agents()
        with suppress(psutil.Error):
            return len(agents) <= len(self._checkers) and all(agent.ppid() == runner for agent in agents)
        return False

    def _logs(self) -> str:
        return "\n".join((self.root / f"{name}.log").read_text()[-3000:] for name in ("hub", "runner"))


def _is_in(text: str, name: str) -> bool:
    return name in text.replace(".txt", " ").split()
