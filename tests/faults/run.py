"""One run: a deployment, its clients, and a number of kills."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import msgspec

from tests.faults.clients import Clients
from tests.faults.deployment import NAMES, Deployment, Name
from tests.faults.fork_server import SOURCE

CHECK_EVERY = 10
"""Ordered kills between two full checks."""
UPDATE_CHANCE = 0.03
"""Of one that is of a release, before each kill."""
_FREEZE_SECONDS = (0.02, 0.1, 0.5)


class Summary(msgspec.Struct):
    """What happened in a run. Several can be added."""

    kills: Counter[str] = msgspec.field(default_factory=Counter[str])
    """By victim, moment and step."""
    starts: Counter[str] = msgspec.field(default_factory=Counter[str])
    operations: Counter[str] = msgspec.field(default_factory=Counter[str])
    outcomes: Counter[str] = msgspec.field(default_factory=Counter[str])
    checks: int = 0
    violations: list[str] = msgspec.field(default_factory=list[str])
    seconds: float = 0.0

    def add(self, other: Summary) -> None:
        self.kills += other.kills
        self.starts += other.starts
        self.operations += other.operations
        self.outcomes += other.outcomes
        self.checks += other.checks
        self.violations += other.violations
        self.seconds = max(self.seconds, other.seconds)

    def describe(self) -> str:
        victims: Counter[str] = Counter()
        for kill, count in self.kills.items():
            victims[kill.split()[0]] += count
        return "\n".join(
            (
                f"kills       {self.kills.total()}: {_counts(victims)}",
                *(f"            {count:6} {kill}" for kill, count in sorted(self.kills.items())),
                f"starts      {_counts(self.starts)}",
                f"messages    {self.outcomes.total()}: {_counts(self.outcomes)}",
                f"operations  {self.operations.total()}: {_counts(self.operations)}",
                f"checks      {self.checks}",
                f"violations  {len(self.violations)}",
                *self.violations,
                f"seconds     {self.seconds:.0f}",
            )
        )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items()))


async def run_kills(
    root: Path,
    port: int,
    seed: int,
    part: int,
    kills: int,
    older: Name | None = None,
    release: Path | None = None,
) -> Summary:
    """Kill until `kills` ordered kills have happened. Raises AssertionError for a broken promise.

    The database of `older` is also copied, and set back to a copy, at random. Of one only: what both have lost runs
    again. With the source of a `release` the hub, the runner or both begin as that, and are updated.
    """
    rng = random.Random(f"{seed} {part}")
    started = time.monotonic()
    summary = Summary()
    old = [()] if release is None else [("hub",), ("runner",), NAMES]
    deployment = Deployment(root, port, rng, rng.choice(old), release or SOURCE)
    async with deployment, Clients(deployment, rng) as clients:
        run = rng.randrange(1000)
        while deployment.ordered_kills().total() < kills:
            run += 1
            print(f"seed {seed} part {part} run {run}:", deployment.arm(run), flush=True)
            if deployment.old and rng.random() < UPDATE_CHANCE:
                print("   update", deployment.update(), flush=True)
                clients.operations["update"] += 1
            await _act(deployment, clients, rng, run)
            if older is not None:
                await _restore(deployment, clients, rng, older)
            await clients.wait(until_idle=run % CHECK_EVERY == 0)
            deployment.disarm()
            if run % CHECK_EVERY == 0:
                await clients.check()
                summary.checks += 1
        await clients.wait(until_idle=True)
        await clients.check()
        summary.checks += 1
        summary.kills = deployment.ordered_kills() + Counter(
            {f"{victim} now": count for victim, count in deployment.kills_now.items()}
        )
        summary.starts = deployment.starts
        summary.operations = clients.operations
        summary.outcomes = clients.count_outcomes()
    summary.seconds = time.monotonic() - started
    return summary


async def _restore(deployment: Deployment, clients: Clients, rng: random.Random, name: Name) -> None:
    chance = rng.random()
    if chance < 0.1:
        deployment.back_up(name)
        clients.operations[f"backup of the {name}"] += 1
    elif chance < 0.2 and deployment.has_backup(name):
        print(f"   set back {name}", flush=True)
        clients.expect_set_back(name)
        await deployment.set_back(name)
        clients.handle_set_back(name)
        clients.operations[f"restore of the {name}"] += 1


async def _act(deployment: Deployment, clients: Clients, rng: random.Random, run: int) -> None:
    for number in range(rng.randint(1, 3)):
        if rng.random() < 0.4:
            print("  ", clients.act(), flush=True)
        await clients.send(f"r{run}m{number}")
        chance = rng.random()
        if chance < 0.08:
            victim = rng.choice((*NAMES, "agents"))
            print("   kill", victim, flush=True)
            deployment.kill(victim)
        elif chance < 0.10:
            deployment.restart(rng.choice(NAMES))
            clients.operations["restart"] += 1
        elif chance < 0.13:
            deployment.freeze(rng.choice(NAMES), rng.choice(_FREEZE_SECONDS))
            clients.operations["freeze"] += 1
