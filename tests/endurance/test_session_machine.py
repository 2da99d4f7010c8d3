"""The promises of a session hold after every step, whatever clients do and whatever is killed.

`pytest tests/endurance --endurance-seed N` repeats a run; a failure is shrunk to the steps it needs.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.endurance.state_machine import SessionMachine

STEPS = 50


def run_steps(number: int, steps: int) -> None:
    print(f"--endurance-seed {number}")
    SessionMachine.steps = 0
    machine = seed(number)(SessionMachine)
    how = settings(
        max_examples=2 * steps // STEPS, stateful_step_count=STEPS, deadline=None, database=None,
        print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=how)
    assert SessionMachine.steps >= steps


@pytest.mark.slow
@pytest.mark.timeout(400)  # shrinking takes long
def test_a_session_keeps_its_promises_at_random(endurance_seed: int) -> None:
    run_steps(endurance_seed, 200)


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_a_session_keeps_its_promises_for_thousands_of_steps(endurance_seed: int) -> None:
    run_steps(endurance_seed, 2000)
