"""Recorded exchanges with the real Codex give the outputs in `golden/`."""

from __future__ import annotations

import pytest

from tests.support.wire.codex import CODEX
from tests.support.wire.replay import check_files, replay


@pytest.mark.parametrize("name", CODEX.scenarios)
async def test_a_recorded_exchange_gives_its_golden_outputs(name: str) -> None:
    assert await replay(CODEX, name) == CODEX.golden(name).read_text(), (
        "if this is intended, run .venv/bin/python -m tests.support.wire.replay codex and read the changes"
    )


def test_every_scenario_has_its_files_and_they_name_nothing_of_a_machine() -> None:
    check_files(CODEX)
