"""A hub and a runner in processes of their own, started again when they were killed, and what became of messages."""

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
from tests.endurance.ledger import Ledger
from tests.faults.process import STEPS, WHEN
from tests.support.eventually import eventually
from tests.support.processes import is_alive

SECONDS = 40.0
TOKEN = "a-token-for-tests-only"
ROOT = Path(__file__).parents[2]
POINTS = [(victim, step, when) for victim, steps in STEPS.items() for step in steps for when in WHEN]
_GONE = (FarsteerError, httpx.HTTPError, OSError)
"""What a client sees of a hub that is being killed."""


class Fleet:
    def __init__(self, root: Path, port: int, chance: random.Random) -> None:
        self.root = root
        self.url = f"http://127.0.0.1:{port}"
        self.desk = root / "desk"
        self.desk.mkdir()
        self._port = port
        self._chance = chance
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._client = AsyncClient(self.url, TOKEN)
        self._ledgers: dict[str, Ledger] = {}
        self._sent: dict[str, dict[str, str]] = {}
        """Of each session: which item carries which message."""
        self.found: Counter[str] = Counter()
        """How messages ended, to see that a run did something."""

    # -- processes

    async def __aenter__(self) -> Fleet:
        await self.heal()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait, SECONDS)

    async def heal(self) -> None:
        """Start what is dead, until hub and runner have found each other."""
        if not self._revive():
            return

        async def found() -> bool:
            self._revive()
            return await self._connected()

        await eventually(found, SECONDS)

    def _revive(self) -> bool:
        """True if something was dead."""
        dead = [name for name in ("hub", "runner") if not self._lives(name)]
        for name in dead:
            self._order(name).unlink(missing_ok=True)
            self._processes[name] = self._spawn(name)
        return bool(dead)

    def _lives(self, name: str) -> bool:
        process = self._processes.get(name)
        return process is not None and process.poll() is None

    async def _connected(self) -> bool:
        try:
            return any(machine.active for machine in await self._client.machines())
        except _GONE:
            return False

    def _order(self, name: str) -> Path:
        return self.root / f"{name}.order"

    def _spawn(self, name: str) -> subprocess.Popen[bytes]:
        options = {"hub": ["--port", str(self._port)], "runner": ["--hub", self.url]}[name]
        environment = {
            "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(self.root), "CLI_API_TOKEN": TOKEN,
            "FARSTEER_HOME": str(self.root / name),
        }  # fmt: skip
        with (self.root / f"{name}.log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.faults.process", str(self._order(name)), name, *options],
                env=environment, cwd=self.desk, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    # -- killing

    def arm(self, number: int) -> str:
        """Order who dies at which step: each of them in turn, early or late in a run. Says what was ordered."""
        victim, step, when = POINTS[number % len(POINTS)]
        order = f"{victim} {step} {when} {self._chance.choice((1, 1, 2, 3, 5))}"
        place = self._order("hub" if victim == "hub" else "runner")
        draft = place.with_suffix(".draft")
        draft.write_text(order)
        draft.replace(place)
        return order

    def disarm(self) -> None:
        for name in ("hub", "runner"):
            self._order(name).unlink(missing_ok=True)

    def kill_now(self) -> str:
        victim = self._chance.choice(("hub", "runner", "agent"))
        if victim == "agent":
            for agent in self._agents():
                with suppress(psutil.Error):
                    agent.kill()
        elif self._lives(victim):
            self._processes[victim].kill()
            self._processes[victim].wait()
        return f"{victim} now"

    def _agents(self) -> list[psutil.Process]:
        """Everything that works on the desk and is neither hub nor runner."""
        ours = {process.pid for process in self._processes.values()}
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.uids().real == os.getuid() and process.cwd() == str(self.desk):
                    found.append(process)
        return [process for process in found if process.pid not in ours and is_alive(process)]

    # -- messages

    async def begin_session(self) -> str:
        session = await self._client.start(self.desk, agent="demo", permission_mode="default")
        self._ledgers[session.id] = Ledger(
            SessionState(id=session.id, agent="demo", directory=str(self.desk))
        )
        self._sent[session.id] = {}
        return session.id

    async def send(self, session: str, name: str) -> None:
        """As a careful client: again, under the same local id, until the hub says that it has it."""
        text, attachments = self._text(name)

        async def accepted() -> bool:
            try:
                answer = await self._client.send(session, text, local_id=name, attachments=attachments)
            except _GONE:
                await self.heal()
                return False
            assert self._sent[session].setdefault(name, answer.id) == answer.id, f"{name} was accepted twice"
            return True

        await eventually(accepted, SECONDS)

    def _text(self, name: str) -> tuple[str, list[api.NewAttachment]]:
        kind = self._chance.randrange(6)
        file = api.NewAttachment(name=f"{name}.txt", data=b64encode(name.encode() * 50).decode())
        text = (
            f"say {name}", f"say {name}", f"think {name}\nslow 4", f"write {name}.txt {name}",
            f"work 3 0.02\nsay {name}", f"say {name}",
        )[kind]  # fmt: skip
        return text, [file] if kind == 5 else []

    async def settle(self) -> None:
        """Until every message has its outcome; whatever is asked gets an answer."""
        try:
            await eventually(self._settled, SECONDS)
        except TimeoutError:
            raise AssertionError(f"messages without an outcome: {self._waiting()}\n{self._logs()}") from None

    async def _settled(self) -> bool:
        try:
            await self.heal()
            await self._answer()
            for session in self._ledgers:
                await self._read(session)
        except _GONE:
            return False
        return not self._waiting() and all(one.state.turn_id is None for one in self._ledgers.values())

    async def _read(self, session: str) -> None:
        ledger = self._ledgers[session]
        async for entry in self._client.messages(session, after=ledger.seq):
            ledger.take(entry)

    async def _answer(self) -> None:
        for view in await self._client.approvals():
            with suppress(FarsteerError):
                if self._chance.random() < 0.7:
                    await self._client.approve(view.session_id, view.approval.id)
                else:
                    await self._client.deny(view.session_id, view.approval.id)

    def _waiting(self) -> list[str]:
        return [
            name
            for session, names in self._sent.items()
            for name, item in names.items()
            if item not in (items := self._ledgers[session].items) or items[item].outcome is None
        ]

    # -- counting

    async def count(self) -> None:
        """Nothing lost, nothing twice, one outcome each, no orphan."""
        for session, ledger in self._ledgers.items():
            ledger.at_rest()
            view = await self._client.session(session)
            history = self._history(view.native_id or session)
            for name, item in self._sent[session].items():
                taken, outcome = history[name], ledger.items[item].outcome
                self.found[str(outcome)] += 1
                assert taken <= 1, f"{name} was delivered {taken} times"
                if outcome is ItemState.DELIVERED:
                    assert taken == 1, f"{name} is delivered, and the agent does not have it"
                elif outcome is not ItemState.UNKNOWN:
                    assert taken == 0, f"{name} is {outcome}, and the agent has it"
            queue = await self._client.queue(session)
            assert queue == [], f"the hub still keeps {queue}"
        await eventually(self._nobody_is_an_orphan)

    def _history(self, native_id: str) -> Counter[str]:
        path = self.root / "runner" / "agents" / "demo" / f"{native_id}.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        records = [json.loads(line) for line in lines]
        said = [record["text"] for record in records if record["role"] == "user"]
        return Counter(
            name for text in said for names in self._sent.values() for name in names if _names(text, name)
        )

    def _nobody_is_an_orphan(self) -> bool:
        runner = self._processes["runner"].pid
        agents = self._agents()
        with suppress(psutil.Error):
            return len(agents) <= len(self._ledgers) and all(agent.ppid() == runner for agent in agents)
        return False

    def _logs(self) -> str:
        return "\n".join((self.root / f"{name}.log").read_text()[-3000:] for name in ("hub", "runner"))


def _names(text: str, name: str) -> bool:
    return name in text.replace(".txt", " ").split()
