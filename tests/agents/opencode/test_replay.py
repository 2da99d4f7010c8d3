"""Recorded exchanges with the real CLI give the outputs in `golden/`."""

from __future__ import annotations

import pytest

from tests.support.wire.acp import ACP_AGENTS
from tests.support.wire.replay import check_files, replay

AGENT = ACP_AGENTS["opencode"]


@pytest.mark.parametrize("name", AGENT.scenarios)
async def test_a_recorded_exchange_gives_its_golden_outputs(name: str) -> None:
    assert await replay(AGENT, name) == AGENT.golden(name).read_text(), (
        "if this is intended, run .venv/bin/python -m tests.support.wire.replay opencode and read the changes"
    )


def test_every_scenario_has_its_files_and_they_name_nothing_of_a_machine() -> None:
    check_files(AGENT)
