"""The golden wire files are what the real Claude Code says."""

from __future__ import annotations

import pytest

from farsteer.agents.conformance.harness import Harness
from tests.support.model import ScriptedModel
from tests.support.wire.claude import CLAUDE
from tests.vendor.recordings import chosen, record_or_compare

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(120)]

CHECKED = (
    "plain_turn",
    "command_allowed",
    "edit",
    "question",
    "interrupt_in_stream",
    "rewind_with_files",
    "mcp_call",
)


@pytest.mark.parametrize("name", chosen(CLAUDE, CHECKED))
async def test_a_new_recording_has_the_shape_of_the_stored_one(
    name: str, harness: Harness, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    await record_or_compare(CLAUDE, name, harness, model, monkeypatch)
