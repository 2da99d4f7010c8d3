"""SIGKILL of agent, runner and hub at every step from send to answer: nothing lost, nothing twice, an outcome each.

`make test-faults FAULT_RUNS=1000 SEED=7` runs more, or others.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet
from tests.support.ports import free_port

RUNS = int(os.environ.get("FAULT_RUNS", "200"))
CHUNKS = 8
SESSIONS = 3


async def endure(root: Path, number: int, runs: range) -> None:
    chance = random.Random(f"{number} {runs}")
    async with Fleet(root, free_port(), chance) as fleet:
        sessions = [await fleet.begin_session() for _ in range(SESSIONS)]
        for run in runs:
            print(f"run {run} of seed {number}:", fleet.arm(run), flush=True)
            for message in range(chance.randint(2, 5)):
                await fleet.send(chance.choice(sessions), f"r{run}m{message}")
                if chance.random() < 0.1:
                    print(" ", fleet.kill_now(), flush=True)
            await fleet.settle()
            fleet.disarm()
            await fleet.heal()
        await fleet.settle()
        await fleet.count()
        print(dict(fleet.found))
        assert fleet.found["delivered"] > fleet.found["unknown"]


@pytest.mark.slow
async def test_a_few_random_kills_lose_and_double_nothing(tmp_path: Path, endurance_seed: int) -> None:
    await endure(tmp_path, endurance_seed, range(3, 60, 10))


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("chunk", range(CHUNKS))
async def test_random_kills_lose_and_double_nothing(tmp_path: Path, endurance_seed: int, chunk: int) -> None:
    await endure(tmp_path, endurance_seed, range(chunk, RUNS, CHUNKS))
