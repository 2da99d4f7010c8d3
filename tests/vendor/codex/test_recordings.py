"""The golden wire files are what the real Codex says."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.conformance.harness import Harness
from tests.support.model import ScriptedModel
from tests.support.wire.codex import CODEX
from tests.vendor.codex.schema import Schema
from tests.vendor.conftest import required
from tests.vendor.pins import CODEX as CODEX_PIN
from tests.vendor.recordings import chosen, record_or_compare

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(120)]

CHECKED = (
    "plain_turn",
    "command_allowed",
    "edit_denied",
    "interrupt_in_stream",
    "retry",
    "rewind",
    "mcp_call",
)


@pytest.mark.parametrize("name", chosen(CODEX, CHECKED))
async def test_a_new_recording_has_the_shape_of_the_stored_one(
    name: str, harness: Harness, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recording = await record_or_compare(CODEX, name, harness, model, monkeypatch)
    schema = Schema(required(CODEX_PIN), tmp_path / "schema")
    for exchange in recording.exchanges:
        schema.check(exchange)
