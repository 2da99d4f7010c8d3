"""Fixtures for tests with a real CLI: the program and a scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.model import ScriptedModel
from tests.vendor.install import in_ci, program
from tests.vendor.pins import Pin

pytest.register_assert_rewrite(
    *(f"tests.vendor.catalog.{name}" for name in ("approvals", "failures", "service", "turns"))
)


def required(pin: Pin) -> Path:
    """Return the program of a pinned CLI. If it is missing, the test fails in CI and is skipped elsewhere."""
    path = program(pin)
    if not path.exists():
        missing = f"{pin.name} {pin.version} is not installed: run make test-agents"
        if in_ci():
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Iterator[ScriptedModel]:
    with ScriptedModel(log=tmp_path / "model.jsonl") as model:
        yield model
    model.check()
