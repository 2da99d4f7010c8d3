"""The same system with the demo agent: a real process, real threads, real time."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections import Counter
from contextlib import suppress
from typing import Any
from unittest import mock

import psutil

from farsteer.agents.registry import AgentRegistry
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.approvals import Answer, Outcome
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import Delivery, ItemState
from tests.endurance.storage import KillableReaders, KillableWriter
from tests.endurance.system import SimulatedSystem
from tests.endurance.tracked_session import TrackedSession
from tests.support.processes import is_alive

_SCRIPTS = (
    "say {}", "say {}", "think {}\nslow 5", "write {}.txt {}", "work 5 0.01\nsay {}", "hang {}", "crash {}",
    "run echo {}",
)  # fmt: skip
_PAUSES = (0.0, 0.0, 0.002, 0.01, 0.05, 0.2)


class RealSystem(SimulatedSystem):
    agent = "demo"
    poll_seconds = 0.2

    def new_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()

    def patches(self) -> list[Any]:
        return [
            mock.patch("farsteer.runner.journal.Writer", KillableWriter),
            mock.patch("farsteer.hub.store.sqlite.store.Writer", KillableWriter),
            mock.patch("farsteer.hub.store.sqlite.store.Readers", KillableReaders),
        ]

    def registry(self) -> AgentRegistry:
        return AgentRegistry(self.root / "runner")

    def agents(self) -> list[int]:
        return [child.pid for child in psutil.Process().children() if _is_agent(child)]

    def processes(self) -> int:
        return len(self.agents())

    def all_processes(self) -> int:
        return len(self.agents())

    def check_processes(self) -> None:
        assert self.processes() <= 1

    def check_agent(self, tracked: TrackedSession, outcomes: dict[str, ItemState]) -> None:
        """The agent's own file has every visible delivered message once, and no cancelled or failed one."""
        native_id = tracked.stored_state(self.db).native_id or tracked.id
        path = self.root / "runner" / "agents" / "demo" / f"{native_id}.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        records = [json.loads(line) for line in lines]
        texts = [record["text"].replace(".txt", "") for record in records if record["role"] == "user"]
        received = Counter(word for text in texts for word in {*text.split()} & outcomes.keys())
        shown = [one.content for one in tracked.checker.visible if isinstance(one.content, ev.UserMessage)]
        seen = {word for one in shown for word in {*one.text.replace(".txt", "").split()} & outcomes.keys()}
        for name, state in outcomes.items():
            assert received[name] <= 1, f"{name} was delivered {received[name]} times"
            if state is ItemState.DELIVERED and name in seen and not tracked.checker.rewound:
                assert received[name] == 1, f"{name} is delivered, and the agent does not have it"
            elif state in (ItemState.CANCELLED, ItemState.FAILED):
                assert received[name] == 0, f"{name} is {state}, and the agent has it"


def _is_agent(process: psutil.Process) -> bool:
    try:
        return is_alive(process) and "farsteer.agents.demo.agent" in process.cmdline()
    except psutil.Error:
        return False  # it has ended since


class RandomDriver:
    """Takes random steps, the same for the same seed. Their timing is not reproducible."""

    def __init__(self, system: RealSystem, seed: int) -> None:
        self.system = system
        self._random = random.Random(seed)
        self._sent = 0

    def step(self) -> str:
        name = self._random.choices(*zip(*_WEIGHTS.items(), strict=True))[0]
        getattr(self, name)()
        self.system.run(self.system.wait(self._random.choice(_PAUSES)))
        self.system.check()
        return name

    def send(self) -> None:
        self._sent += 1
        name = f"m{self._sent}"
        delivery = self._random.choice([*Delivery, Delivery.QUEUE, Delivery.QUEUE])
        text = self._random.choice(_SCRIPTS).format(name, name)
        self.system.local_ids[name] = text
        self.system.send(name, "", delivery)

    def cancel(self) -> None:
        if self.system.names:
            self.system.cancel(self._random.choice([*self.system.names.values()]))

    def send_now(self) -> None:
        if self.system.names:
            self.system.send_now(self._random.choice([*self.system.names.values()][-3:]))

    def answer(self) -> None:
        if self.system.checker.approvals:
            outcome = self._random.choice((Outcome.APPROVED, Outcome.DENIED, Outcome.ABORT))
            for _ in range(self._random.choice((1, 1, 2))):
                self.system.respond(
                    self._random.choice(self.system.checker.approvals[-2:]), Answer(outcome=outcome)
                )

    def command(self) -> None:
        modes = (PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.PLAN)
        configure = commands.Configure(permission_mode=self._random.choice(modes))
        self.system.command(
            self._random.choice(
                (
                    commands.Abort(),
                    commands.Abort(),
                    commands.Stop(),
                    commands.Resume(),
                    commands.Prewarm(),
                    configure,
                )
            )
        )

    def rewind(self) -> None:
        self.system.rewind(self._random.randrange(3), files=self._random.random() < 0.5)

    def kill_agent(self) -> None:
        for pid in self.system.agents():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_runner(self) -> None:
        self.system.run(self.system.kill_runner(lose=self._random.random() < 0.5, linger=0))
        self.system.check()
        self.system.run(self.system.start_runner())

    def kill_hub(self) -> None:
        self.system.run(self.system.kill_hub(lose=self._random.random() < 0.5))
        self.system.check()
        self.system.run(self.system.start_hub())

    def cut_link(self) -> None:
        self.system.run(self.system.cut_link())


_WEIGHTS = {
    "send": 10, "cancel": 2, "send_now": 2, "answer": 4, "command": 5, "rewind": 1, "kill_agent": 1, "kill_runner": 1,
    "kill_hub": 1, "cut_link": 1,
}  # fmt: skip
