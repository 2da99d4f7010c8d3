"""The same promises with the demo agent's real process. The seed gives the steps; the machine gives their timing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.endurance.real import Driver, RealWorld


def endure(root: Path, number: int, steps: int) -> None:
    with RealWorld(root) as world:
        driver = Driver(world, number)
        for step in range(steps):
            print(f"step {step} of --endurance-seed {number}:", driver.step(), flush=True)


@pytest.mark.slow
def test_a_session_of_a_real_process_keeps_its_promises_at_random(
    tmp_path: Path, endurance_seed: int
) -> None:
    endure(tmp_path, endurance_seed, 40)


@pytest.mark.faults
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(4))
def test_sessions_of_a_real_process_keep_their_promises(
    tmp_path: Path, endurance_seed: int, part: int
) -> None:
    endure(tmp_path, endurance_seed + part + 1, 150)
