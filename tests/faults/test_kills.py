"""SIGKILL of agent, runner and hub at every step from send to answer.

No message is lost or delivered twice, and each has one outcome.

`make test-faults FAULT_RUNS=1000 SEED=7` runs more, or others.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faults.deployment import Deployment
from tests.support.ports import free_port

RUNS = int(os.environ.get("FAULT_RUNS", "200"))
CHUNKS = 8
SESSIONS = 3


async def run_kills(root: Path, seed: int, runs: range) -> None:
    rng = random.Random(f"{seed} {runs}")
    async with Deployment(root, free_port(), rng) as deployment:
        sessions = [await deployment.create_session() for _ in range(SESSIONS)]
        for run in runs:
            print(f"run {run} of seed {seed}:", deployment.arm(run), flush=True)
            for message in range(rng.randint(2, 5)):
                await deployment.send(rng.choice(sessions), f"r{run}m{message}")
                if rng.random() < 0.1:
                    print(" ", deployment.kill_now(), flush=True)
            await deployment.wait_for_outcomes()
            deployment.disarm()
            await deployment.restart_dead()
        await deployment.wait_for_outcomes()
        await deployment.check()
        print(dict(deployment.outcomes))
        assert deployment.outcomes["delivered"] > deployment.outcomes["unknown"]


@pytest.mark.slow
async def test_a_few_random_kills_lose_and_double_nothing(tmp_path: Path, endurance_seed: int) -> None:
    await run_kills(tmp_path, endurance_seed, range(3, 60, 10))


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("chunk", range(CHUNKS))
async def test_random_kills_lose_and_double_nothing(tmp_path: Path, endurance_seed: int, chunk: int) -> None:
    await run_kills(tmp_path, endurance_seed, range(chunk, RUNS, CHUNKS))
