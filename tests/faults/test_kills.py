"""SIGKILL of agent, runner and hub at every step from send to answer, while clients do everything they can.

No message is lost or executed twice, each has one outcome, and whoever follows live misses nothing.

`make test-faults FAULT_RUNS=1000 SEED=7` runs more, or others. `make kills KILLS=10000` is the long run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.run import run_kills
from tests.support.ports import free_port

RUNS = int(os.environ.get("FAULT_RUNS", "200"))
CHUNKS = 8


async def check(root: Path, seed: int, part: int, kills: int) -> None:
    summary = await run_kills(root, free_port(), seed, part, kills)
    print(summary.describe())
    assert summary.outcomes["delivered"] > summary.outcomes["unknown"]


@pytest.mark.slow
async def test_a_few_random_kills_lose_and_double_nothing(tmp_path: Path, endurance_seed: int) -> None:
    await check(tmp_path, endurance_seed, CHUNKS, 6)


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("chunk", range(CHUNKS))
async def test_random_kills_lose_and_double_nothing(tmp_path: Path, endurance_seed: int, chunk: int) -> None:
    await check(tmp_path, endurance_seed, chunk, len(range(chunk, RUNS, CHUNKS)))
