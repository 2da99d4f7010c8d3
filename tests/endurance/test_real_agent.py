"""The same promises with the real process of the demo agent. The seed gives the steps, not their timing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.endurance.real_system import RandomDriver, RealSystem


def run_steps(root: Path, seed: int, steps: int) -> None:
    with RealSystem(root) as system:
        driver = RandomDriver(system, seed)
        for step in range(steps):
            print(f"step {step} of --endurance-seed {seed}:", driver.step(), flush=True)


@pytest.mark.slow
def test_a_session_of_a_real_process_keeps_its_promises_at_random(
    tmp_path: Path, endurance_seed: int
) -> None:
    run_steps(tmp_path, endurance_seed, 40)


@pytest.mark.faults
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(4))
def test_sessions_of_a_real_process_keep_their_promises(
    tmp_path: Path, endurance_seed: int, part: int
) -> None:
    run_steps(tmp_path, endurance_seed + part + 1, 150)
