"""The golden wire files are what the real Qwen Code says."""

from __future__ import annotations

import pytest

from farsteer.agents.conformance.harness import Harness
from tests.support.model import ScriptedModel
from tests.support.wire.acp import ACP_AGENTS
from tests.vendor.recordings import chosen, record_or_compare

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(120)]

AGENT = ACP_AGENTS["qwen"]
CHECKED = ("plain_turn", "command_allowed", "edit_allowed", "interrupt_in_stream")


@pytest.mark.parametrize("name", chosen(AGENT, CHECKED))
async def test_a_new_recording_has_the_shape_of_the_stored_one(
    name: str, harness: Harness, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    await record_or_compare(AGENT, name, harness, model, monkeypatch)
