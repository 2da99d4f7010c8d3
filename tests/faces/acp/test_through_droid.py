"""ACP in front of a simulated Droid."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from farsteer.faces.acp.server import AcpOptions
from tests.faces.acp.conftest import Editors
from tests.support.acp_client import FORMS, Editor, choose_option
from tests.support.droid_simulator import install
from tests.support.stack import Stack

VERSIONS = ["0.215", "0.57"]


@pytest.fixture(params=VERSIONS)
async def editor(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    editors: Editors,
) -> AsyncIterator[Editor]:
    habits = ("--misbehave", "premature-idle", "--misbehave", "duplicates")
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, request.param, *habits))
    async with editors(AcpOptions(agent="droid"), answer=choose_option("allow_once")) as editor:
        yield editor


async def test_a_premature_idle_does_not_answer_the_prompt_before_its_last_message(
    editor: Editor, stack: Stack
) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    for number in range(3):
        editor.clear()
        assert await editor.prompt(session, f"say number {number}") == "end_turn"
        assert editor.text() == f"number {number}"
        assert editor.log[-1].startswith("answer")


async def test_the_models_that_droid_lists_can_be_chosen(editor: Editor, stack: Stack) -> None:
    new = await editor.new(stack.directory())
    (picker,) = [one for one in new["configOptions"] if one["id"] == "model"]
    assert "sim-1" in {one["value"] for one in picker["options"]}
    assert "sim-1" in {one["modelId"] for one in new["models"]["availableModels"]}


async def test_a_permission_of_droid_is_asked_once_and_answered(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    assert await editor.prompt(session, "run touch made.txt") == "end_turn"
    assert (Path(stack.directory()) / "made.txt").exists()
    assert len(editor.requests) == 1


async def test_an_editor_is_shown_every_tool_use_of_one_request(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    assert await editor.prompt(session, "batch ls | touch made.txt | rm -rf made.txt") == "end_turn"
    ((_, params),) = editor.requests
    call = params["toolCall"]
    assert call["title"] == "3 actions: ls; touch made.txt; rm -rf made.txt"
    assert call["kind"] == "execute"
    texts = [block["content"]["text"] for block in call["content"]]
    for number, command in enumerate(("ls", "touch made.txt", "rm -rf made.txt")):
        assert texts[number].startswith(f"{number + 1}. {command} (execute)")
    assert [one["arguments"]["command"] for one in call["rawInput"]["toolCalls"]][2] == "rm -rf made.txt"


async def test_cancel_ends_a_turn_of_droid(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    running = editor.start_prompt(session, "work")
    await editor.wait_until(
        lambda: editor.updates_of("agent_message_chunk") or editor.updates_of("session_info_update")
    )
    editor.cancel(session)
    assert await running == "cancelled"


async def test_a_plan_of_droid_is_a_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, editors: Editors, stack: Stack
) -> None:
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, "0.215"))

    async def answer(method: str, params: dict[str, Any]) -> Any:
        assert method == "elicitation/create"
        fields = params["requestedSchema"]["properties"]
        (decision,) = [name for name in fields if "oneOf" in fields[name]]
        return {"action": "accept", "content": {decision: fields[decision]["oneOf"][0]["const"]}}

    async with editors(AcpOptions(agent="droid"), client=FORMS, answer=answer) as editor:
        session = (await editor.new(stack.directory()))["sessionId"]
        await editor.call("session/set_mode", sessionId=session, modeId="plan")
        assert await editor.prompt(session, "plan A | B") == "end_turn"
        assert len(editor.requests) == 1
        await editor.wait_for_update("current_mode_update")
