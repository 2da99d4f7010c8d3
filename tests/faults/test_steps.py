"""The steps at which the fault tests kill a process are named as strings: each must exist."""

import functools
import importlib

import pytest

from tests.faults.process import STEPS


@pytest.mark.parametrize("step", sorted({step for steps in STEPS.values() for step in steps}))
def test_the_named_step_is_a_method(step: str) -> None:
    module, _, path = step.partition(":")
    assert callable(functools.reduce(getattr, path.split("."), importlib.import_module(module)))
