from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer.agents.conformance.stage import Stage
from farsteer.agents.demo.adapter import DemoAdapter
from tests.agents.demo.test_conformance import TestDemo as Suite


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A place to play with the demo agent; everything it said is held to the rules at the end."""
    stage = Stage(DemoAdapter(), Suite.script, tmp_path, patience=10.0)
    yield stage
    await stage.close()
