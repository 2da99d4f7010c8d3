"""A Droid behind the face: its notifications survive the way through our log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from farsteer.cli.daemon.in_process import in_process_hub
from farsteer.faces.droid.sessions import ServerOptions
from tests.support.droid_client import DroidClient, droid_here, of, text_of
from tests.support.droid_simulator import install

pytestmark = pytest.mark.slow


@pytest.fixture
async def client(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DroidClient]:
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, "0.215"))
    async with droid_here(partial(in_process_hub, home), ServerOptions(agent="droid")) as client:
        yield client


async def test_a_permission_keeps_its_details(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
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
    assert (project / "made.txt").exists()


async def test_every_tool_use_of_one_request_is_passed_on(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.ask("add_user_message", {"text": "batch ls | touch made.txt"})
    asked = await client.until_request("request_permission")
    uses = asked["params"]["toolUses"]
    assert sorted(use["toolUse"]["input"]["command"] for use in uses) == ["ls", "touch made.txt"]
    assert sorted(use["details"]["fullCommand"] for use in uses) == ["ls", "touch made.txt"]
    await client.select(asked, "cancel")
    await client.until_idle()
    assert not (project / "made.txt").exists()


async def test_the_order_of_notifications_after_a_plan(client: DroidClient, project: Path) -> None:
    await client.initialize(project, autonomyLevel="spec")
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


async def test_retries_and_retractions_are_sent(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    notes = await client.turn("retry 1")
    assert [note["attempt"] for note in of(notes, "llm_retry")] == [1]
    assert text_of(notes) == "The answer isThe answer is 42.", "streamed again after the retry"
    notes = await client.turn("retract")
    (retracted,) = of(notes, "assistant_message_retracted")
    deltas = of(notes, "assistant_text_delta")
    assert deltas[0]["messageId"] == retracted["messageId"] != deltas[-1]["messageId"]
    last = [one for one in deltas if one["messageId"] == deltas[-1]["messageId"]]
    assert ({one["blockIndex"] for one in last}, "".join(one["textDelta"] for one in last)) == (
        {0},
        "Something else.",
    )


async def test_the_models_that_droid_lists_are_those_of_the_face(client: DroidClient, project: Path) -> None:
    opened = await client.initialize(project)
    named = [model["id"] for model in opened["availableModels"]]
    assert named == ["sim-1"]
    assert [model["id"] for model in (await client.ask("list_models", {}))["models"]] == named
    refused = await client.call(
        "initialize_session", {"machineId": "m", "cwd": str(project), "modelId": "opus"}
    )
    assert refused["error"]["code"] == -32600


async def test_a_model_error_is_sent_once_with_its_reason(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    notes = await client.turn("fail")
    assert [note["message"] for note in of(notes, "error")] == ["401 Incorrect API key"]
    assert of(notes, "agent_turn_completed")[0]["reason"] == "model_authentication_failed"


async def test_required_authentication_is_sent(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    (asked,) = of(await client.turn("mcp auth"), "mcp_auth_required")
    assert (asked["serverName"], asked["message"]) == ("linear", "Authentication required for linear")


async def test_an_unknown_notification_is_passed_on(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    assert of(await client.turn("unknown"), "telepathy") == [{"type": "telepathy", "strength": 3}]
