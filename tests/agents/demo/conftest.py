from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer.agents.conformance.harness import Harness
from farsteer.agents.demo.adapter import DemoAdapter
from tests.agents.demo.test_conformance import TestDemo as Suite


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    """A harness for the demo agent. At its end it checks the output rules."""
    harness = Harness(DemoAdapter(), Suite.prompts, tmp_path, step_timeout=10.0)
    yield harness
    await harness.close()
