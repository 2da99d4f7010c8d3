"""The same world with the demo agent: a real process, real threads, real time."""

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

from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.approvals import Answer, Outcome
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import Delivery, ItemState
from tests.endurance.disk import MortalReaders, MortalWriter
from tests.endurance.world import World
from tests.support.processes import is_alive

_SCRIPTS = (
    "say {}", "say {}", "think {}\nslow 5", "write {}.txt {}", "work 5 0.01\nsay {}", "hang {}", "crash {}",
    "run echo {}",
)  # fmt: skip
_PAUSES = (0.0, 0.0, 0.002, 0.01, 0.05, 0.2)


class RealWorld(World):
    agent = "demo"
    moment = 0.2

    def new_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()

    def patches(self) -> list[Any]:
        return [
            mock.patch("farsteer.runner.journal.Writer", MortalWriter),
            mock.patch("farsteer.hub.store.sqlite.store.Writer", MortalWriter),
            mock.patch("farsteer.hub.store.sqlite.store.Readers", MortalReaders),
        ]

    def agents(self) -> list[int]:
        return [
            child.pid
            for child in psutil.Process().children()
            if is_alive(child) and "farsteer.agents.demo.agent" in child.cmdline()
        ]

    def processes(self) -> int:
        return len(self.agents())

    def compare(self, outcomes: dict[str, ItemState]) -> None:
        """What is seen and was delivered is in the agent's own file, once; the rest is not."""
        native_id = self.hub_state().native_id or self.session
        path = self.root / "runner" / "agents" / "demo" / f"{native_id}.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        records = [json.loads(line) for line in lines]
        said = [record["text"].replace(".txt", "") for record in records if record["role"] == "user"]
        taken = Counter(word for text in said for word in {*text.split()} & outcomes.keys())
        shown = [one.content for one in self.ledger.visible if isinstance(one.content, ev.UserMessage)]
        seen = {word for one in shown for word in {*one.text.replace(".txt", "").split()} & outcomes.keys()}
        for name, state in outcomes.items():
            assert taken[name] <= 1, f"{name} was delivered {taken[name]} times"
            if state is ItemState.DELIVERED and name in seen and not self.ledger.rewound:
                assert taken[name] == 1, f"{name} is delivered, and the agent does not have it"
            elif state in (ItemState.CANCELLED, ItemState.FAILED):
                assert taken[name] == 0, f"{name} is {state}, and the agent has it"


class Driver:
    """Random steps, the same for the same seed; when what happens is the machine's affair."""

    def __init__(self, world: RealWorld, number: int) -> None:
        self.world = world
        self._chance = random.Random(number)
        self._sent = 0

    def step(self) -> str:
        name = self._chance.choices(*zip(*_WEIGHTS.items(), strict=True))[0]
        getattr(self, name)()
        self.world.do(self.world.wait(self._chance.choice(_PAUSES)))
        self.world.check()
        return name

    def send(self) -> None:
        self._sent += 1
        name = f"m{self._sent}"
        delivery = self._chance.choice([*Delivery, Delivery.QUEUE, Delivery.QUEUE])
        text = self._chance.choice(_SCRIPTS).format(name, name)
        self.world.local_ids[name] = text
        self.world.send(name, "", delivery)

    def cancel(self) -> None:
        if self.world.names:
            self.world.cancel(self._chance.choice([*self.world.names.values()]))

    def send_now(self) -> None:
        if self.world.names:
            self.world.send_now(self._chance.choice([*self.world.names.values()][-3:]))

    def answer(self) -> None:
        if self.world.ledger.asked:
            outcome = self._chance.choice((Outcome.APPROVED, Outcome.DENIED, Outcome.ABORT))
            for _ in range(self._chance.choice((1, 1, 2))):
                self.world.respond(self._chance.choice(self.world.ledger.asked[-2:]), Answer(outcome=outcome))

    def command(self) -> None:
        modes = (PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.PLAN)
        configure = commands.Configure(permission_mode=self._chance.choice(modes))
        self.world.command(
            self._chance.choice(
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
        self.world.rewind(self._chance.randrange(3), files=self._chance.random() < 0.5)

    def kill_agent(self) -> None:
        for pid in self.world.agents():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_runner(self) -> None:
        self.world.do(self.world.kill_runner(lose=self._chance.random() < 0.5, linger=0))
        self.world.check()
        self.world.do(self.world.start_runner())

    def kill_hub(self) -> None:
        self.world.do(self.world.kill_hub(lose=self._chance.random() < 0.5))
        self.world.check()
        self.world.do(self.world.start_hub())

    def cut_link(self) -> None:
        self.world.do(self.world.cut_link())


_WEIGHTS = {
    "send": 10, "cancel": 2, "send_now": 2, "answer": 4, "command": 5, "rewind": 1, "kill_agent": 1, "kill_runner": 1,
    "kill_hub": 1, "cut_link": 1,
}  # fmt: skip
