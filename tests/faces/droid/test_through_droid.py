"""A Droid behind the face: what it says comes out as it went in, though it went through our log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from farsteer.cli.daemon.in_process import in_process_hub
from farsteer.faces.droid.sessions import ServerOptions
from tests.support.droid_client import DroidClient, droid_here, of, text_of
from tests.support.droid_simulator import install


@pytest.fixture
async def client(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DroidClient]:
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, "0.215"))
    async with droid_here(partial(in_process_hub, home), ServerOptions(agent="droid")) as client:
        yield client


async def test_a_permission_keeps_its_details(client: DroidClient, desk: Path) -> None:
    await client.initialize(desk)
    await client.ask("add_user_message", {"text": "run touch made.txt"})
    asked = await client.until_request("request_permission")
    (use,) = asked["params"]["toolUses"]
    assert use["details"] == {
        "type": "exec", "fullCommand": "touch made.txt", "command": "touch", "extractedCommands": ["touch"],
        "impactLevel": "medium", "riskLevelReason": "It looks medium",
    }  # fmt: skip
    assert "raises the autonomy of the whole session to medium" in asked["params"]["options"][1]["label"]
    await client.select(asked, "proceed_always")
    notes = await client.until_idle()
    assert of(notes, "settings_updated")[0]["settings"]["autonomyLevel"] == "medium"
    assert (desk / "made.txt").exists()


async def test_a_plan_is_left_in_the_documents_order(client: DroidClient, desk: Path) -> None:
    await client.initialize(desk, autonomyLevel="spec")
    await client.ask("add_user_message", {"text": "plan A | B"})
    asked = await client.until_request("request_permission")
    (use,) = asked["params"]["toolUses"]
    assert use["details"]["optionNames"] == ["A", "B"]
    assert len(asked["params"]["options"]) == 5
    await client.select(asked, "proceed_auto_run_low")
    notes = await client.until_idle()
    order = [
        note["type"]
        for note in notes
        if note["type"] in ("settings_updated", "permission_resolved", "tool_result")
    ]
    assert order == ["settings_updated", "permission_resolved", "tool_result"]
    assert of(notes, "settings_updated")[0]["settings"]["autonomyLevel"] == "auto-low"


async def test_retries_and_retractions_are_told(client: DroidClient, desk: Path) -> None:
    await client.initialize(desk)
    notes = await client.turn("retry 1")
    assert [note["attempt"] for note in of(notes, "llm_retry")] == [1]
    assert text_of(notes) == "The answer isThe answer is 42.", "streamed again after the retry was told"
    notes = await client.turn("retract")
    (retracted,) = of(notes, "assistant_message_retracted")
    deltas = of(notes, "assistant_text_delta")
    assert deltas[0]["messageId"] == retracted["messageId"] != deltas[-1]["messageId"]
    assert (deltas[-1]["blockIndex"], deltas[-1]["textDelta"]) == (0, "Something else.")


async def test_a_failed_model_is_told_once_and_by_its_name(client: DroidClient, desk: Path) -> None:
    await client.initialize(desk)
    notes = await client.turn("fail")
    assert [note["message"] for note in of(notes, "error")] == ["401 Incorrect API key"]
    assert of(notes, "agent_turn_completed")[0]["reason"] == "model_authentication_failed"


async def test_a_sign_in_is_asked_for(client: DroidClient, desk: Path) -> None:
    await client.initialize(desk)
    (asked,) = of(await client.turn("mcp auth"), "mcp_auth_required")
    assert (asked["serverName"], asked["message"]) == ("linear", "Authentication required for linear")


async def test_what_nobody_knows_comes_out_again(client: DroidClient, desk: Path) -> None:
    await client.initialize(desk)
    assert of(await client.turn("unknown"), "telepathy") == [{"type": "telepathy", "strength": 3}]
