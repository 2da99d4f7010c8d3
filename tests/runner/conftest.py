from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer.runner.journal import Journal
from tests.runner.harness import SessionHarness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SessionHarness]:
    journal = await Journal.open(tmp_path / "runner.db")
    harness = SessionHarness(journal, tmp_path)
    yield harness
    if harness.actor is not None:
        await harness.actor.close("end of test")
    await journal.close()
